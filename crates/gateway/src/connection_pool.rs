//! The connections to one address of an upstream.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};
use hyper::{Request, Response};
use tokio::time::{Instant, sleep, timeout};

use crate::address_health::AddressHealth;
use crate::connector::{Connector, Http1, IDLE_TIME};
use crate::request_body::{Held, RequestBody, UPLOAD_TIME};
use crate::settings::UpstreamProtocol;

mod liveness;

mod shared_connections;

use shared_connections::{Share, SharedConnections};

/// The most connections to one address that wait for the next request; further ones are closed.
const IDLE_MAX: usize = 256;
/// How often connections that wait are looked at.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// An address, and the connections to it.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    connector: Connector,
    /// The most requests in flight, and so of connections that serve one.
    requests_max: usize,
    in_flight: AtomicUsize,
    pub(crate) health: AddressHealth,
    /// Of HTTP/1.1, those that wait for a request; the last one was used last.
    idle: Mutex<Vec<Idle>>,
    /// Whether a task closes those that have waited too long.
    is_watched: AtomicBool,
    /// Of HTTP/2, those that requests share.
    shared: SharedConnections,
}

#[derive(Debug)]
struct Idle {
    connection: Http1<RequestBody>,
    since: Instant,
}

#[derive(Debug)]
enum Sender {
    Http1(Http1<RequestBody>),
    Http2(http2::SendRequest<RequestBody>),
}

/// A connection for one request. Unless it is returned, a connection of HTTP/1.1 closes.
#[derive(Debug)]
pub(crate) struct Lease {
    sender: Option<Sender>,
    /// Over HTTP/2, the body of the request has it as well: the server may answer before it has all
    /// of it.
    counted: Arc<Counted>,
    /// Whether it has served another request before, so that the server may just have closed it.
    is_reused: bool,
    /// Over HTTP/2, how often something had arrived on the connection when the request was sent.
    arrivals: usize,
}

/// Counts a request in flight until it is dropped.
#[derive(Debug)]
struct Counted {
    pool: Arc<ConnectionPool>,
    /// Over HTTP/2, counts it on its connection too.
    share: Option<Share>,
}

// === impl ConnectionPool ===

impl ConnectionPool {
    pub(crate) fn new(connector: Connector, requests_max: usize) -> ConnectionPool {
        ConnectionPool {
            connector,
            requests_max,
            in_flight: AtomicUsize::new(0),
            health: AddressHealth::new(),
            idle: Mutex::default(),
            is_watched: AtomicBool::new(false),
            shared: SharedConnections::default(),
        }
    }

    pub(crate) fn address(&self) -> &str {
        self.connector.address()
    }

    pub(crate) const fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(crate) const fn protocol(&self) -> UpstreamProtocol {
        self.connector.protocol()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the next request waits until a connection is made, or is rejected.
    pub(crate) fn must_wait(&self) -> bool {
        let is_connected = match self.protocol() {
            UpstreamProtocol::Http1 => {
                let idle = self.lock_idle();
                idle.iter().rev().any(|one| self.is_usable(one))
            }
            UpstreamProtocol::H2c | UpstreamProtocol::H2 => self.shared.has_room(&self.connector),
        };
        !is_connected || self.in_flight() >= self.requests_max
    }

    /// A connection of HTTP/1.1 that waits for a request.
    pub(crate) fn try_lease(self: &Arc<ConnectionPool>) -> Option<Lease> {
        let counted = Counted::new(self)?;
        let connection = self.take_idle()?;
        Some(Lease {
            sender: Some(Sender::Http1(connection)),
            counted: Arc::new(counted),
            is_reused: true,
            arrivals: 0,
        })
    }

    /// A connection for a request: one that waits for it, or else a new one.
    ///
    /// # Errors
    ///
    /// Why there is none; `TimedOut` if connecting took too long, `ResourceBusy` if as many
    /// requests are in flight as may be.
    pub(crate) async fn lease(self: &Arc<ConnectionPool>) -> io::Result<Lease> {
        let busy = || io::Error::from(io::ErrorKind::ResourceBusy);
        let mut counted = Counted::new(self).ok_or_else(busy)?;
        let (sender, is_reused) = match self.protocol() {
            UpstreamProtocol::Http1 => match self.take_idle() {
                Some(connection) => (Sender::Http1(connection), true),
                None => {
                    // In a box, because each request has room for whatever it may wait for, and
                    // few wait for this.
                    let connection = Box::pin(self.connector.connect_http1()).await?;
                    (Sender::Http1(connection), false)
                }
            },
            UpstreamProtocol::H2c | UpstreamProtocol::H2 => {
                let (stream, is_reused) = self.shared.share(&self.connector).await?;
                counted.share = Some(stream.share);
                (Sender::Http2(stream.sender), is_reused)
            }
        };
        Ok(Lease {
            sender: Some(sender),
            counted: Arc::new(counted),
            is_reused,
            arrivals: 0,
        })
    }

    /// A new connection, also if others wait for a request: they may all have been closed.
    ///
    /// # Errors
    ///
    /// As [`ConnectionPool::lease`].
    pub(crate) async fn lease_new(self: &Arc<ConnectionPool>) -> io::Result<Lease> {
        self.lock_idle().clear();
        self.lease().await
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_idle(&self) -> Option<Http1<RequestBody>> {
        let mut idle = self.lock_idle();
        while let Some(one) = idle.pop() {
            if self.is_usable(&one) {
                return Some(one.connection);
            }
            if one.is_expired() {
                // The others have waited even longer.
                idle.clear();
            }
        }
        None
    }

    /// Whether an idle connection may serve the next request.
    fn is_usable(&self, idle: &Idle) -> bool {
        idle.is_ready() && !self.connector.is_outdated(idle.connection.opened_at)
    }

    fn put_idle(self: &Arc<ConnectionPool>, connection: Http1<RequestBody>) {
        if self.connector.is_outdated(connection.opened_at) {
            return;
        }
        let since = Instant::now();
        let mut idle = self.lock_idle();
        if idle.len() < IDLE_MAX {
            idle.push(Idle { connection, since });
        }
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            tokio::spawn(close_idle(Arc::downgrade(self)));
        }
    }

    /// Closes the connections that have waited too long, and forgets those that the server has
    /// closed, each of which keeps the memory of its task; says whether others wait.
    fn close_expired(&self) -> bool {
        let now = Instant::now();
        let mut idle = self.lock_idle();
        idle.retain(|one| one.since + IDLE_TIME > now && !one.connection.sender.is_closed());
        // Under the lock, so that the thread that adds the next one sees it.
        self.is_watched.store(!idle.is_empty(), Ordering::Relaxed);
        !idle.is_empty()
    }
}

// === impl Idle ===

impl Idle {
    fn is_expired(&self) -> bool {
        self.since.elapsed() > IDLE_TIME
    }

