//! Opens connections to one address of an upstream.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::client::TlsStream;
use tollgate_dial::{BoundedReads, ReadBound, dial, is_name};
use tollgate_http::{InvalidSetting, InvalidSettings};
use tollgate_listen::Stream;

use crate::settings::{ADDRESSES_MAX, UpstreamProtocol, UpstreamSettings, parse_address};
use crate::upstream_tls::{AddressTls, UpstreamTls};

/// The most bytes of a response's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The most bytes that a server may send over HTTP/1.1 until the head of its response is complete.
/// Interim responses, which the HTTP library skips without an end, are among them, and so is the
/// part of the body that is read with the head, at most as much again.
pub(crate) const BYTES_BEFORE_RESPONSE_MAX: usize = 256 * 1024;
/// The most bytes of one response over HTTP/2 that wait for a client to read them. With half or a
/// quarter of it, a download from the same host took half as long again, and more of the processor.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The same of all responses of a connection: the most that the protocol has. The windows of the
/// streams bound memory; a lower bound for all of them together would let a few clients that read
/// nothing stop the responses to all others.
const CONNECTION_WINDOW_BYTES: u32 = (1 << 31) - 1;
/// The most bytes of one request over HTTP/2 that wait to be written.
const SEND_BYTES: usize = 64 * 1024;
/// How many streams that were reset the library remembers for a second. It resets the stream of
/// each DATA frame that still comes for another one.
const RESETS_REMEMBERED: usize = 1024;
/// How often the server of a connection of HTTP/2 is sent a PING, and how long it may take. Servers
/// of gRPC close connections with more than one in 5 minutes without data. A host that is gone is
/// found by the kernel, below, unless something is on its way to it; this finds that too, and a
/// process that answers nothing any more.
const PING_INTERVAL: Duration = Duration::from_secs(330);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection of HTTP/1.1 may wait for its next request. Common servers close theirs
/// after 5 s and more. If one does while a request is on its way, nobody knows whether it was read,
/// so it must not be sent again if it is not safe.
pub(crate) const IDLE_TIME: Duration = Duration::from_secs(4);
/// The same of one of HTTP/2, whose server says which requests it has processed.
pub(crate) const SHARED_IDLE_TIME: Duration = Duration::from_secs(15);
/// When the kernel asks the server of a connection on which nothing arrives whether it still has
/// it, how often it asks again without an answer, and how many times. A server that lost its power,
/// or whose last packet was lost, never says that it is gone.
///
/// `TCP_USER_TIMEOUT` is not set. It would replace the number of times; and it would also end the
/// connection of a server that is there and reads nothing, which may be as long as the timeouts of
/// the settings allow. They bound the wait for a host that is gone while something is on its way to
/// it, because then the kernel does not ask.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 5;

/// How long requests go over a connection to a server that is known by its name. Then the name is
/// looked up again: under steady load, no connection would ever be idle and be closed.
const NAMED_AGE_MAX: Duration = Duration::from_secs(60);

/// How an address is connected to.
#[derive(Debug)]
pub(crate) struct Connector {
    address: String,
    /// Whether its host is a name, which may have another IP address later.
    is_named: bool,
    protocol: UpstreamProtocol,
    tls: Option<AddressTls>,
    timeout: Duration,
}

/// A connection of HTTP/1.1, for requests with bodies of this type. Dropping it closes it, also if
/// its server reads nothing of a request.
#[derive(Debug)]
pub(crate) struct Http1<B> {
    pub(crate) sender: http1::SendRequest<B>,
    bound: ReadBound,
    pub(crate) opened_at: Instant,
    _task: Task,
}

/// A connection of HTTP/2, for requests with bodies of this type. It closes when all copies of its
/// sender are gone.
#[derive(Debug)]
pub(crate) struct Http2<B> {
    pub(crate) sender: http2::SendRequest<B>,
    pub(crate) opened_at: Instant,
    /// Counts what arrives; there is no bound.
    pub(crate) arrivals: ReadBound,
    limit: Weak<dyn StreamLimit>,
    task: AbortHandle,
}

