//! Both ends of a connection with TLS.

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::BufStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_testbed::Certificates;

use super::*;
use crate::tls::{ClientTlsFiles, Credentials, PlaintextStream, TlsFiles};

/// What a client sends at once at most.
const BUFFER_BYTES: usize = 128 * 1024;

/// A client that sends all its records at once when it is flushed.
pub(super) type Client = TlsStream<BufStream<UnixStream>>;

/// What a listener has, and a client that trusts it.
pub(super) fn configs() -> (Credentials, Arc<ClientConfig>) {
    let trusted = Certificates::new();
    let (cert, key) = trusted.identity();
    let files = TlsFiles {
        cert: cert.into(),
        key: key.into(),
        client_ca: None,
    };
    let client = ClientTlsFiles {
        ca: Some(trusted.authority().into()),
        identity: None,
    };
    (files.read().unwrap(), Arc::new(client.read().unwrap()))
}

/// Both ends of a connection behind its handshake.
pub(super) async fn connect(
    tls: &Tls,
    config: &Arc<ClientConfig>,
    known: &Arc<Connection>,
) -> (Client, PlaintextStream) {
    let (client, server) = UnixStream::pair().unwrap();
    let client = BufStream::with_capacity(BUFFER_BYTES, BUFFER_BYTES, client);
    let name = ServerName::try_from("localhost").unwrap();
    let (client, server) = tokio::join!(
        TlsConnector::from(Arc::clone(config)).connect(name, client),
        tls.handshake(server.into(), known),
    );
    (client.unwrap(), server.unwrap())
}