    /// Whether a request can be sent on it.
    fn is_ready(&self) -> bool {
        !self.is_expired() && self.connection.sender.is_ready()
    }
}

/// Closes a pool's connections that have waited too long, until none waits.
async fn close_idle(pool: Weak<ConnectionPool>) {
    loop {
        sleep(CHECK_EVERY).await;
        match pool.upgrade() {
            Some(pool) if pool.close_expired() => {}
            _ => return,
        }
    }
}

// === impl Lease ===

impl Lease {
    pub(crate) fn pool(&self) -> &Arc<ConnectionPool> {
        &self.counted.pool
    }

    /// Sends a request, and waits for the head of its response.
    ///
    /// # Errors
    ///
    /// What went wrong; with the request, if nothing of it was sent.
    pub(crate) async fn send(
        &mut self,
        mut request: Box<Request<RequestBody>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        match self.sender.as_mut().expect("it is only taken at the end") {
            Sender::Http1(connection) => connection.send(*request).await,
            Sender::Http2(sender) => {
                request
                    .body_mut()
                    .hold(Arc::<Counted>::clone(&self.counted));
                let share = self.counted.share.as_ref();
                self.arrivals = share.map_or(0, |share| share.liveness.arrivals());
                sender.try_send_request(*request).await
            }
        }
    }

    /// The head of the response has not come in time. If nothing else has come either since the
    /// request was sent, the connection gets no more requests; those that it has go on.
    pub(crate) fn report_late_head(&self) {
        if let Some(share) = &self.counted.share {
            share.liveness.check_since(self.arrivals);
        }
    }

    /// Whether other requests have the connection as well.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self.sender, Some(Sender::Http2(_)))
    }

    /// Whether the server may have closed the connection before the request was sent.
    pub(crate) const fn may_be_stale(&self) -> bool {
        self.is_reused
    }

    /// The response has arrived completely: keeps the connection for the next request.
    pub(crate) fn finish(mut self) {
        let Some(Sender::Http1(mut connection)) = self.sender.take() else {
            return;
        };
        if connection.sender.is_ready() {
            self.pool().put_idle(connection);
            return;
        }
        // The rest of the request may still be on its way. Until then the request counts, because
        // its connection is open and serves no other.
        let counted = self.counted;
        tokio::spawn(async move {
            let ready = timeout(UPLOAD_TIME, connection.sender.ready()).await;
            if matches!(ready, Ok(Ok(()))) {
                counted.pool.put_idle(connection);
            }
        });
    }
}

// === impl Counted ===

