//! TLS from the client's side, which trusts only the authority of the attacked service.

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::peer::{connect, within};
use crate::stream::Stream;
use crate::target::Target;

/// The name in the service's certificate.
const NAME: &str = "localhost";

/// A connection with TLS or without.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Wire for S {}

/// Connects from `from`, over TLS if the target has it.
pub(crate) async fn connect_any(
    from: Ipv4Addr,
    to: SocketAddr,
    target: &Target,
) -> Result<Box<dyn Wire>> {
    Ok(match target.authority {
        None => Box::new(connect(from, to).await?),
        Some(_) => Box::new(connect_tls(from, to, target).await?),
    })
}

/// Connects from `from` and shakes hands.
pub(crate) async fn connect_tls(
    from: Ipv4Addr,
    to: SocketAddr,
    target: &Target,
) -> Result<TlsStream<Stream>> {
    let stream = connect(from, to).await?;
    let connector = TlsConnector::from(config(target)?);
    within(connector.connect(name(), stream)).await
}

/// The first message of a handshake.
pub(crate) fn client_hello(target: &Target) -> Result<Vec<u8>> {
    let mut connection = ClientConnection::new(config(target)?, name()).map_err(Error::other)?;
    let mut out = Vec::new();
    connection.write_tls(&mut out)?;
    Ok(out)
}

fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("a constant")
}

/// Read once: the authority is that of the process. Every handshake is a complete one.
fn config(target: &Target) -> Result<Arc<ClientConfig>> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let authority = target.authority.ok_or(ErrorKind::Unsupported)?;
    let authority = CertificateDer::from_pem_file(authority).map_err(Error::other)?;
    let mut roots = RootCertStore::empty();
    roots.add(authority).map_err(Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(Error::other)?.with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::clone(CONFIG.get_or_init(|| Arc::new(config))))
}
