//! Accepts connections and serves each of them.
//!
//! A connection is closed if a request's head does not arrive in time, if the peer does not read,
//! does not answer pings, opens no window for its responses, or sends a flood of frames.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::debug;

use crate::budget::Budget;
use crate::connection::{Close, Connection, Order};
use crate::frames::Frames;
use crate::handler::Handler;
use crate::handshake::{Handshake, HandshakeError, Stream};
use crate::limits::Limits;
use crate::listener::{Listener, Protocol};
use crate::permits::{Connections, Permit, PermitKind};
use crate::preface::{FirstBytes, read_first};
use crate::raw_responses::{LATE, NOT_HTTP1, NOT_HTTP2, is_protocol_error, kind, reason};
use crate::shutdown::ShutdownSignal;
use crate::socket::Socket;
use warnings::Warnings;

mod warnings;

/// The most bytes of one gRPC connection that wait to be read.
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
/// The same of one call.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// The most bytes of one response that wait to be written.
const SEND_BYTES: usize = 64 * 1024;
/// The size of HTTP/2's dynamic header table. Each field in it may keep a buffer of 16 KiB in
/// memory.
const FIELD_TABLE_BYTES: u32 = 1024;
/// The most streams that the peer may reset before they are accepted; with more of them the
/// connection is closed.
const RESETS_MAX: usize = 100;
/// The most streams that this side may reset, because they break the protocol or exceed the
/// promised number.
const LOCAL_RESETS_MAX: usize = 1000;
/// How long to pause after the system could not accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection with a reserved permit may take to send its health check.
const RESERVED_TIMEOUT: Duration = Duration::from_secs(1);

/// What every connection of a listener needs.
#[derive(Clone)]
pub(crate) struct Acceptor<H, T> {
    protocol: Protocol,
    half_close: bool,
    handshake: T,
    handler: H,
    limits: Limits,
    budget: Arc<Budget>,
    shutdown: ShutdownSignal,
    warnings: Arc<Warnings>,
}

/// Counts an open connection until it is dropped.
struct Counted<H: Handler>(H);

/// Whether the peer closed the connection before it was accepted, which is not an error here.
fn is_aborted_by_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

// === impl Counted ===

impl<H: Handler> Counted<H> {
    fn new(handler: H) -> Counted<H> {
        handler.count_open();
        Counted(handler)
    }
}

impl<H: Handler> Drop for Counted<H> {
    fn drop(&mut self) {
        self.0.count_end();
    }
}

// === impl Acceptor ===

impl<H: Handler, T: Handshake> Acceptor<H, T> {
    pub(crate) fn new(
        listener: &Listener<T>,
        handler: H,
        limits: Limits,
        budget: Arc<Budget>,
        shutdown: ShutdownSignal,
    ) -> Acceptor<H, T> {
        Acceptor {
            protocol: listener.protocol(),
            half_close: listener.has_half_close(),
            handshake: listener.handshake(),
            handler,
            limits,
            budget,
            shutdown,
            warnings: Arc::new(Warnings::new(listener.name())),
        }
    }