impl Counted {
    /// `None` if as many requests are in flight as may be.
    fn new(pool: &Arc<ConnectionPool>) -> Option<Counted> {
        // Relaxed: nothing else is read or written by who sees the count. A request that is
        // rejected is never counted, because another one could be rejected because of it.
        let (order, most) = (Ordering::Relaxed, pool.requests_max);
        let another = |before| (before < most).then_some(before + 1);
        let counting = pool.in_flight.fetch_update(order, order, another);
        counting.is_ok().then(|| Counted {
            pool: Arc::clone(pool),
            share: None,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.pool.in_flight.fetch_sub(1, Ordering::Relaxed);
        drop(self.share.take());
    }
}

impl Held for Counted {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http_body::Body;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::yield_now;
    use tokio::time::{advance, pause, resume};

    use super::*;
    use crate::request_body::tests::unfinished;

    const CONNECT: Duration = Duration::from_secs(5);

    async fn pool(requests_max: usize) -> (Arc<ConnectionPool>, TcpListener) {
        pool_of("127.0.0.1", requests_max).await
    }

    async fn pool_of(host: &str, requests_max: usize) -> (Arc<ConnectionPool>, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("{host}:{}", listener.local_addr().unwrap().port());
        let protocol = UpstreamProtocol::Http1;
        let connector = Connector::new(address, protocol, None, CONNECT);
        (
            Arc::new(ConnectionPool::new(connector, requests_max)),
            listener,
        )
    }

    #[tokio::test]
    async fn no_more_requests_are_in_flight_than_may_be() {
        let (pool, _listener) = pool(2).await;
        let first = pool.lease().await.unwrap();
        let _second = pool.lease().await.unwrap();
        let third = pool.lease().await.map(drop);
        assert_eq!(third.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert!(pool.try_lease().is_none());
        assert_eq!(pool.in_flight(), 2);
        drop(first);
        pool.lease().await.unwrap();
        assert_eq!(pool.in_flight(), 1);
    }

    /// A server that answers at once, and reads no body.
    async fn answer(listener: TcpListener) -> TcpStream {
        let (mut stream, _peer) = listener.accept().await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn a_request_counts_while_its_body_keeps_the_connection_after_the_response() {
        let (pool, listener) = pool(1).await;
        let server = tokio::spawn(answer(listener));
        let (body, _client) = unfinished().await;
        let request = Request::post("/").header("host", "h").body(body).unwrap();
        let mut lease = pool.lease().await.unwrap();
        let response = lease.send(Box::new(request)).await.unwrap();
        assert!(response.into_body().is_end_stream());
        lease.finish();
        assert_eq!(pool.in_flight(), 1);
        let _server = server.await.unwrap();
        pause();
        yield_now().await;
        advance(2 * UPLOAD_TIME).await;
        yield_now().await;
        assert_eq!(pool.in_flight(), 0);
    }

    #[tokio::test]
    async fn connections_that_wait_too_long_are_closed_without_another_request() {
        let (pool, _listener) = pool(8).await;
        let connection = pool.connector.connect_http1().await.unwrap();
        pause();
        pool.put_idle(connection);
        // The task that closes it begins to wait.
        yield_now().await;
        advance(IDLE_TIME / 2).await;
        assert_eq!(pool.lock_idle().len(), 1);
        advance(IDLE_TIME).await;
        yield_now().await;
        assert_eq!(pool.lock_idle().len(), 0);
        assert!(!pool.is_watched.load(Ordering::Relaxed));
    }

    /// Such as Node.js, which closes its connections after 5 s.
    #[tokio::test]
    async fn a_connection_is_not_used_when_a_server_may_be_about_to_close_it() {
        let (pool, _listener) = pool(8).await;
        let connection = pool.connector.connect_http1().await.unwrap();
        pause();
        pool.put_idle(connection);
        advance(Duration::from_millis(4_900)).await;
        assert!(pool.try_lease().is_none());
    }

    #[tokio::test]
    async fn connections_that_the_server_has_closed_are_dropped_soon() {
        let (pool, listener) = pool(8).await;
        let connection = pool.connector.connect_http1().await.unwrap();
        drop(listener.accept().await.unwrap());
        while !connection.sender.is_closed() {
            yield_now().await;
        }
        pause();
        pool.put_idle(connection);
        yield_now().await;
        advance(2 * CHECK_EVERY).await;
        yield_now().await;
        assert_eq!(pool.lock_idle().len(), 0);
    }

    /// A pool with a connection that was put back 59 s after it was opened, and its server. Time is
    /// paused.
    async fn with_a_connection_of_59_s(host: &str) -> (Arc<ConnectionPool>, TcpStream) {
        let (pool, listener) = pool_of(host, 8).await;
        let connection = pool.connector.connect_http1().await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        pause();
        advance(Duration::from_secs(59)).await;
        pool.put_idle(connection);
        (pool, server)
    }

    /// Under steady load no connection is idle, and a name would be looked up only once.
    #[tokio::test]
    async fn a_connection_to_a_name_serves_no_request_after_a_minute() {
        for (host, kept) in [("127.0.0.1", 1), ("localhost", 0)] {
            let (pool, _server) = with_a_connection_of_59_s(host).await;
            let connection = pool.take_idle().expect("it is young enough");
            advance(Duration::from_secs(1)).await;
            pool.put_idle(connection);
            assert_eq!(pool.lock_idle().len(), kept, "{host}");
            resume();
        }
    }

    #[tokio::test]
    async fn a_connection_to_a_name_that_becomes_a_minute_old_while_idle_is_not_used() {
        for (host, is_used) in [("127.0.0.1", true), ("localhost", false)] {
            let (pool, _server) = with_a_connection_of_59_s(host).await;
            assert!(!pool.must_wait(), "{host}");
            advance(Duration::from_secs(1)).await;
            assert_eq!(pool.must_wait(), !is_used, "{host}");
            assert_eq!(pool.take_idle().is_some(), is_used, "{host}");
            resume();
        }
    }
}
