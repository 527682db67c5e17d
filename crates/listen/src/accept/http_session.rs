//! Serves HTTP on a stream.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use hyper::body::Bytes;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tracing::debug;

use super::session::{Session, Terms, before_request, drive, header_timeout};
use super::stream_tasks::StreamTasks;
use crate::answered::Answered;
use crate::backlog::Measured;
use crate::connection::{Close, Connection};
use crate::drain_end::DRAIN_QUIET;
use crate::frames::Frames;
use crate::handler::Handler;
use crate::handshake::Stream;
use crate::head_timer::HeadTimer;
use crate::linger::linger;
use crate::own_response::OwnResponse;
use crate::preface::{FirstBytes, read_first};
use crate::protocol::Protocol;
use crate::raw_responses::{LATE, LATE_KIND, NOT_HTTP2, is_protocol_error, kind, last, reason};
use crate::socket::Socket;

/// How much of HTTP/2 waits to be read.
#[derive(Clone, Copy, Debug)]
struct Windows {
    /// The most bytes of a connection.
    connection: u32,
    /// The most bytes of a stream.
    stream: u32,
}

/// Where messages are short.
///
/// The HTTP library closes a connection with unread DATA frames of which the bytes that each lacks
/// of 256 are more than half of the connection's window. A stream of short messages that waits for
/// its peer to read the answers must not come near that: of frames with 20 bytes, what fits its
/// window lacks 189 KiB.
const SHORT_MESSAGES: Windows = Windows {
    connection: 512 * 1024,
    stream: 16 * 1024,
};
/// Where bodies of any length pass, which a small window makes wait for the network, and where the
/// request of each waits for what is behind this server. Of frames with 20 bytes, what fits the
/// window of a stream lacks 755 KiB.
const ANY_BODIES: Windows = Windows {
    connection: 2 * 1024 * 1024,
    stream: 64 * 1024,
};
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

/// HTTP, of one version or of both, with what answers its requests.
#[derive(Clone, Copy, Debug)]
pub struct Http<H>(
    /// Makes the service of each connection.
    pub H,
);

// === impl Http ===

impl<H: Handler> Session for Http<H> {
    type Counts = H;

    fn counts(&self) -> &H {
        &self.0
    }

    async fn serve(&self, mut stream: impl Stream, known: &Arc<Connection>, terms: &Terms) {
        // In a box, which an idle connection no longer has.
        let read = Box::pin(first_bytes(&mut stream, known, terms));
        let Some(first) = read.await else {
            return;
        };
        if first.is_late {
            self.late(stream, first.bytes, known, terms).await;
            return;
        }
        let first = first.bytes;
        if first.is_preface() && terms.protocol != Protocol::Http1 {
            known.set_http2();
            let streams = terms.budget.take_streams();
            self.http2(stream, first, known, (terms, streams)).await;
            terms.budget.return_streams(streams);
        } else if terms.protocol != Protocol::Http2 {
            self.http1(stream, first, known, terms).await;
        } else {
            let within = terms.limits.write_timeout;
            let mut socket = Box::new(Socket::new(stream, first, Arc::clone(known), None, within));
            write_last(&mut socket, NOT_HTTP2).await;
        }
    }
}

/// The beginning of a connection.
struct Beginning {
    bytes: FirstBytes,
    /// Whether they are part of a request's head, of which the rest does not come in time.
    is_late: bool,
}

/// Reads the first bytes of a connection. `None` if it ends without them: the peer is late or has
/// gone, or this side closes the connection, or drains it and they do not come soon.
async fn first_bytes(
    stream: &mut impl Stream,
    known: &Connection,
    terms: &Terms,
) -> Option<Beginning> {
    let limits = &terms.limits;
    let mut bytes = FirstBytes::default();
    let read = timeout(
        header_timeout(limits, known),
        read_first(stream, &mut bytes),
    );
    let read = before_request(read, known, DRAIN_QUIET, limits).await;
    let is_late = match read {
        Some(Ok(Ok(()))) => Some(false),
        Some(Err(_)) if terms.protocol != Protocol::Http2 && bytes.may_begin_http1() => Some(true),
        Some(Err(_) | Ok(Err(_))) | None => None,
    };
    if is_late.is_none() {
        // Says over TLS that it ends, as far as that needs no waiting.
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_shutdown(cx).is_ready())).await;
    }
    is_late.map(|is_late| Beginning { bytes, is_late })
}