    /// Accepts connections until shutdown.
    pub(crate) async fn accept(
        &self,
        listener: &TcpListener,
        connections: &Arc<Connections>,
        tasks: &mut JoinSet<()>,
    ) {
        let mut shutdown = self.shutdown.clone();
        let mut checks = interval(self.limits.write_timeout);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = checks.tick() => {
                    self.expire_connections(connections);
                    continue;
                }
                () = shutdown.wait() => return,
            };
            while tasks.try_join_next().is_some() {}
            match accepted {
                Ok((stream, peer)) => {
                    let (permit, kind) = connections.acquire(peer, Instant::now());
                    self.warnings.log_full(kind, peer);
                    tasks.spawn(self.clone().serve(stream, permit));
                    if kind == PermitKind::Reserved {
                        // The next ones would take its permit back before its task has run, which
                        // reads a request that is there already.
                        yield_now().await;
                    }
                }
                Err(error) if is_aborted_by_peer(&error) => {}
                Err(error) => {
                    self.warnings.log_cannot_accept(&error);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Closes connections that are too old, and those whose peers open no window for responses.
    fn expire_connections(&self, connections: &Connections) {
        let limits = &self.limits;
        for connection in connections.all() {
            if connection.next_period() {
                connection.close(Close::UnreadAnswers);
            } else if let Some(drained) = connection.time_since_drain() {
                if drained > limits.drain_timeout {
                    connection.close(Close::Drained);
                }
            } else if connection.is_reserved() || connection.age() > limits.connection_age {
                self.close_gracefully(&connection);
            }
        }
    }

    /// Asks a connection to close without losing a request.
    fn close_gracefully(&self, connection: &Connection) {
        match connection.is_http2() {
            // Closing an idle connection could lose a request that is on its way. It is closed
            // after its next response, or when it has been idle for too long.
            false => connection.end_after_next_response(),
            // GOAWAY tells the peer which streams are still served.
            true => connection.drain(),
        }
    }

    /// Serves a connection until it ends, from its handshake on.
    async fn serve(self, socket: TcpStream, permit: Permit) {
        let _counted = Counted::new(self.handler.clone());
        // A response is one small write: waiting for more to send only delays it.
        let _ = socket.set_nodelay(true);
        let connection = Arc::clone(&permit.connection);
        match self.shake_hands(socket, &connection).await {
            Some(Ok(stream)) => self.serve_stream(stream, &connection).await,
            Some(Err(error)) => {
                self.handler.count_close(error.failure.reason());
                self.warnings.log_handshake(&error, connection.peer());
            }
            None => {}
        }
        let Some(close) = connection.close_reason() else {
            return;
        };
        self.handler.count_close(close.reason());
        self.warnings.log_closed(close, connection.peer());
    }

    /// Performs the handshake of a connection: `None` if it was closed or drained meanwhile.
    async fn shake_hands(
        &self,
        socket: TcpStream,
        known: &Connection,
    ) -> Option<Result<T::Stream, HandshakeError>> {
        let shaken = timeout(self.header_timeout(known), self.handshake.handshake(socket));
        tokio::select! {
            shaken = shaken => Some(shaken.unwrap_or_else(|_| Err(HandshakeError::timeout()))),
            _order = known.next_order() => None,
        }
    }

    /// Serves requests on any stream until it ends.
    async fn serve_stream(&self, mut stream: impl Stream, known: &Arc<Connection>) {
        if self.protocol == Protocol::Http1 {
            self.http1(stream, FirstBytes::default(), known).await;
            return;
        }
        let read = timeout(self.header_timeout(known), read_first(&mut stream)).await;
        let Ok(Ok(first)) = read else {
            return;
        };
        if first.is_preface() {
            known.set_http2();
            let streams = self.budget.take_streams();
            self.http2(stream, first, known, streams).await;
            self.budget.return_streams(streams);
        } else if self.protocol == Protocol::Any {
            self.http1(stream, first, known).await;
        } else {
            let within = self.limits.write_timeout;
            let mut socket = Socket::new(stream, first, Arc::clone(known), None, within);
            write_last(&mut socket, NOT_HTTP2).await;
        }
    }

    /// How long a connection may take to send the head of a request.
    fn header_timeout(&self, connection: &Connection) -> Duration {
        let limit = self.limits.header_timeout;
        if connection.is_reserved() {
            return limit.min(RESERVED_TIMEOUT);
        }
        limit
    }

    /// Serves a connection that speaks HTTP/1.
    async fn http1(&self, stream: impl Stream, first: FirstBytes, known: &Arc<Connection>) {
        let socket = Socket::new(
            stream,
            first,
            Arc::clone(known),
            None,
            self.limits.write_timeout,
        );
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // A client may close its side after the last request, and wait for the responses.
            .half_close(self.half_close)
            .header_read_timeout(self.header_timeout(known))
            .max_buf_size(usize::try_from(self.limits.header_bytes).expect("32 bits fit"))
            .serve_connection(TokioIo::new(socket), self.handler.service(known));
        let shut_down = http1::Connection::graceful_shutdown;
        let Some(ended) = drive(&mut connection, known, shut_down).await else {
            return;
        };
        let parts = connection.into_parts();
        let mut socket = parts.io.into_inner();
        let Err(error) = ended else {
            socket.unread(parts.read_buf);
            run_tunnel(socket, known).await;
            return;
        };
        debug!(%error, "connection ended");
        // An idle connection has not begun a request.
        if error.is_timeout() && !parts.read_buf.is_empty() {
            self.handler.count_error("timeout");
            write_last(&mut socket, LATE).await;
        }
        let Some(kind) = kind(&error) else {
            return;
        };
        self.handler.count_error(kind);
        if error.is_parse_version_h2() {
            write_last(&mut socket, NOT_HTTP1).await;
        }
    }

    /// Serves a connection that speaks HTTP/2 with prior knowledge.
    async fn http2(
        &self,
        stream: impl Stream,
        first: FirstBytes,
        known: &Arc<Connection>,
        streams: usize,
    ) {
        let limits = &self.limits;
        let frames = Frames::new(limits.control_frames, Instant::now());
        let socket = Socket::new(
            stream,
            first,
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
            .max_local_error_reset_streams(LOCAL_RESETS_MAX)
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.ping_timeout)
            .serve_connection(TokioIo::new(socket), self.handler.service(known));
        let shut_down = http2::Connection::graceful_shutdown;
        let Some(Err(error)) = drive(&mut connection, known, shut_down).await else {
            return;
        };
        debug!(%error, "connection ended");
        if known.close_reason().is_none() && is_protocol_error(&error) {
            self.handler.count_close("protocol");
            self.warnings.log_broken(&reason(&error), known.peer());
        }
    }
}

/// Runs a connection as the tunnel that it has become, if it has.
async fn run_tunnel(stream: impl Stream, known: &Connection) {
    let Some(tunnel) = known.take_tunnel() else {
        return;
    };
    known.begin_request();
    // A tunnel has no message that would end it early, so it has until the end of the drain.
    drive(&mut tunnel.begin(stream), known, |_| ()).await;
    known.end_request(Instant::now());
}

/// Writes the last bytes of a connection, and ends it so that the peer knows that they are all.
async fn write_last(socket: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    // The peer may be gone, or not read.
    if socket.write_all(bytes).await.is_ok() {
        let _ = socket.shutdown().await;
    }
}

/// Drives a connection to its end: `None` if this side closed it. Each poll is a new quantum.
async fn drive<C: Future + Unpin>(
    connection: &mut C,
    known: &Connection,
    shut_down: fn(Pin<&mut C>),
) -> Option<C::Output> {
    loop {
        let polled = poll_fn(|cx| {
            known.quantum().begin(cx);
            Pin::new(&mut *connection).poll(cx)
        });
        let order = tokio::select! {
            biased;
            ended = polled => return Some(ended),
            order = known.next_order() => order,
        };
        shut_down(Pin::new(connection));
        if order == Order::Close {
            // Sends what the shutdown has queued, as far as that needs no waiting.
            poll_fn(|cx| Poll::Ready(Pin::new(&mut *connection).poll(cx).is_ready())).await;
            return None;
        }
    }
}

#[cfg(test)]
mod tests;
