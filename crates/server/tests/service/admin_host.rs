//! Without tokens, the admin listener trusts no name that a web page may have been given.

use tokio::net::UnixStream;
use tollgate_listen::{Address, SocketPath};
use tollgate_server::ListenerKind;

use crate::house::{House, demand_token};
use crate::http_client::{Client, Reply};

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1/day}]\n";
const TOKEN: &str = "first-token-0123456789";
/// Names of others, which may resolve to an address of this host.
const FOREIGN: [&str; 5] = [
    "evil.example",
    "evil.example:6070",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "xlocalhost",
];

async fn get(house: &House, path: &str, host: &str) -> Reply {
    let mut client = Client::to(house.admin()).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    client.send(request.as_bytes()).await;
    client.reply().await.unwrap()
}

/// A page at `evil.example`, whose name resolves to 127.0.0.1 once the page is loaded, may read
/// what `http://evil.example:6070` answers.
#[tokio::test]
async fn a_name_that_may_be_rebound_gets_nothing() {
    let house = House::on(RULES).await;
    for host in FOREIGN {
        for path in ["/v1/rules", "/v1/explain", "/metrics", "/", "/nothing"] {
            let detail = get(&house, path, host).await.problem(421);
            assert!(detail.contains("`admin.token_file`"), "{detail}");
            assert!(detail.contains("http://localhost"), "{detail}");
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(get(&house, path, host).await.status, 200, "{host}");
        }
    }
    for host in [
        "localhost",
        "LocalHost:6070",
        "127.0.0.1",
        "127.0.0.1:1",
        "192.0.2.7:6070",
        "[::1]",
        "[::1]:6070",
    ] {
        for path in ["/v1/rules", "/metrics", "/"] {
            assert_eq!(get(&house, path, host).await.status, 200, "{host}");
        }
    }
    let metrics = get(&house, "/metrics", "localhost").await.body;
    let expected = r#"request_errors_total{listener="admin",kind="foreign_host"} 25"#;
    assert!(metrics.contains(expected), "{metrics}");
}

/// 127.0.0.1 is one of all addresses.
#[tokio::test]
async fn on_all_addresses_this_host_gets_nothing_under_a_foreign_name() {
    let house = House::with(RULES, |config| {
        let mut admin = config.listen.iter_mut();
        let admin = admin.find(|listen| listen.kind == ListenerKind::Admin);
        admin.unwrap().address = "0.0.0.0:0".parse().unwrap();
    })
    .await;
    assert_eq!(get(&house, "/v1/rules", "evil.example").await.status, 421);
    assert_eq!(get(&house, "/v1/rules", "localhost").await.status, 200);
}

#[tokio::test]
async fn with_tokens_every_name_is_good() {
    let house = House::with(RULES, |config| {
        demand_token(config, TOKEN);
    })
    .await;
    let host = format!("evil.example\r\nauthorization: Bearer {TOKEN}");
    assert_eq!(get(&house, "/v1/rules", &host).await.status, 200);
    assert_eq!(get(&house, "/metrics", "evil.example").await.status, 200);
}

/// No web page reaches it.
#[tokio::test]
async fn over_a_unix_socket_every_name_is_good() {
    let house = House::with(RULES, |config| {
        let path = config.rules[0].with_file_name("admin");
        let admin = config.listen.iter_mut();
        let mut admin = admin.filter(|listen| listen.kind == ListenerKind::Admin);
        admin.next().unwrap().address = Address::Unix(SocketPath { path, mode: 0o600 });
    })
    .await;
    let mut client = Client(UnixStream::connect(house.path("admin")).await.unwrap());
    let request = b"GET /v1/rules HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    client.send(request).await;
    assert_eq!(client.reply().await.unwrap().status, 200);
}
