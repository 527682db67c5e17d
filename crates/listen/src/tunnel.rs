//! What a connection of HTTP/1.1 becomes after the response 101: a stream of bytes, without
//! requests.

use std::fmt;
use std::pin::Pin;

use crate::handshake::Stream;

/// What uses the stream of a connection that switches protocols.
///
/// The connection keeps its permit as long as this runs, and is not idle. It is dropped with the
/// connection: at the end of the drain, if the peer reads nothing for
/// [`crate::Limits::write_timeout`], or if the response 101 cannot be written.
pub struct Tunnel(Begin);

type Begin = Box<dyn FnOnce(Box<dyn Stream>) -> Running + Send>;

/// A tunnel that runs.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

// === impl Tunnel ===

impl Tunnel {
    /// Uses the stream with `run`, whose end is that of the connection.
    pub fn new<F>(run: impl FnOnce(Box<dyn Stream>) -> F + Send + 'static) -> Tunnel
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Tunnel(Box::new(|stream| Box::pin(run(stream))))
    }

    pub(crate) fn begin(self, stream: impl Stream) -> Running {
        (self.0)(Box::new(stream))
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}
