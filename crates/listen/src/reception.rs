//! What becomes of a connection that came through a door.
//!
//! A head that does not come in time, a peer that does not read, one that leaves no room for its
//! answers and one that does not answer pings all lose their place, and so does whoever floods us.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, warn};

use crate::budget::Budget;
use crate::closing::{LATE, NOT_HTTP1, NOT_HTTP2, is_the_protocol, kind, reason};
use crate::connection::{Close, Connection, Order};
use crate::connections::{Admission, Connections, Place};
use crate::door::{Door, Speaks};
use crate::frames::Frames;
use crate::handler::Handler;
use crate::limits::Limits;
use crate::phase::Stopping;
use crate::socket::Socket;
use crate::throttle::Throttle;

/// The most bytes of one gRPC connection that wait to be looked at.
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
/// The same of one call.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// The most bytes of one answer that wait to be written.
const SEND_BYTES: usize = 64 * 1024;
/// What a client's fields may take in the table that HTTP/2 compresses them with. Each field there
/// may keep a buffer of 16 KiB in memory.
const FIELD_TABLE_BYTES: u32 = 1024;
/// Streams that their sender reset before they were looked at: with more of them a connection is
/// cut off.
const RESETS_MAX: usize = 100;
/// Streams that were refused because they broke the protocol, or were more than were promised.
const REFUSALS_MAX: usize = 1000;
/// What every HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often a preface is looked at that comes in pieces.
const PREFACE_POLL: Duration = Duration::from_millis(20);
/// How long no connection is taken after the machine had none to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection without a place of its own may take to ask about health.
const RESERVED_PATIENCE: Duration = Duration::from_secs(1);

/// What each connection needs.
#[derive(Clone)]
pub(crate) struct Reception<H> {
    speaks: Speaks,
    name: &'static str,
    handler: H,
    limits: Limits,
    budget: Arc<Budget>,
    stopping: Stopping,
    warnings: Arc<Warnings>,
}

/// Each kind of line that clients can cause.
#[derive(Debug, Default)]
struct Warnings {
    full: Throttle,
    cannot_accept: Throttle,
    closed: Throttle,
    broken: Throttle,
}

/// An open connection, as the handler counts them.
struct Counted<H: Handler>(H);

