//! A service whose listeners all have TLS, and its clients.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_listen::ClientTlsFiles;
use tollgate_server::{Config, ListenerKind, TlsFiles};
use tollgate_testbed::Certificates;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;

pub(crate) const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 5/day}]\n";
pub(crate) const GOOD: &str = r#"{"domain":"d","descriptors":[{"k":"v"}]}"#;
/// How long a count may take to change. A client may learn of an event before it is counted.
const COUNTED_WITHIN: Duration = Duration::from_secs(20);

/// A certificate and its key, as files.
pub(crate) type Pair = (String, String);

/// A service with certificates in `house.path("cert")` and `house.path("key")`.
pub(crate) struct Secured {
    pub(crate) house: House,
    pub(crate) issued: Certificates,
}

// === impl Secured ===

impl Secured {
    /// With a certificate, and without one of clients.
    pub(crate) async fn new() -> Secured {
        Secured::with(|_, _| ()).await
    }

    /// Whose clients need certificates of the same authority.
    pub(crate) async fn mutual() -> Secured {
        Secured::with(|config, issued| {
            for listen in &mut config.listen {
                let tls = listen.tls.as_mut().unwrap();
                tls.client_ca = Some(issued.authority().into());
            }
        })
        .await
    }

    /// The same, with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Config, &Certificates)) -> Secured {
        let issued = Certificates::new();
        let house = House::with(RULES, |config| {
            let directory = config.rules[0].parent().unwrap().to_owned();
            put(&directory, issued.identity());
            for listen in &mut config.listen {
                listen.tls = Some(TlsFiles {
                    cert: directory.join("cert"),
                    key: directory.join("key"),
                    client_ca: None,
                });
            }
            change(config, &issued);
        })
        .await;
        Secured { house, issued }
    }

    /// A stream to a listener, for a client without a certificate or with one.
    pub(crate) async fn connect(
        &self,
        kind: ListenerKind,
        identity: Option<Pair>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let address = self.house.running.address(kind).unwrap();
        connect(address, &client_config(&self.issued, identity)).await
    }

    /// A client of HTTP/1.1.
    pub(crate) async fn client(&self, kind: ListenerKind) -> Client<TlsStream<TcpStream>> {
        Client(self.connect(kind, None).await.unwrap())
    }

    /// A gRPC client, as Envoy is.
    pub(crate) async fn grpc(
        &self,
        identity: Option<Pair>,
    ) -> Result<grpc_client::Client, tonic::transport::Error> {
        let port = self.house.grpc().port();
        let authority = fs::read(self.issued.authority()).unwrap();
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority));
        if let Some((cert, key)) = identity {
            let read = |path: String| fs::read(path).unwrap();
            tls = tls.identity(Identity::from_pem(read(cert), read(key)));
        }
        let endpoint = Endpoint::from_shared(format!("https://localhost:{port}")).unwrap();
        let channel = endpoint.tls_config(tls).unwrap().connect().await?;
        Ok(grpc_client::Client(channel))
    }

    /// Waits until a metric has this value.
    pub(crate) async fn until_metric(&self, line: &str) {
        let latest = Instant::now() + COUNTED_WITHIN;
        loop {
            let identity = Some(self.issued.identity());
            let admin = self.connect(ListenerKind::Admin, identity).await.unwrap();
            let text = Client(admin).get("/metrics").await.body;
            if text.lines().any(|found| found == line) {
                return;
            }
            assert!(Instant::now() < latest, "no {line} in {text}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Writes a certificate and its key, one file after the other.
pub(crate) fn put(directory: &Path, (cert, key): Pair) {
    fs::copy(cert, directory.join("cert")).unwrap();
    fs::copy(key, directory.join("key")).unwrap();
}

/// A client that trusts the authority, and may have a certificate. It offers HTTP/2 and HTTP/1.1.
pub(crate) fn client_config(issued: &Certificates, identity: Option<Pair>) -> Arc<ClientConfig> {
    let files = ClientTlsFiles {
        ca: Some(issued.authority().into()),
        identity: identity.map(|(cert, key)| (cert.into(), key.into())),
    };
    let mut config = files.read().unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

pub(crate) async fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::clone(config));
    connector.connect(name, socket).await
}
