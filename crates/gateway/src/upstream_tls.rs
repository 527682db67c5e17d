//! TLS to the servers of an upstream.

use std::fmt;
use std::io;
use std::sync::Arc;

use http::uri::Authority;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_http::{InvalidSetting, InvalidSettings};
use tollgate_listen::ClientTlsFiles;

use crate::settings::{UpstreamProtocol, UpstreamTlsSettings};

/// The most bytes that a connection holds, encrypted or to be encrypted, until its socket takes
/// them.
const BUFFER_BYTES: usize = 64 * 1024;

/// How the addresses of an upstream are connected to over TLS.
#[derive(Clone)]
pub(crate) struct UpstreamTls {
    config: Arc<ClientConfig>,
    /// The name in the servers' certificates, if it is not that of the address.
    server_name: Option<ServerName<'static>>,
}

/// TLS to one address.
#[derive(Clone)]
pub(crate) struct AddressTls {
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("UpstreamTls");
        shown
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AddressTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AddressTls");
        shown
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

// === impl UpstreamTls ===

impl UpstreamTls {
    /// TLS as the settings have it, if the protocol can be spoken over it.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn open(
        settings: Option<&UpstreamTlsSettings>,
        protocol: UpstreamProtocol,
    ) -> Result<Option<UpstreamTls>, InvalidSettings> {
        let (problem, instead) = match (protocol, settings) {
            (UpstreamProtocol::H2, None) => (
                "`h2` is HTTP/2 over TLS, and there is no `tls`",
                "add `tls: {}`, or write `h2c` for HTTP/2 without TLS",
            ),
            (UpstreamProtocol::H2c, Some(_)) => (
                "`h2c` is HTTP/2 without TLS, and there is `tls`",
                "write `h2`, or remove `tls`",
            ),
            (_, None) => return Ok(None),
            (_, Some(settings)) => {
                let tls = UpstreamTls::new(settings, protocol);
                return tls.map(Some).map_err(|invalid| invalid.below("tls"));
            }
        };
        Err(InvalidSetting::new("protocol", problem, instead).into())
    }

    /// Reads the files.
    fn new(
        settings: &UpstreamTlsSettings,
        protocol: UpstreamProtocol,
    ) -> Result<UpstreamTls, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let identity = match (&settings.cert, &settings.key) {
            (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => {
                let (problem, instead) = ("a certificate without its key", "add `key: FILE` (PEM)");
                errors.push(InvalidSetting::new("cert", problem, instead));
                None
            }
            (None, Some(_)) => {
                let (problem, instead) =
                    ("a key without its certificate", "add `cert: FILE` (PEM)");
                errors.push(InvalidSetting::new("key", problem, instead));
                None
            }
        };
        let server_name = settings.server_name.as_ref().map(|name| {
            ServerName::try_from(name.clone()).map_err(|_| {
                let problem = format!("{name:?} is not a valid server name");
                InvalidSetting::new("server_name", problem, "write one such as api.example")
            })
        });
        let server_name = errors.take(server_name.transpose()).flatten();
        let ca = settings.ca.clone();
        let files = ClientTlsFiles { ca, identity };
        let config = errors.take(files.read().map_err(|invalid| {
            let invalid = invalid.into_iter().map(|one| {
                let problem = format!("{}: {}", one.path.display(), one.problem);
                InvalidSetting::new(one.file.name(), problem, one.problem.help())
            });
            invalid.collect::<InvalidSettings>()
        }));
        let (Some(mut config), true) = (config, errors.is_empty()) else {
            return Err(errors);
        };
        config.alpn_protocols = vec![match protocol {
            UpstreamProtocol::Http1 => b"http/1.1".to_vec(),
            UpstreamProtocol::H2 | UpstreamProtocol::H2c => b"h2".to_vec(),
        }];
        Ok(UpstreamTls {
            config: Arc::new(config),
            server_name,
        })
    }

    /// For connections to an address.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] if the address has no name that a certificate can have.
    pub(crate) fn build_for(&self, address: &Authority) -> Result<AddressTls, InvalidSetting> {
        let server_name = match &self.server_name {
            Some(name) => name.clone(),
            None => {
                let host = address.host().trim_matches(['[', ']']).to_owned();
                ServerName::try_from(host.clone()).map_err(|_| {
                    let problem = format!("{host:?} is not a name that a certificate can have");
                    InvalidSetting::new("tls", problem, "set `server_name`")
                })?
            }
        };
        Ok(AddressTls {
            config: Arc::clone(&self.config),
            server_name,
        })
    }
}

// === impl AddressTls ===

impl AddressTls {
    /// Performs the handshake. A server for HTTP/2 must agree to speak it.
    ///
    /// # Errors
    ///
    /// [`io::Error`] says what is wrong with the server, or its certificate.
    pub(crate) async fn handshake(
        &self,
        stream: TcpStream,
        protocol: UpstreamProtocol,
    ) -> io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let name = self.server_name.clone();
        let shaken = connector.connect_with(name, stream, |session| {
            session.set_buffer_limit(Some(BUFFER_BYTES));
        });
        let stream = shaken.await.map_err(explain)?;
        let (_, session) = stream.get_ref();
        match protocol == UpstreamProtocol::H2 && session.alpn_protocol() != Some(b"h2") {
            true => {
                let problem = "the server does not agree to HTTP/2 (`h2` by ALPN)";
                Err(io::Error::other(TlsError(problem.to_owned())))
            }
            false => Ok(stream),
        }
    }
}

/// Why there is no connection over TLS.
#[derive(Debug)]
pub(crate) struct TlsError(String);

// === impl TlsError ===

impl std::error::Error for TlsError {}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Says what an error of the handshake means, as far as the library's words do not.
fn explain(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    let meaning = match cause {
        Some(rustls::Error::InvalidCertificate(reason)) => match reason {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired"
            }
            CertificateError::UnknownIssuer => {
                "the server's certificate is from an authority that is not trusted"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the server's certificate is for another name"
            }
            _ => "the server's certificate cannot be used",
        },
        Some(rustls::Error::AlertReceived(_)) => "the server rejected the handshake",
        Some(_) => "the handshake failed; does the server speak TLS?",
        // The connection ended.
        None => "the server ended the handshake; does it speak TLS?",
    };
    io::Error::other(TlsError(format!("{meaning}: {error}")))
}
