//! Upstreams that speak TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tollgate_testbed::Certificates;

use super::upstream::{Echo, answer_all};
use super::{FREE, RULES, gateway_with, section_of};
use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;

/// A certificate and its key, as files.
pub(super) type Pair = (String, String);

/// A server of TLS whose answer is the version of HTTP, the host, and the name that it was sent.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// What a server shows, demands and offers.
struct Shown<'a> {
    pair: &'a Pair,
    client_ca: Option<String>,
    protocols: &'a [&'a str],
}

fn certificates(path: &str) -> Vec<CertificateDer<'static>> {
    let all = CertificateDer::pem_file_iter(path).unwrap();
    all.map(Result::unwrap).collect()
}

fn server_config(shown: &Shown<'_>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match &shown.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path) {
                roots.add(authority).unwrap();
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let (cert, key) = shown.pair;
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let mut config = builder.with_single_cert(certificates(cert), key).unwrap();
    let protocols = shown.protocols.iter();
    config.alpn_protocols = protocols.map(|name| name.as_bytes().to_vec()).collect();
    config
}

// === impl Server ===

impl Server {
    async fn start(shown: Shown<'_>) -> Server {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(&shown)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let (_, session) = stream.get_ref();
                    let name = session.server_name().unwrap_or("-").to_owned();
                    let is_http2 = session.alpn_protocol() == Some(b"h2");
                    answer_all(stream, is_http2, |request| describe(request, &name)).await;
                });
            }
        });
        Server {
            address,
            _tasks: tasks,
        }
    }

    /// One that demands a certificate of the same authority.
    pub(super) async fn demanding(issued: &Certificates) -> Server {
        Server::start(Shown {
            pair: &issued.identity(),
            client_ca: Some(issued.authority()),
            protocols: &["http/1.1"],
        })
        .await
    }

    /// One with a certificate for `localhost` and 127.0.0.1, which speaks both versions.
    pub(super) async fn plain(pair: &Pair) -> Server {
        Server::start(Shown {
            pair,
            client_ca: None,
            protocols: &["h2", "http/1.1"],
        })
        .await
    }
}

fn describe(request: &Request<Incoming>, name: &str) -> Response<Full<Bytes>> {
    let host = request
        .headers()
        .get("host")
        .map(|host| host.to_str().unwrap().to_owned());
    let authority = request.uri().authority().map(ToString::to_string);
    let scheme = request.uri().scheme_str().unwrap_or("-");
    let host = host.or(authority).unwrap_or_default();
    let text = format!("{:?} {scheme} {host} {name}", request.version());
    Response::new(Full::new(text.into()))
}

/// A gateway in front of an address, with more settings of the upstream.
async fn start(address: impl std::fmt::Display, upstream: &str) -> House {
    let upstream = format!("{{addresses: ['{address}'], {upstream}}}");
    gateway_with(RULES, section_of(&upstream, FREE), |_| ()).await
}

async fn ask(house: &House) -> (u16, String) {
    let reply = Client::to(house.gateway()).await.get("/").await;
    (reply.status, reply.body)
}

/// Expects that there is no secure connection.
async fn expect_none(house: &House) {
    let reply = Client::to(house.gateway()).await.get("/").await;
    let detail = reply.problem(502);
    assert_eq!(
        detail,
        "there is no secure connection to the server behind the gateway"
    );
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    let counted = r#"tollgate_gateway_upstream_errors_total{upstream="api",kind="tls"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_over_tls() {
    let issued = Certificates::new();
    let server = Server::plain(&issued.identity()).await;
    let ca = issued.authority();
    let house = start(server.address, &format!("tls: {{ca: '{ca}'}}")).await;
    for _ in 0..3 {
        assert_eq!(
            ask(&house).await,
            (200, "HTTP/1.1 - localhost -".to_owned())
        );
    }
    let named = format!("localhost:{}", server.address.port());
    let house = start(&named, &format!("protocol: h2, tls: {{ca: '{ca}'}}")).await;
    for _ in 0..3 {
        assert_eq!(
            ask(&house).await,
            (200, "HTTP/2.0 https localhost localhost".to_owned())
        );
    }
    let tls = format!("tls: {{ca: '{ca}', server_name: localhost}}");
    let house = start(server.address, &tls).await;
    assert_eq!(
        ask(&house).await,
        (200, "HTTP/1.1 - localhost localhost".to_owned())
    );
}

#[tokio::test]
async fn a_server_whose_certificate_cannot_be_trusted_gets_no_request() {
    let (issued, other) = (Certificates::new(), Certificates::new());
    let (ca, other) = (issued.authority(), other.authority());
    let server = Server::plain(&issued.identity()).await;
    let expired = Server::plain(&issued.issue_expired("expired")).await;
    for (address, tls) in [
        // Another authority, and the public ones.
        (server.address, format!("{{ca: '{other}'}}")),
        (server.address, "{}".to_owned()),
        (
            server.address,
            format!("{{ca: '{ca}', server_name: other.example}}"),
        ),
        (expired.address, format!("{{ca: '{ca}'}}")),
    ] {
        let house = start(address, &format!("tls: {tls}")).await;
        expect_none(&house).await;
    }
}

#[tokio::test]
async fn servers_that_do_not_speak_tls_or_http_2_get_no_request() {
    let issued = Certificates::new();
    let ca = issued.authority();
    let echo = Echo::start().await;
    let house = start(echo.address, &format!("tls: {{ca: '{ca}'}}")).await;
    expect_none(&house).await;
    assert!(echo.requests().is_empty());
    for protocols in [&["http/1.1"][..], &[]] {
        let server = Server::start(Shown {
            pair: &issued.identity(),
            client_ca: None,
            protocols,
        })
        .await;
        let house = start(
            server.address,
            &format!("protocol: h2, tls: {{ca: '{ca}'}}"),
        )
        .await;
        expect_none(&house).await;
        // HTTP/1.1 needs no agreement.
        let house = start(server.address, &format!("tls: {{ca: '{ca}'}}")).await;
        assert_eq!(ask(&house).await.0, 200);
    }
}

#[tokio::test]
async fn a_server_may_demand_a_certificate() {
    let issued = Certificates::new();
    let ca = issued.authority();
    let server = Server::demanding(&issued).await;
    let (cert, key) = issued.issue("client");
    let tls = format!("tls: {{ca: '{ca}', cert: '{cert}', key: '{key}'}}");
    let house = start(server.address, &tls).await;
    assert_eq!(ask(&house).await.0, 200);
    // With TLS 1.3, a client learns that it is rejected after its handshake.
    let house = start(server.address, &format!("tls: {{ca: '{ca}'}}")).await;
    assert_eq!(ask(&house).await.0, 502);
}

#[tokio::test]
async fn health_is_checked_over_tls() {
    let issued = Certificates::new();
    let ca = issued.authority();
    let server = Server::plain(&issued.identity()).await;
    for protocol in ["http1", "h2"] {
        let check = "health_check: {path: /healthz, interval: 10ms}";
        let upstream = format!("protocol: {protocol}, tls: {{ca: '{ca}'}}, {check}");
        let house = start(server.address, &upstream).await;
        let address = server.address;
        let labels = format!("{{upstream=\"api\",address=\"{address}\",outcome=\"passed\"}}");
        let passed = format!("tollgate_gateway_health_checks_total{labels} 0\n");
        let mut admin = Client::to(house.admin()).await;
        eventually(async || !admin.get("/metrics").await.body.contains(&passed)).await;
        let metrics = admin.get("/metrics").await.body;
        assert!(!metrics.contains("outcome=\"failed\"} 1"), "{metrics}");
    }
}
