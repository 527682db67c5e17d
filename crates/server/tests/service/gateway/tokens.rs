//! Clients that are known by a claim of their token.

use std::fs;
use std::path::Path;

use tollgate_rules::Source;
use tollgate_server::Config;

use super::section;
use super::upstream::Echo;
use crate::house::House;
use crate::http_client::Client;

/// Each user may send two requests an hour, and a client without a valid token one.
const RULES: &str = "
domain: api
descriptors:
  - {key: user, rate_limit: 2/hour}
  - {key: remote_address, rate_limit: 1/hour}
";

/// The secret `0123456789abcdef0123456789abcdef`.
pub(super) const KEYS: &str =
    r#"{"keys": [{"kty": "oct", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;

/// Of `ann` and `bob`, until the year 2100.
pub(super) const ANN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
    eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDB9.\
    QUBG8ORn79WF-qLlBM0DYBJAepMsIRX3NJGSMMdYxBo";
pub(super) const BOB: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
    eyJzdWIiOiJib2IiLCJleHAiOjQxMDI0NDQ4MDB9.\
    022e1FjJvIwU9Vl8T-cNZhEWnUWy7Jn7N-NzZ3h0_C8";
/// Of `ann` too, but until 2001.
const EXPIRED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
    eyJzdWIiOiJhbm4iLCJleHAiOjEwMDAwMDAwMDB9.\
    cSYMQtYtrOebLAxOrfDNVWYnFwUMXgEf_tFzcyIOVIU";
/// Of `ann`, by another secret.
const FORGED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
    eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDB9.\
    DoKKa8atHc5WPN2NmSGvMeDKSlfx80LyQ9d6yBHKcPM";

/// The identity whose keys are in this file.
fn identity(keys_file: &Path) -> String {
    format!(
        "identity: {{token: {{verify: {{keys_file: '{}'}}}}, descriptors: [{{entries: [
             {{key: user, from: {{claim: sub}},
               if_missing: {{use: {{key: remote_address, from: client_address}}}}}}]}}]}}",
        keys_file.display()
    )
}

/// The statuses of requests with these tokens.
async fn statuses<const N: usize>(house: &House, tokens: [&str; N]) -> [u16; N] {
    let mut found = [0; N];
    let mut client = Client::to(house.gateway()).await;
    for (status, token) in found.iter_mut().zip(tokens) {
        let request = format!("GET / HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\n\r\n");
        client.send(request.as_bytes()).await;
        *status = client.reply().await.unwrap().status;
    }
    found
}

#[tokio::test]
async fn users_are_limited_by_a_claim_that_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let keys_file = directory.path().join("keys.json");
    fs::write(&keys_file, KEYS).unwrap();
    let upstream = Echo::start().await;
    let settings = section(upstream.address, &identity(&keys_file));
    let house = super::gateway_with(RULES, settings, |_| ()).await;
    let found = statuses(&house, [ANN, ANN, ANN, BOB]).await;
    assert_eq!(found, [200, 200, 429, 200]);
    // Tokens that are not valid share the limit of clients without one.
    let found = statuses(&house, [FORGED, EXPIRED, "x", BOB, BOB]).await;
    assert_eq!(found, [200, 429, 429, 200, 429]);
}

#[test]
fn the_file_of_keys_is_relative_to_the_settings_and_checked_with_them() {
    let directory = tempfile::tempdir().unwrap();
    let read = |text: String| Config::parse(&Source::new("tollgate.yaml", text), directory.path());
    let identity = identity(Path::new("keys.json"));
    let gateway = |routes: &str, identity: &str| {
        let upstreams = "upstreams: {a: {addresses: ['h:1']}}";
        format!("rules: r\ngateway: {{domain: api, {upstreams}, {routes}{identity}}}\n")
    };
    let asked = identity.replace(
        "identity: {",
        "identity: {client_address: {source: x-real-ip}, ",
    );
    let texts = [
        gateway("", &identity),
        gateway("routes: ", &format!("[{{{identity}}}]")),
        format!("rules: r\nauth: {{domain: api, source: x-original-uri, {asked}}}\n"),
    ];
    for text in texts {
        let error = read(text.clone()).unwrap_err().to_string();
        assert!(error.contains("keys.json: "), "{error}");
        fs::write(directory.path().join("keys.json"), KEYS).unwrap();
        read(text.clone()).unwrap_or_else(|error| panic!("{text}: {error}"));
        fs::remove_file(directory.path().join("keys.json")).unwrap();
    }
}