/// What serves a connection: in a box as large as its protocol needs, not as the larger one does.
type Served<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl<H: Handler> Http<H> {
    /// Ends a connection on which the head of the first request has only begun.
    fn late<'a>(
        &'a self,
        stream: impl Stream,
        first: FirstBytes,
        known: &'a Arc<Connection>,
        terms: &Terms,
    ) -> Served<'a> {
        let within = terms.limits.write_timeout;
        let mut socket = Socket::new(stream, first, Arc::clone(known), None, within);
        self.0.count_error(LATE_KIND);
        Box::pin(async move {
            let end = async {
                write_last(&mut socket, LATE).await;
                linger(&mut socket, known).await;
            };
            drive(&mut pin!(end), known, |_| ()).await;
        })
    }

    /// Serves a connection that speaks HTTP/1.
    fn http1<'a>(
        &'a self,
        stream: impl Stream,
        first: FirstBytes,
        known: &'a Arc<Connection>,
        terms: &Terms,
    ) -> Served<'a> {
        let (within, header_bytes) = (terms.limits.write_timeout, terms.limits.header_bytes);
        let service = Answered {
            service: self.0.service(known),
            connection: Arc::clone(known),
        };
        let mut socket =
            Socket::new(stream, first, Arc::clone(known), None, within).with_own_response();
        // Other requests take long to answer, and are answered in other turns anyway.
        if terms.half_close {
            socket = socket.with_deferral();
        }
        let mut connection = http1::Builder::new()
            .timer(HeadTimer::default())
            // A client may close its side after the last request, and wait for the responses.
            .half_close(terms.half_close)
            .header_read_timeout(header_timeout(&terms.limits, known))
            .max_buf_size(usize::try_from(header_bytes).expect("32 bits fit"))
            .serve_connection(TokioIo::new(socket), service);
        Box::pin(async move {
            let shut_down = http1::Connection::graceful_shutdown;
            let Some(ended) = drive(&mut connection, known, shut_down).await else {
                return;
            };
            let parts = connection.into_parts();
            let mut socket = parts.io.into_inner();
            socket.end_deferral();
            let own = socket.take_own_response();
            if ended.is_ok() && known.has_tunnel() {
                socket.unread(parts.read_buf);
                run_tunnel(socket, known).await;
                return;
            }
            // In a box, which a connection has only at its end.
            let rest = (socket, parts.read_buf);
            let end = self.end_http1(ended, own, rest, (known, header_bytes));
            drive(&mut Box::pin(end), known, |_| ()).await;
        })
    }

    /// Ends a connection of HTTP/1, on which the library has written `own` itself, and of which so
    /// much was not parsed.
    async fn end_http1(
        &self,
        ended: hyper::Result<()>,
        own: Option<OwnResponse>,
        (mut socket, unparsed): (Socket<impl Stream>, Bytes),
        (known, header_bytes): (&Connection, u32),
    ) {
        if let Err(error) = ended {
            debug!(%error, "connection ended");
            // The answers to what came before. A peer that has gone does not get them.
            let _unsent = socket.flush().await;
            let Some(kind) = kind(&error, &unparsed) else {
                return;
            };
            self.0.count_error(kind);
            let Some(last) = last(&error, own, &unparsed, header_bytes) else {
                return;
            };
            write_last(&mut socket, &last).await;
        } else if let Some(response) = own {
            write_last(&mut socket, response.bytes()).await;
        } else {
            // After a request for another protocol, the library leaves a stream open. To end one
            // a second time does nothing.
            let _unsent = socket.shutdown().await;
        }
        linger(&mut socket, known).await;
    }

    /// Serves a connection that speaks HTTP/2 with prior knowledge.
    fn http2<'a>(
        &'a self,
        stream: impl Stream,
        first: FirstBytes,
        known: &'a Arc<Connection>,
        (terms, streams): (&'a Terms, usize),
    ) -> Served<'a> {
        let limits = &terms.limits;
        let windows = match terms.half_close {
            true => SHORT_MESSAGES,
            false => ANY_BODIES,
        };
        let frames = Frames::new(limits.control_frames, Instant::now());
        let socket = Socket::new(
            stream,
            first,
            Arc::clone(known),
            Some(frames),
            limits.write_timeout,
        );
        let tasks = StreamTasks::new(self.0.clone(), known, limits.write_timeout, &terms.warnings);
        let mut connection = http2::Builder::new(tasks)
            .timer(TokioTimer::new())
            .max_concurrent_streams(u32::try_from(streams).unwrap_or(u32::MAX))
            .max_header_list_size(limits.header_bytes)
            .header_table_size(FIELD_TABLE_BYTES)
            .initial_stream_window_size(windows.stream)
            .initial_connection_window_size(windows.connection)
            .max_send_buf_size(SEND_BYTES)
            .max_pending_accept_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(LOCAL_RESETS_MAX)
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.ping_timeout)
            .serve_connection(TokioIo::new(socket), Measured(self.0.service(known)));
        Box::pin(async move {
            let shut_down = http2::Connection::graceful_shutdown;
            let Some(Err(error)) = drive(&mut connection, known, shut_down).await else {
                return;
            };
            debug!(%error, "connection ended");
            if error.is_timeout() {
                known.record_close(Close::PingTimeout);
            } else if known.close_reason().is_none() && is_protocol_error(&error) {
                self.0.count_close("protocol");
                terms.warnings.log_broken(&reason(&error), known.peer());
            }
        })
    }
}

/// Runs a connection as the tunnel that it has become, if it has.
pub(super) async fn run_tunnel(stream: impl Stream, known: &Connection) {
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
