//! TLS on a listener: a [`Handshake`] whose certificates can be replaced while it serves.
//!
//! Versions 1.2 and 1.3, with the library's choice of ciphers. What a connection may buffer is
//! bounded by [`BUFFER_BYTES`] towards the peer. From the peer, a message of the handshake has at
//! most 64 KiB; after the handshake, the bound is `BYTES_WITHOUT_DATA_MAX` of [`stream`].

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring::Ticketer;
use rustls::server::NoServerSessionStorage;
use rustls::{CertificateError, InvalidMessage, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::handshake::{Failure, Handshake, HandshakeError};
use crate::protocol::Protocol;
use crate::raw_socket::RawSocket;

mod client;

mod credentials;

mod invalid;

mod stream;

mod validity;

pub use client::ClientTlsFiles;
pub use credentials::{Credentials, PEM_BYTES_MAX, TlsFiles};
pub use invalid::{InvalidTls, Problem, TlsFile};
use stream::CiphertextSocket;
pub(crate) use stream::PlaintextStream;
pub use validity::Validity;

/// The most bytes of responses that a connection holds, encrypted or to be encrypted, until its
/// socket takes them.
const BUFFER_BYTES: usize = 16 * 1024;
/// For how long the socket of a failed handshake is read, and how much of it.
const ALERT_READ_WITHIN: Duration = Duration::from_secs(1);
const UNREAD_BYTES_MAX: u64 = 64 * 1024;

/// TLS, with the certificate that is in effect; clones share it.
#[derive(Clone)]
pub struct Tls {
    protocol: Protocol,
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

// === impl Tls ===

impl Tls {
    /// TLS for a listener of `protocol`, which clients are offered by ALPN.
    pub fn new(protocol: Protocol, credentials: &Credentials) -> Tls {
        let config = server_config(protocol, credentials);
        Tls {
            protocol,
            current: Arc::new(RwLock::new(Arc::new(config))),
        }
    }

    /// Uses other credentials for connections that are accepted from now on. Sessions of earlier
    /// ones cannot be resumed.
    pub fn replace(&self, credentials: &Credentials) {
        let config = Arc::new(server_config(self.protocol, credentials));
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = config;
    }

    fn current(&self) -> Arc<ServerConfig> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Handshake for Tls {
    type Stream = PlaintextStream;

    async fn handshake(
        &self,
        socket: RawSocket,
        connection: &Arc<Connection>,
    ) -> Result<PlaintextStream, HandshakeError> {
        let socket = CiphertextSocket::new(socket, connection);
        let acceptor = TlsAcceptor::from(self.current());
        let accepted = acceptor.accept_with(socket, |session| {
            session.set_buffer_limit(Some(BUFFER_BYTES));
        });
        match accepted.into_fallible().await {
            Ok(stream) => Ok(PlaintextStream::new(stream)),
            Err((error, socket)) => {
                end(socket.into_socket()).await;
                Err(describe(error))
            }
        }
    }
}

/// Ends the socket of a handshake that failed, so that the peer reads why: if a socket is closed
/// while bytes are unread, the connection is reset, and the alert is lost. A client of TLS 1.3
/// sends its first request before it knows whether its certificate is accepted.
async fn end(mut socket: RawSocket) {
    let read = async {
        // The peer may be gone.
        let _ = socket.shutdown().await;
        let mut rest = socket.take(UNREAD_BYTES_MAX);
        let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    };
    let _ended = timeout(ALERT_READ_WITHIN, read).await;
}

fn server_config(protocol: Protocol, credentials: &Credentials) -> ServerConfig {
    let mut config = credentials.server_config();
    config.alpn_protocols = alpn(protocol).iter().map(|name| name.to_vec()).collect();
    // Clients keep what is needed to resume their sessions, encrypted for this server: a cache
    // would have several KiB of each.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // A resumed session proves no certificate again: it would outlive a certificate that has
    // expired.
    let may_resume = !credentials.requires_client_certificates();
    match may_resume.then(Ticketer::new) {
        Some(Ok(ticketer)) => config.ticketer = ticketer,
        // Without random numbers for a key, each handshake is a full one, if there are any.
        Some(Err(_)) | None => config.send_tls13_tickets = 0,
    }
    config
}

/// The names of a protocol in ALPN, the preferred one first. A client that offers others only is
/// rejected; one that offers none is served.
const fn alpn(protocol: Protocol) -> &'static [&'static [u8]] {
    match protocol {
        Protocol::Http1 => &[b"http/1.1", b"http/1.0"],
        Protocol::Http2 => &[b"h2"],
        Protocol::Any => &[b"h2", b"http/1.1", b"http/1.0"],
        // Without a name, ALPN is not looked at.
        Protocol::Other => &[],
    }
}

/// Finds out what kind of failure the library's error is.
fn describe(source: io::Error) -> HandshakeError {
    let found = source.get_ref().and_then(|error| error.downcast_ref());
    match found.map(failure_of) {
        Some(failure) => HandshakeError { failure, source },
        None => HandshakeError::from(source),
    }
}

/// The kind of failure that an error of the library is.
fn failure_of(error: &rustls::Error) -> Failure {
    use CertificateError::{BadSignature, Expired, ExpiredContext, UnknownIssuer};
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Failure::NotTls,
        rustls::Error::PeerIncompatible(_) | rustls::Error::NoApplicationProtocol => {
            Failure::Incompatible
        }
        rustls::Error::AlertReceived(_) => Failure::RejectedByPeer,
        rustls::Error::NoCertificatesPresented => Failure::NoCertificate,
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
            Failure::ExpiredCertificate
        }
        // The signature is bad if another authority has the same name.
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => {
            Failure::UntrustedCertificate
        }
        rustls::Error::InvalidCertificate(_) => Failure::InvalidCertificate,
        _ => Failure::Broken,
    }
}

#[cfg(test)]
mod tests;
