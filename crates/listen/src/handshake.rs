//! What happens between accepting a socket and serving requests on it.

use std::error::Error;
use std::fmt;
use std::future::{Future, ready};
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::Connection;
use crate::raw_socket::RawSocket;

/// What requests are read from and responses are written to: any stream of bytes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// Turns an accepted socket into the stream on which requests are served.
///
/// [`crate::Tls`] implements this, for instance. The handshake runs in the task of its connection,
/// which already has a permit, so a slow peer delays no other. It must end within
/// [`crate::Limits::header_timeout`]; otherwise, or if it fails, the connection is closed.
pub trait Handshake: Clone + Send + Sync + 'static {
    /// The stream after the handshake.
    type Stream: Stream;

    /// Performs the handshake of a connection.
    ///
    /// # Errors
    ///
    /// Why the peer cannot be served.
    fn handshake(
        &self,
        socket: RawSocket,
        connection: &Arc<Connection>,
    ) -> impl Future<Output = Result<Self::Stream, HandshakeError>> + Send;
}

/// Plain text: no handshake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// Why a handshake failed.
#[derive(Debug)]
pub struct HandshakeError {
    /// What kind of failure it is.
    pub failure: Failure,
    /// The error in full.
    pub source: io::Error,
}

/// The kinds of failed handshakes, each counted on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer closed the connection, as a health check does that only connects.
    Aborted,
    /// It did not end in time.
    TimedOut,
    /// The peer does not speak the expected protocol at all: plain HTTP on a port with TLS.
    NotTls,
    /// There is no version, cipher or application protocol that both sides have.
    Incompatible,
    /// The peer rejected our certificate, or something else that we sent.
    RejectedByPeer,
    /// The peer has no certificate, and needs one.
    NoCertificate,
    /// The peer's certificate has expired.
    ExpiredCertificate,
    /// The peer's certificate is from an authority that is not trusted.
    UntrustedCertificate,
    /// The peer's certificate cannot be used for another reason.
    InvalidCertificate,
    /// A trusted proxy's connection does not begin with the header that names the client.
    InvalidProxyHeader,
    /// Anything else that breaks the protocol.
    Broken,
}

// === impl Plain ===

impl Handshake for Plain {
    type Stream = RawSocket;

    fn handshake(
        &self,
        socket: RawSocket,
        _connection: &Arc<Connection>,
    ) -> impl Future<Output = Result<RawSocket, HandshakeError>> + Send {
        ready(Ok(socket))
    }
}

// === impl Failure ===

impl Failure {
    /// How many kinds there are.
    pub(crate) const COUNT: usize = 11;

    /// Its number, below [`Failure::COUNT`].
    pub(crate) const fn index(self) -> usize {
        match self {
            Failure::Aborted => 0,
            Failure::TimedOut => 1,
            Failure::NotTls => 2,
            Failure::Incompatible => 3,
            Failure::RejectedByPeer => 4,
            Failure::NoCertificate => 5,
            Failure::ExpiredCertificate => 6,
            Failure::UntrustedCertificate => 7,
            Failure::InvalidCertificate => 8,
            Failure::InvalidProxyHeader => 9,
            Failure::Broken => 10,
        }
    }

    /// The value of the label `reason`.
    pub const fn reason(self) -> &'static str {
        match self {
            Failure::Aborted => "handshake_aborted",
            Failure::TimedOut => "handshake_timeout",
            Failure::NotTls => "not_tls",
            Failure::Incompatible => "tls_incompatible",
            Failure::RejectedByPeer => "tls_rejected_by_peer",
            Failure::NoCertificate => "no_client_certificate",
            Failure::ExpiredCertificate => "client_certificate_expired",
            Failure::UntrustedCertificate => "client_certificate_untrusted",
            Failure::InvalidCertificate => "client_certificate_invalid",
            Failure::InvalidProxyHeader => "proxy_header_invalid",
            Failure::Broken => "handshake_broken",
        }
    }
}

// === impl HandshakeError ===

impl HandshakeError {
    /// For a handshake that did not end in time.
    pub(crate) fn timeout() -> HandshakeError {
        HandshakeError {
            failure: Failure::TimedOut,
            source: io::ErrorKind::TimedOut.into(),
        }
    }
}

impl From<io::Error> for HandshakeError {
    /// The failure of a socket: the peer is gone, as far as its kind says so.
    fn from(source: io::Error) -> HandshakeError {
        let failure = match source.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Failure::Aborted,
            io::ErrorKind::TimedOut => Failure::TimedOut,
            _ => Failure::Broken,
        };
        HandshakeError { failure, source }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for HandshakeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
