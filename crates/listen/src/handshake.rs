//! What happens between accepting a socket and serving requests on it.

use std::future::{Future, ready};
use std::io::Result;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What requests are read from and responses are written to: any stream of bytes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// Turns an accepted socket into the stream on which requests are served.
///
/// A TLS acceptor implements this, for instance. The handshake runs in the task of its connection,
/// which already has a permit, so a slow peer delays no other. It must end within
/// [`crate::Limits::header_timeout`]; otherwise, or if it fails, the connection is closed.
pub trait Handshake: Clone + Send + Sync + 'static {
    /// The stream after the handshake.
    type Stream: Stream;

    /// Performs the handshake.
    ///
    /// # Errors
    ///
    /// Why the peer cannot be served.
    fn handshake(&self, socket: TcpStream) -> impl Future<Output = Result<Self::Stream>> + Send;
}

/// Plain TCP: no handshake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

// === impl Plain ===

impl Handshake for Plain {
    type Stream = TcpStream;

    fn handshake(&self, socket: TcpStream) -> impl Future<Output = Result<TcpStream>> + Send {
        ready(Ok(socket))
    }
}
