//! Both ends of a connection with TLS.

use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite,
};
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

/// A client that sends records of any type.
pub(super) struct Records {
    socket: BufStream<UnixStream>,
    encrypter: Box<dyn MessageEncrypter>,
    sent: u64,
}

// === impl Records ===

impl Records {
    pub(super) fn new(client: Client) -> Records {
        let (socket, session) = client.into_inner();
        let Some(SupportedCipherSuite::Tls13(suite)) = session.negotiated_cipher_suite() else {
            panic!("TLS 1.3 is preferred");
        };
        let (sent, secrets) = session.dangerous_extract_secrets().unwrap().tx;
        let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = secrets
        else {
            panic!("another cipher");
        };
        Records {
            socket,
            encrypter: suite.aead_alg.encrypter(key, iv),
            sent,
        }
    }

    /// Waits until the peer ends the connection.
    pub(super) async fn wait_for_end(mut self) {
        let mut rest = Vec::new();
        let _reset = self.socket.read_to_end(&mut rest).await;
    }

    /// Sends a record; whether the peer takes it.
    pub(super) async fn send(&mut self, typ: ContentType, content: &[u8]) -> bool {
        let plain = OutboundPlainMessage {
            typ,
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(content),
        };
        let record = self.encrypter.encrypt(plain, self.sent).unwrap().encode();
        self.sent += 1;
        self.socket.write_all(&record).await.is_ok() && self.socket.flush().await.is_ok()
    }
}

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
    let mut client = client.read().unwrap();
    // For records that the library does not write.
    client.enable_secret_extraction = true;
    (files.read().unwrap(), Arc::new(client))
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
