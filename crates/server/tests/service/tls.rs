//! Every listener over TLS, with and without certificates of clients.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate_server::ListenerKind;

use crate::stopping::health;
use crate::tls_client::{GOOD, Secured};

/// `ServingStatus` of gRPC health checks.
const SERVING: i32 = 1;
const GRPC_GOOD: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;

#[tokio::test]
async fn every_listener_speaks_tls() {
    let secured = Secured::new().await;
    let admin = secured.connect(ListenerKind::Admin, None).await.unwrap();
    let session = admin.get_ref().1;
    assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(
        session.protocol_version(),
        Some(rustls::ProtocolVersion::TLSv1_3)
    );
    let mut http = secured.client(ListenerKind::Http).await;
    let reply = http.post("/v1/check", GOOD).await;
    assert_eq!(reply.json()["limits"][0]["remaining"], 4);
    let grpc = secured.grpc(None).await.unwrap();
    let response = grpc.ask(GRPC_GOOD).await.unwrap();
    assert_eq!(response.statuses[0].limit_remaining, 3);
    assert_eq!(health(&grpc, "").await, SERVING);
    let mut admin = secured.client(ListenerKind::Admin).await;
    assert_eq!(admin.get("/v1/rules").await.json()["rules"][0]["limit"], 5);
    let metrics = admin.get("/metrics").await.body;
    for listener in ["grpc", "http", "admin"] {
        let ok =
            format!("tollgate_certificate_loads_total{{listener=\"{listener}\",outcome=\"ok\"}} 1");
        assert!(metrics.lines().any(|line| line == ok), "{metrics}");
    }
}

#[tokio::test]
async fn clients_need_a_certificate_where_the_settings_say_so() {
    let secured = Secured::mutual().await;
    let certified = || Some(secured.issued.identity());
    for kind in [ListenerKind::Http, ListenerKind::Admin] {
        let mut stream = secured.connect(kind, certified()).await.unwrap();
        let request = b"GET /healthz HTTP/1.0\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        assert!(reply.starts_with("HTTP/1.0 200"), "{reply}");
        // In TLS 1.3, a client learns that it was rejected when it reads.
        let mut stream = secured.connect(kind, None).await.unwrap();
        assert!(stream.read_u8().await.is_err());
    }
    let grpc = secured.grpc(certified()).await.unwrap();
    assert_eq!(
        grpc.ask(GRPC_GOOD).await.unwrap().statuses[0].limit_remaining,
        4
    );
    let rejected = match secured.grpc(None).await {
        Ok(client) => client.ask(GRPC_GOOD).await.is_err(),
        Err(_) => true,
    };
    assert!(rejected);
    for listener in ["http", "admin", "grpc"] {
        let labels = format!("listener=\"{listener}\",reason=\"no_client_certificate\"");
        let line = format!("tollgate_connections_closed_total{{{labels}}} 1");
        secured.until_metric(&line).await;
    }
}

#[tokio::test]
async fn certificates_of_clients_are_rejected_by_reason() {
    let secured = Secured::mutual().await;
    let foreign = tollgate_testbed::Certificates::new();
    for (identity, reason) in [
        (
            secured.issued.issue_expired("old"),
            "client_certificate_expired",
        ),
        (foreign.identity(), "client_certificate_untrusted"),
    ] {
        let stream = secured.connect(ListenerKind::Http, Some(identity)).await;
        let is_rejected = match stream {
            Ok(mut stream) => stream.read_u8().await.is_err(),
            Err(_) => true,
        };
        assert!(is_rejected, "{reason}");
        let labels = format!("listener=\"http\",reason=\"{reason}\"");
        let line = format!("tollgate_connections_closed_total{{{labels}}} 1");
        secured.until_metric(&line).await;
    }
}

/// With `close_notify`: a client that gets none cannot tell the end from an attack, and the
/// library returns an error to it.
#[tokio::test]
async fn a_drained_connection_ends_cleanly() {
    let secured = Secured::new().await;
    let mut http = secured.client(ListenerKind::Http).await;
    assert_eq!(http.post("/v1/check", GOOD).await.status, 200);
    let grpc = secured.grpc(None).await.unwrap();
    grpc.ask(GRPC_GOOD).await.unwrap();
    let mut unused = secured.connect(ListenerKind::Admin, None).await.unwrap();
    secured.house.running.stop().await;
    assert_eq!(http.0.read(&mut [0; 9]).await.unwrap(), 0);
    assert_eq!(unused.read(&mut [0; 9]).await.unwrap(), 0);
}

/// A client of TLS 1.3 sends its first request before its certificate is looked at, and may go on
/// sending before it reads. If the socket were closed at once, it would not learn why it failed.
#[tokio::test]
async fn a_client_without_a_certificate_learns_why_whatever_it_has_sent() {
    let secured = Secured::mutual().await;
    for kind in [ListenerKind::Http, ListenerKind::Admin, ListenerKind::Grpc] {
        let mut stream = secured.connect(kind, None).await.unwrap();
        for _ in 0..3 {
            stream.write_all(&[b'x'; 1_000]).await.unwrap();
            stream.flush().await.unwrap();
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
        }
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("CertificateRequired"), "{kind:?}: {text}");
    }
}

#[tokio::test]
async fn an_idle_connection_makes_room_and_ends_cleanly() {
    let secured = Secured::with(|config, _| config.limits.connections = 1).await;
    let mut idle = secured.connect(ListenerKind::Http, None).await.unwrap();
    // It becomes idle after 250 ms, so the next ones are only served health checks until then.
    loop {
        let mut http = secured.client(ListenerKind::Http).await;
        match http.post("/v1/check", GOOD).await.status {
            503 => {}
            200 => break,
            other => panic!("{other}"),
        }
    }
    assert_eq!(idle.read(&mut [0; 9]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_full_listener_answers_health_checks_over_tls() {
    let secured = Secured::with(|config, _| config.limits.connections = 0).await;
    let mut http = secured.client(ListenerKind::Http).await;
    assert_eq!(http.get("/healthz").await.status, 200);
    let mut http = secured.client(ListenerKind::Http).await;
    assert_eq!(http.post("/v1/check", GOOD).await.status, 503);
    let grpc = secured.grpc(None).await.unwrap();
    assert_eq!(health(&grpc, "").await, SERVING);
}
