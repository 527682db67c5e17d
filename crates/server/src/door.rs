//! A door: a socket that listens, the connections that came through it, and their limits.
//!
//! Every connection holds one of a fixed number of places; when all are taken, the next waits in
//! the kernel's queue. A head that does not come in time, a peer that does not read, and one that
//! does not answer pings all lose their place. When it is time to stop, a door closes at once, and
//! what is in flight has a bounded time to finish.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::config::Limits;
use crate::metrics::DoorName;
use crate::patience::Patient;
use crate::phase::Stopping;

/// The largest head of an HTTP request; hyper notices it at the latest at twice this size.
pub const HEAD_BYTES_MAX: u32 = 64 * 1024;
/// The most gRPC calls at once on one connection.
pub const STREAMS_MAX: u32 = 256;
/// The most bytes of unread gRPC messages on one connection, and in one call.
const WINDOW_BYTES: u32 = 256 * 1024;
/// What every HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often a preface is looked at that comes in pieces.
const PREFACE_POLL: Duration = Duration::from_millis(20);
/// How long no connection is taken after the machine had none to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const LATE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\
    content-type: text/plain\r\ncontent-length: 47\r\n\r\n\
    the request's head did not come in time: retry\n";
const NOT_HTTP2: &[u8] = b"HTTP/1.1 505 HTTP Version Not Supported\r\nconnection: close\r\n\
    content-type: text/plain\r\ncontent-length: 61\r\n\r\n\
    this port speaks gRPC over HTTP/2 without TLS, nothing else.\n";

/// What is spoken behind a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    Http2,
}

/// An open door.
#[derive(Debug)]
pub(crate) struct Door {
    name: DoorName,
    listener: TcpListener,
    address: SocketAddr,
    speaks: Speaks,
}

/// What each connection needs.
#[derive(Clone)]
struct Reception {
    speaks: Speaks,
    router: Router,
    limits: Limits,
    stopping: Stopping,
}

/// One of a door's places, counted as taken until it is dropped.
struct Place {
    _permit: OwnedSemaphorePermit,
    open: Gauge,
}

// === impl Door ===

impl Door {
    /// Listens on `address`; port 0 is any free one.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) async fn open(
        name: DoorName,
        address: SocketAddr,
        speaks: Speaks,
    ) -> std::io::Result<Door> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Door {
            name,
            listener,
            address,
            speaks,
        })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its name in the configuration.
    pub(crate) const fn name(&self) -> DoorName {
        self.name
    }

    /// Serves until it is time to stop, and then until nothing is in flight or
    /// [`Limits::drain_timeout`] is over.
    pub(crate) async fn serve(
        self,
        router: Router,
        limits: Limits,
        mut stopping: Stopping,
        open: Gauge,
    ) {
        let places = Arc::new(Semaphore::new(limits.connections));
        let mut guests = JoinSet::new();
        let drain_timeout = limits.drain_timeout;
        let reception = Reception {
            speaks: self.speaks,
            router,
            limits,
            stopping: stopping.clone(),
        };
        loop {
            let guest = tokio::select! {
                guest = next_guest(&self.listener, &places) => guest,
                () = stopping.wait() => break,
            };
            while guests.try_join_next().is_some() {}
            match guest {
                Ok((stream, permit)) => {
                    open.inc();
                    let place = Place {
                        _permit: permit,
                        open: open.clone(),
                    };
                    guests.spawn(reception.clone().receive(stream, place));
                }
                Err(error) if is_the_guests(&error) => {}
                Err(error) => {
                    warn!(door = self.name, %error, "cannot take a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        let all_gone = async { while guests.join_next().await.is_some() {} };
        if timeout(drain_timeout, all_gone).await.is_err() {
            let open = guests.len();
            warn!(
                door = self.name,
                open, "connections cut off at the end of the drain"
            );
        }
    }
}

async fn next_guest(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(places).acquire_owned().await;
    let permit = permit.expect("nobody closes the semaphore");
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

/// Whether the peer was gone before it was taken, which is no trouble of ours.
fn is_the_guests(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        self.open.dec();
    }
}

// === impl Reception ===

impl Reception {
    async fn receive(self, stream: TcpStream, place: Place) {
        // An answer is one small write: waiting for more to send only delays it.
        let _ = stream.set_nodelay(true);
        match self.speaks {
            Speaks::Http1 => self.http1(stream).await,
            Speaks::Http2 => self.http2(stream).await,
        }
        drop(place);
    }

    async fn http1(mut self, stream: TcpStream) {
        let io = TokioIo::new(Patient::new(stream, self.limits.write_timeout));
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(usize::try_from(HEAD_BYTES_MAX).expect("64 KiB fit"))
            .serve_connection(io, TowerToHyperService::new(self.router));
        let shut_down = http1::Connection::graceful_shutdown;
        let ended = ended(&mut connection, &mut self.stopping, shut_down).await;
        let Err(error) = ended else { return };
        debug!(%error, "connection ended");
        if error.is_timeout() {
            let parts = connection.into_parts();
            // On a connection that only idles, nobody asked.
            if !parts.read_buf.is_empty() {
                let _ = parts.io.into_inner().write_all(LATE).await;
            }
        }
    }

    async fn http2(mut self, mut stream: TcpStream) {
        match timeout(self.limits.header_timeout, is_http2(&stream)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                let _ = stream.write_all(NOT_HTTP2).await;
                return;
            }
            Ok(Err(_)) | Err(_) => return,
        }
        let io = TokioIo::new(Patient::new(stream, self.limits.write_timeout));
        let mut connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .keep_alive_interval(self.limits.ping_interval)
            .keep_alive_timeout(self.limits.ping_timeout)
            .serve_connection(io, TowerToHyperService::new(self.router));
        let shut_down = http2::Connection::graceful_shutdown;
        let ended = ended(&mut connection, &mut self.stopping, shut_down).await;
        if let Err(error) = ended {
            debug!(%error, "connection ended");
        }
    }
}

/// What a connection ends with; when it is time to stop, it is asked to end.
async fn ended<C: Future + Unpin>(
    connection: &mut C,
    stopping: &mut Stopping,
    shut_down: fn(Pin<&mut C>),
) -> C::Output {
    tokio::select! {
        ended = &mut *connection => return ended,
        () = stopping.wait() => {}
    }
    shut_down(Pin::new(connection));
    connection.await
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
