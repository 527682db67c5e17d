//! The connections of HTTP/2 to one address, which requests share.
//!
//! A server says how many requests a connection may have at once. The HTTP library sends no request
//! on a connection while another one waits for that number to fall, so one that is full gets no
//! more: the next request goes over another.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::client::conn::http2;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};

use super::liveness::Liveness;
use crate::connector::{Connector, Http2, SHARED_IDLE_TIME};
use crate::request_body::RequestBody;
use crate::settings::HTTP2_CONNECTIONS_MAX;
use crate::stream_count::{StreamCount, Streams};

/// The connections to an address.
#[derive(Debug, Default)]
pub(super) struct SharedConnections {
    /// The first one with room gets the next request.
    open: Mutex<Vec<Shared>>,
    /// Locked while one is opened, so that the requests that need it wait for the same one.
    opening: AsyncMutex<()>,
}

#[derive(Debug)]
struct Shared {
    connection: Http2<RequestBody>,
    streams: Streams,
    liveness: Arc<Liveness>,
    /// When it got its last request.
    used_at: Instant,
}

/// One request's part of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) sender: http2::SendRequest<RequestBody>,
    pub(super) share: Share,
}

/// Counts a request on its connection until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    _count: StreamCount,
    pub(super) liveness: Arc<Liveness>,
}

// === impl SharedConnections ===

impl SharedConnections {
    /// Whether a request can be sent at once.
    pub(super) fn has_room(&self, connector: &Connector) -> bool {
        let open = self.lock();
        let mut usable = open.iter().filter(|one| one.is_usable(connector));
        usable.any(Shared::has_room)
    }

    /// A place on a connection, and whether it is an old one.
    ///
    /// # Errors
    ///
    /// Why there is none; `TimedOut` if connecting took too long, `ResourceBusy` if as many
    /// connections as may be are full, or if some are full and no other can be opened.
    pub(super) async fn share(&self, connector: &Connector) -> io::Result<(Stream, bool)> {
        // Over all, because many may wait while one of them connects: each would take as long again
        // for a server that does not answer.
        let sharing = timeout(connector.timeout(), self.take_or_open(connector)).await;
        let shared = sharing.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)));
        shared.or_else(|error| {
            // Another request may have ended meanwhile.
            if let Some(stream) = self.take(connector) {
                return Ok((stream, true));
            }
            // An address that serves others is not one that fails.
            match self.lock().is_empty() {
                true => Err(error),
                false => Err(io::Error::from(io::ErrorKind::ResourceBusy)),
            }
        })
    }

    /// A place on a connection that is open, or on a new one. One is opened at a time.
    async fn take_or_open(&self, connector: &Connector) -> io::Result<(Stream, bool)> {
        if let Some(stream) = self.take(connector) {
            return Ok((stream, true));
        }
        let _opening = self.opening.lock().await;
        // Another request may have opened one meanwhile.
        if let Some(stream) = self.take(connector) {
            return Ok((stream, true));
        }
        if self.lock().len() >= HTTP2_CONNECTIONS_MAX {
            return Err(io::Error::from(io::ErrorKind::ResourceBusy));
        }
        // In a box, as with HTTP/1.1.
        let mut shared = Shared::new(Box::pin(connector.connect_http2()).await?);
        let stream = shared.begin();
        self.lock().push(shared);
        Ok((stream, false))
    }

    /// A place on the first connection that has room. Those behind it that have waited too long for
    /// a request are closed: a peak has opened them, and nothing else would close them.
    fn take(&self, connector: &Connector) -> Option<Stream> {
        let mut stream = None;
        // All under the lock, so that nobody else takes the last place.
        self.lock().retain_mut(|one| {
            // If it is not usable, requests in flight keep it open.
            if !one.is_usable(connector) || stream.is_some() && one.is_expired() {
                return false;
            }
            if stream.is_none() && one.has_room() {
                stream = Some(one.begin());
            }
            true
        });
        stream
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Shared>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Shared ===

impl Shared {
    fn new(connection: Http2<RequestBody>) -> Shared {
        let liveness = Liveness::new(connection.arrivals.clone(), connection.abort_handle());
        Shared {
            connection,
            streams: Streams::default(),
            liveness: Arc::new(liveness),
            used_at: Instant::now(),
        }
    }

    fn is_usable(&self, connector: &Connector) -> bool {
        let is_open = !self.connection.sender.is_closed() && !self.liveness.is_silent();
        is_open && !connector.is_outdated(self.connection.opened_at)
    }

    /// Whether the server takes another request. Until it has said so, the library assumes 100, the
    /// least that RFC 9113 recommends.
    fn has_room(&self) -> bool {
        self.streams.count() < self.connection.streams_max()
    }

    /// Whether it serves nothing, and got no request for so long that it need not stay open.
    fn is_expired(&self) -> bool {
        self.streams.count() == 0 && self.used_at.elapsed() >= SHARED_IDLE_TIME
    }

    fn begin(&mut self) -> Stream {
        self.used_at = Instant::now();
        Stream {
            sender: self.connection.sender.clone(),
            share: Share {
                _count: self.streams.begin(),
                liveness: Arc::clone(&self.liveness),
            },
        }
    }
}

#[cfg(test)]
mod tests;