/// Whether the peer was gone before it was taken, which is no trouble of ours.
fn is_the_guests(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

// === impl Counted ===

impl<H: Handler> Counted<H> {
    fn new(handler: H) -> Counted<H> {
        handler.opened();
        Counted(handler)
    }
}

impl<H: Handler> Drop for Counted<H> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

// === impl Reception ===

impl<H: Handler> Reception<H> {
    pub(crate) fn new(
        door: &Door,
        handler: H,
        limits: Limits,
        budget: Arc<Budget>,
        stopping: Stopping,
    ) -> Reception<H> {
        Reception {
            speaks: door.speaks(),
            name: door.name(),
            handler,
            limits,
            budget,
            stopping,
            warnings: Arc::default(),
        }
    }

    /// Takes connections until it is time to stop.
    pub(crate) async fn accept(
        &self,
        listener: &TcpListener,
        connections: &Arc<Connections>,
        guests: &mut JoinSet<()>,
    ) {
        let mut stopping = self.stopping.clone();
        let mut looks = interval(self.limits.write_timeout);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let guest = tokio::select! {
                guest = listener.accept() => guest,
                _ = looks.tick() => {
                    self.look_after(connections);
                    continue;
                }
                () = stopping.wait() => return,
            };
            while guests.try_join_next().is_some() {}
            match guest {
                Ok((stream, peer)) => {
                    let (place, admission) = connections.admit(peer, Instant::now());
                    self.note(admission, peer);
                    guests.spawn(self.clone().receive(stream, place));
                }
                Err(error) if is_the_guests(&error) => {}
                Err(error) => {
                    if let Some(withheld) = self.warnings.cannot_accept.allow() {
                        warn!(door = self.name, %error, withheld, "cannot take a connection");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Ends connections that are too old, and those whose peers leave no room for their answers.
    fn look_after(&self, connections: &Connections) {
        let limits = &self.limits;
        for connection in connections.all() {
            if connection.next_period() {
                connection.cut(Close::UnreadAnswers);
            } else if let Some(drained) = connection.drained() {
                if drained > limits.drain_timeout {
                    connection.cut(Close::Drained);
                }
            } else if connection.is_reserved() || connection.age() > limits.connection_age {
                self.end_well(&connection);
            }
        }
    }

    /// Asks a connection to end without the loss of a request.
    fn end_well(&self, connection: &Connection) {
        match self.speaks {
            // An idle one would be closed while the next request may be on its way. It is closed
            // after that, or when it has idled for too long.
            Speaks::Http1 => connection.end_with_the_next_answer(),
            // HTTP/2 tells the peer which calls still count.
            Speaks::Http2 => connection.drain(),
        }
    }

    /// Tells the operator that there was no free place.
    fn note(&self, admission: Admission, peer: SocketAddr) {
        let what = match admission {
            Admission::Free => return,
            Admission::Replaced => "an idle connection was closed for a new one",
            Admission::Reserved => "a new connection is only told about health",
        };
        if let Some(withheld) = self.warnings.full.allow() {
            let peer = peer.ip();
            warn!(
                door = self.name,
                %peer,
                withheld,
                "`limits.connections` or `connections_per_address` is reached: {what}"
            );
        }
    }

    async fn receive(self, stream: TcpStream, place: Place) {
        let _counted = Counted::new(self.handler.clone());
        // An answer is one small write: waiting for more to send only delays it.
        let _ = stream.set_nodelay(true);
        let connection = Arc::clone(&place.connection);
        match self.speaks {
            Speaks::Http1 => self.http1(stream, &connection).await,
            Speaks::Http2 => {
                let streams = self.budget.take_streams();
                self.http2(stream, &connection, streams).await;
                self.budget.return_streams(streams);
            }
        }
        let Some(close) = connection.closed() else {
            return;
        };
        self.handler.closed(close.reason());
        if close != Close::Idle
            && let Some(withheld) = self.warnings.closed.allow()
        {
            let peer = connection.peer();
            warn!(door = self.name, %peer, withheld, "connection closed: {close}");
        }
    }

    /// How long a connection may be silent before it has asked.
    fn head_patience(&self, connection: &Connection) -> Duration {
        let patience = self.limits.header_timeout;
        if connection.is_reserved() {
            return patience.min(RESERVED_PATIENCE);
        }
        patience
    }

    async fn http1(&self, stream: TcpStream, known: &Arc<Connection>) {
        let socket = Socket::new(stream, Arc::clone(known), None, self.limits.write_timeout);
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // Who has sent all its requests may say so, and waits for the answers.
            .half_close(true)
            .header_read_timeout(self.head_patience(known))
            .max_buf_size(usize::try_from(self.limits.header_bytes).expect("32 bits fit"))
            .serve_connection(TokioIo::new(socket), self.handler.service(known));
        let shut_down = http1::Connection::graceful_shutdown;
        let Some(Err(error)) = serve(&mut connection, known, shut_down).await else {
            return;
        };
        debug!(%error, "connection ended");
        let parts = connection.into_parts();
        let mut socket = parts.io.into_inner();
        // On a connection that only idles, nobody asked.
        if error.is_timeout() && !parts.read_buf.is_empty() {
            self.handler.failed("timeout");
            let _ = socket.write_all(LATE).await;
        }
        let Some(kind) = kind(&error) else {
            return;
        };
        self.handler.failed(kind);
        if error.is_parse_version_h2() {
            let _ = socket.write_all(NOT_HTTP1).await;
        }
    }

    async fn http2(&self, mut stream: TcpStream, known: &Arc<Connection>, streams: usize) {
        match timeout(self.head_patience(known), is_http2(&stream)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                let _ = stream.write_all(NOT_HTTP2).await;
                return;
            }
            Ok(Err(_)) | Err(_) => return,
        }
        let limits = &self.limits;
        let frames = Frames::new(limits.control_frames, Instant::now());
        let socket = Socket::new(
            stream,
            Arc::clone(known),
            Some(frames),
            limits.write_timeout,
        );
        let mut connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(u32::try_from(streams).unwrap_or(u32::MAX))
            .max_header_list_size(limits.header_bytes)
            .header_table_size(FIELD_TABLE_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(SEND_BYTES)
            .max_pending_accept_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(REFUSALS_MAX)
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.ping_timeout)
            .serve_connection(TokioIo::new(socket), self.handler.service(known));
        let shut_down = http2::Connection::graceful_shutdown;
        let Some(Err(error)) = serve(&mut connection, known, shut_down).await else {
            return;
        };
        debug!(%error, "connection ended");
        if known.closed().is_none() && is_the_protocol(&error) {
            self.handler.closed("protocol");
            if let Some(withheld) = self.warnings.broken.allow() {
                let (peer, reason) = (known.peer(), reason(&error));
                let door = self.name;
                warn!(door, %peer, withheld, reason, "connection closed: HTTP/2 broken");
            }
        }
    }
}

/// What a connection ends with: `None` if we ended it. Each poll of it is a turn of its own.
async fn serve<C: Future + Unpin>(
    connection: &mut C,
    known: &Connection,
    shut_down: fn(Pin<&mut C>),
) -> Option<C::Output> {
    loop {
        let turns = poll_fn(|cx| {
            known.turn().begin(cx);
            Pin::new(&mut *connection).poll(cx)
        });
        let order = tokio::select! {
            biased;
            ended = turns => return Some(ended),
            order = known.ordered() => order,
        };
        shut_down(Pin::new(connection));
        if order == Order::Cut {
            // Says goodbye, as far as that takes no waiting.
            poll_fn(|cx| Poll::Ready(Pin::new(&mut *connection).poll(cx).is_ready())).await;
            return None;
        }
    }
}

/// Waits for the first bytes and says if they begin HTTP/2; an error if the peer goes away.
async fn is_http2(stream: &TcpStream) -> std::io::Result<bool> {
    let mut seen = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut seen).await?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !PREFACE.starts_with(&seen[..length]) {
            return Ok(false);
        }
        if length == PREFACE.len() {
            return Ok(true);
        }
        // What is there stays there until it is read, so waiting for "readable" would not wait.
        sleep(PREFACE_POLL).await;
    }
}