/// Says how many requests a server takes at once on a connection of HTTP/2.
trait StreamLimit: Send + Sync {
    fn streams_max(&self) -> usize;
}

/// A connection on which nothing was sent yet.
enum Connected {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Ends a task when it is dropped.
#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

/// The body of a request.
pub(crate) trait Sent:
    Body<Data: Send, Error: Into<Cause>> + Unpin + Send + 'static
{
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

impl<B: Body<Data: Send, Error: Into<Cause>> + Unpin + Send + 'static> Sent for B {}

/// Prepares connections to each address.
pub(crate) fn open_connectors(
    settings: &UpstreamSettings,
    connect_timeout: Duration,
    errors: &mut InvalidSettings,
) -> Vec<Connector> {
    let (addresses, protocol) = (&settings.addresses, settings.protocol);
    if !(1..=ADDRESSES_MAX).contains(&addresses.len()) {
        let problem = format!("{} addresses", addresses.len());
        let instead = format!("write 1 to {ADDRESSES_MAX}, each as host:port");
        errors.push(InvalidSetting::new("addresses", problem, instead));
        return Vec::new();
    }
    let tls = errors.take(UpstreamTls::open(settings.tls.as_ref(), protocol));
    let tls = tls.flatten();
    let connectors = addresses.iter().enumerate().filter_map(|(index, address)| {
        let parsed = errors.take(parse_address(index, address))?;
        let tls = tls.as_ref().map(|tls| tls.build_for(&parsed)).transpose();
        let tls = errors.take(tls)?;
        let connector = Connector::new(address.clone(), protocol, tls, connect_timeout);
        Some(connector)
    });
    connectors.collect()
}

// === impl Connector ===

impl Connector {
    /// For connections that take at most this time.
    pub(crate) fn new(
        address: String,
        protocol: UpstreamProtocol,
        tls: Option<AddressTls>,
        timeout: Duration,
    ) -> Connector {
        Connector {
            is_named: is_name(&address),
            address,
            protocol,
            tls,
            timeout,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) const fn protocol(&self) -> UpstreamProtocol {
        self.protocol
    }

    /// How long a connection may take.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether further requests need a new connection, because the address is a name, which may
    /// have another IP address by now.
    pub(crate) fn is_outdated(&self, opened_at: Instant) -> bool {
        self.is_named && opened_at.elapsed() >= NAMED_AGE_MAX
    }

    /// Opens a connection of HTTP/1.1.
    ///
    /// # Errors
    ///
    /// Why there is none; `TimedOut` if it took too long.
    pub(crate) async fn connect_http1<B: Sent>(&self) -> io::Result<Http1<B>> {
        match self.connect().await? {
            Connected::Plain(stream) => begin_http1(stream).await,
            Connected::Tls(stream) => begin_http1(*stream).await,
        }
    }

    /// Opens a connection of HTTP/2.
    ///
    /// # Errors
    ///
    /// As [`Connector::connect_http1`].
    pub(crate) async fn connect_http2<B: Sent>(&self) -> io::Result<Http2<B>> {
        match self.connect().await? {
            Connected::Plain(stream) => begin_http2(stream).await,
            Connected::Tls(stream) => begin_http2(*stream).await,
        }
    }

    /// Connects, with a handshake if there is TLS, in the time that both may take.
    async fn connect(&self) -> io::Result<Connected> {
        let connected = timeout(self.timeout, self.connect_late()).await;
        connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    async fn connect_late(&self) -> io::Result<Connected> {
        let stream = dial(&self.address).await?;
        let _ = stream.set_nodelay(true);
        let socket = SockRef::from(&stream);
        let _ = socket.set_tcp_keepalive(&keepalive());
        Ok(match &self.tls {
            None => Connected::Plain(stream),
            Some(tls) => Connected::Tls(Box::new(tls.handshake(stream, self.protocol).await?)),
        })
    }
}

fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES)
}

async fn begin_http1<B: Sent>(stream: impl Stream) -> io::Result<Http1<B>> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (stream, bound) = BoundedReads::new(stream);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(io::Error::other)?;
    // Its requests report its errors.
    let task = tokio::spawn(async move { drop(connection.with_upgrades().await) });
    let _task = Task(task.abort_handle());
    Ok(Http1 {
        sender,
        bound,
        opened_at: Instant::now(),
        _task,
    })
}

/// Begins HTTP/2 on a stream.
async fn begin_http2<B: Sent>(stream: impl Stream) -> io::Result<Http2<B>> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES)
        .max_concurrent_reset_streams(RESETS_REMEMBERED)
        // It would be a number of a connection's whole life. Clients who leave in the middle of
        // their responses could have the connection closed on all others; servers are trusted.
        .max_local_error_reset_streams(None)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).expect("it is small"));
    let (stream, arrivals) = BoundedReads::new(stream);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(io::Error::other)?;
    // The library's limit of streams is known to the connection, and not to its senders.
    let connection = Arc::new(Mutex::new(connection));
    let limit = Arc::downgrade(&connection);
    let task = tokio::spawn(poll_fn(move |cx| {
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *connection).poll(cx).map(drop)
    }));
    Ok(Http2 {
        sender,
        opened_at: Instant::now(),
        arrivals,
        limit,
        task: task.abort_handle(),
    })
}

