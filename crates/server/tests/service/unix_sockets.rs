//! Listeners on Unix sockets, and clients that know nothing of us.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tokio::net::UnixStream;
use tollgate_listen::{Address, SocketPath, TlsFiles};
use tollgate_server::{Config, ListenerKind, ServeError};

use crate::house::House;
use crate::http_client::Client;
use crate::{grpc_client, tls_client};

const RULES: &str = "domain: shop\ndescriptors: [{key: user, rate_limit: 3/day}]\n";
const ASK: &str = r#"{"domain":"shop","descriptors":[{"user":"ann"}]}"#;

/// Every listener that is on, and `redis`, on a Unix socket of its name.
fn on_unix_sockets(config: &mut Config) {
    crate::redis_client::with_redis(config);
    let directory = config.rules[0].parent().unwrap().to_owned();
    for listen in &mut config.listen {
        let path = directory.join(listen.kind.name());
        listen.address = Address::Unix(SocketPath { path, mode: 0o600 });
    }
}

async fn house() -> House {
    House::with(RULES, on_unix_sockets).await
}

async fn client(path: &Path) -> Client<UnixStream> {
    Client(UnixStream::connect(path).await.unwrap())
}

/// What a program prints.
async fn run(program: &'static str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let output = ran.unwrap().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

async fn curl(socket: &Path, arguments: &[&str]) -> String {
    let socket = socket.to_str().unwrap();
    let always = ["--silent", "--max-time", "60", "--unix-socket", socket];
    run("curl", &[&always[..], arguments].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_asks_over_a_unix_socket() {
    let house = house().await;
    for listener in ["http", "grpc", "redis", "admin"] {
        let mode = fs::metadata(house.path(listener)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{listener}");
    }
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    let ask = [&status[..], &["--data", ASK, "http://h/v1/check"]].concat();
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(curl(&house.path("http"), &ask).await);
    }
    assert_eq!(statuses, ["200", "200", "200", "429"]);
    let ready = [&status[..], &["http://h/readyz"]].concat();
    assert_eq!(curl(&house.path("admin"), &ready).await, "200");
    let metrics = curl(&house.path("admin"), &["http://h/metrics"]).await;
    let open = "tollgate_connections{listener=\"admin\"} 1";
    assert!(metrics.contains(open), "{metrics}");
}

#[tokio::test]
async fn grpc_asks_over_a_unix_socket() {
    let house = house().await;
    let path = house.path("grpc");
    let endpoint = format!("unix:{}", path.display());
    let endpoint = tonic::transport::Endpoint::from_shared(endpoint).unwrap();
    let client = grpc_client::Client(endpoint.connect().await.unwrap());
    let ask = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
    let answer = client.ask(ask).await.unwrap();
    assert_eq!(answer.statuses[0].limit_remaining, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_cli_asks_over_a_unix_socket() {
    let house = house().await;
    let path = house.path("redis");
    let command = ["TG.CHECK", "shop", "1", "user", "ann"];
    let socket = ["-s", path.to_str().unwrap()];
    let asked = run("redis-cli", &[&socket[..], &command].concat()).await;
    assert_eq!(asked, "0\n3\n2\n-1\n43200\n0\nuser\n");
    let shown = run("redis-cli", &[&socket[..], &["CLIENT", "INFO"]].concat()).await;
    assert!(shown.contains("user=default"), "{shown}");
}

/// TLS is for clients that demand it, or prove with it who they are.
#[tokio::test(flavor = "multi_thread")]
async fn tls_works_over_a_unix_socket() {
    let secured = tls_client::Secured::with(|config, _| on_unix_sockets_but_redis(config)).await;
    let authority = secured.issued.authority();
    let arguments = ["--cacert", &authority, "https://localhost/healthz"];
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    let path = secured.house.path("http");
    assert_eq!(
        curl(&path, &[&status[..], &arguments].concat()).await,
        "200"
    );
    let mut plain = client(&path).await;
    plain
        .send(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n")
        .await;
    assert!(plain.reply().await.is_none());
}

fn on_unix_sockets_but_redis(config: &mut Config) {
    let tls: Vec<Option<TlsFiles>> = config.listen.iter().map(|one| one.tls.clone()).collect();
    on_unix_sockets(config);
    config.listen.truncate(tls.len());
    for (listen, tls) in config.listen.iter_mut().zip(tls) {
        assert_eq!(listen.tls, tls);
    }
}

#[tokio::test]
async fn peers_have_no_address_to_count_them_by() {
    let house = House::with(RULES, |config| {
        on_unix_sockets(config);
        config.limits.connections = 5;
        config.limits.connections_per_address = 1;
    })
    .await;
    let mut open = Vec::new();
    for _ in 0..5 {
        let mut one = client(&house.path("http")).await;
        assert_eq!(one.get("/openapi.json").await.status, 200);
        open.push(one);
    }
    // Those count under the total: the next one is only served health checks.
    let mut more = client(&house.path("http")).await;
    assert_eq!(more.get("/openapi.json").await.status, 503);
}

#[tokio::test]
async fn the_files_go_with_the_service_and_a_second_one_does_not_take_them() {
    let house = house().await;
    let path = house.path("http");
    let directory = TempDir::new().unwrap();
    let rules = directory.path().join("rules.yaml");
    fs::write(&rules, RULES).unwrap();
    let second = House::at(directory, rules, |config| {
        config.listen.retain(|one| one.kind == ListenerKind::Http);
        let path = path.clone();
        config.listen[0].address = Address::Unix(SocketPath { path, mode: 0o600 });
    });
    let Err(error @ ServeError::Listen { .. }) = second.await else {
        panic!("the socket is in use");
    };
    let shown = format!("the http listener cannot use unix:{}; ", path.display());
    assert!(error.to_string().starts_with(&shown), "{error}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        source.starts_with("a process accepts connections"),
        "{source}"
    );
    assert_eq!(client(&path).await.get("/healthz").await.status, 200);

    let House {
        running, directory, ..
    } = house;
    running.stop().await;
    let left = fs::read_dir(directory.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["rules.yaml"]);
}