// === impl Http1 ===

impl<B: Sent> Http1<B> {
    /// Sends a request, and waits for the head of its response.
    ///
    /// # Errors
    ///
    /// What went wrong; with the request, if nothing of it was sent.
    pub(crate) async fn send(
        &mut self,
        request: Request<B>,
    ) -> Result<Response<Incoming>, TrySendError<Request<B>>> {
        self.bound.set(BYTES_BEFORE_RESPONSE_MAX);
        let response = self.sender.try_send_request(request).await?;
        self.bound.lift();
        Ok(response)
    }
}

// === impl Http2 ===

impl<B> Http2<B> {
    /// The most requests that the server takes at once; 0 once the connection has ended.
    pub(crate) fn streams_max(&self) -> usize {
        self.limit.upgrade().map_or(0, |limit| limit.streams_max())
    }

    /// Closes the connection when it is dropped.
    pub(crate) fn task(&self) -> Task {
        Task(self.task.clone())
    }

    /// Closes the connection when that is called.
    pub(crate) fn abort_handle(&self) -> AbortHandle {
        self.task.clone()
    }
}

impl<S, B> StreamLimit for Mutex<http2::Connection<TokioIo<BoundedReads<S>>, B, TokioExecutor>>
where
    S: Stream,
    B: Sent,
{
    fn streams_max(&self) -> usize {
        let connection = self.lock().unwrap_or_else(PoisonError::into_inner);
        connection.current_max_send_streams()
    }
}

// === impl Task ===

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::net::TcpListener;

    use super::*;

    /// The connection to a server, which need not accept it.
    async fn connect() -> (TcpStream, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let limit = Duration::from_secs(5);
        let connector = Connector::new(address, UpstreamProtocol::Http1, None, limit);
        match connector.connect().await.unwrap() {
            Connected::Plain(stream) => (stream, listener),
            Connected::Tls(_) => panic!("there is no TLS"),
        }
    }

    #[tokio::test]
    async fn a_server_that_is_silently_gone_is_noticed_within_half_a_minute() {
        let (stream, _listener) = connect().await;
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        let probes = socket.tcp_keepalive_retries().unwrap();
        let idle = socket.tcp_keepalive_time().unwrap();
        let interval = socket.tcp_keepalive_interval().unwrap();
        assert_eq!((idle, interval, probes), (Duration::from_secs(5), idle, 5));
        assert_eq!(idle + interval * probes, Duration::from_secs(30));
    }

    /// With a user timeout, the kernel would close it, whatever the settings say.
    #[tokio::test]
    async fn the_kernel_does_not_bound_how_long_a_server_reads_nothing() {
        let (stream, _listener) = connect().await;
        let user_timeout = SockRef::from(&stream).tcp_user_timeout().unwrap();
        assert_eq!(user_timeout, None);
    }
}
