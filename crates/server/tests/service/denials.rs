//! A denied request is explained afterwards, by the id in its answer.

use std::path::Path;

use prost::Message as _;
use serde_json::Value;
use tollgate_core::Span;
use tollgate_rls::{RateLimitRequest, RateLimitResponse};
use tollgate_rules::Source;
use tollgate_server::Config;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

use crate::grpc_client;
use crate::house::House;
use crate::http_client::{Client, Reply};

const RULES: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {name: user, unit: minute, requests_per_unit: 1}}
  - {key: remote_address, rate_limit: 0/minute}
";
const CHECK: &str = r#"{"domain":"d","descriptors":[{"user":"secret"}]}"#;

/// The explanation of a denied request.
async fn explain(house: &House, id: &str) -> Reply {
    let path = format!("/v1/explain?request_id={id}");
    Client::to(house.admin()).await.get(&path).await
}

/// A POST request with an id.
async fn post(house: &House, path: &str, id: &str, body: &str) -> Reply {
    let mut client = Client::to(house.http()).await;
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\n{id}content-length: {length}\r\n\r\n");
    client.send(format!("{head}{body}").as_bytes()).await;
    client.reply().await.unwrap()
}

#[tokio::test]
async fn a_denied_check_is_explained_by_its_id_and_its_values_are_hidden() {
    let house = House::on(RULES).await;
    let allowed = post(&house, "/v1/check", "x-request-id: first\r\n", CHECK).await;
    assert_eq!(
        (allowed.status, allowed.header("x-request-id")),
        (200, None)
    );
    assert_eq!(explain(&house, "first").await.status, 404);
    let denied = post(&house, "/v1/check", "x-request-id: abc-1\r\n", CHECK).await;
    assert_eq!(denied.header("x-request-id"), Some("abc-1"));
    house.clock.advance(Span::from_secs(20));
    let explained = explain(&house, "abc-1").await;
    let json = explained.json();
    assert_eq!(json["denial"]["deniedBy"], "user");
    assert_eq!(json["denial"]["ago"], "20s");
    assert_eq!(json["denial"]["retryAfter"], "60s");
    assert_eq!(json["retryAfter"], "40s");
    assert_eq!(json["descriptors"][0]["rule"]["line"], 4);
    assert!(!explained.body.contains("secret"), "{}", explained.body);
    house.clock.advance(Span::from_secs(40));
    assert_eq!(explain(&house, "abc-1").await.json()["allowed"], true);
    // To be explained has charged nothing.
    assert_eq!(post(&house, "/v1/check", "", CHECK).await.status, 200);
    house.clock.advance(Span::HOUR);
    assert_eq!(explain(&house, "abc-1").await.status, 404);
}

#[tokio::test]
async fn an_id_of_our_own_replaces_a_missing_and_an_unusable_one() {
    let house = House::on(RULES).await;
    let twice = "x-request-id: a\r\nx-request-id: b\r\n";
    post(&house, "/v1/check", "", CHECK).await;
    for header in [
        "",
        "x-request-id: a b\r\n",
        twice,
        "x-request-id: \u{e9}\r\n",
    ] {
        let denied = post(&house, "/v1/check", header, CHECK).await;
        let id = denied.header("x-request-id").unwrap().to_owned();
        assert_eq!(id.len(), 32, "{header}: {id}");
        assert_eq!(
            explain(&house, &id).await.json()["denial"]["requestId"],
            *id
        );
    }
}

#[tokio::test]
async fn every_protocol_keeps_its_denials() {
    let house = House::with(RULES, |config| {
        config.auth = parse(
            "auth: {domain: d, source: x-original-uri, identity: {client_address: {source: \
             x-real-ip}, descriptors: [{entries: [{key: remote_address, from: \
             client_address}]}]}}\n",
        )
        .auth;
        config.explain.show_values = true;
    })
    .await;
    let of_json = r#"{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"v"}]}]}"#;
    assert_eq!(post(&house, "/json", "", of_json).await.status, 200);
    let denied = post(&house, "/json", "x-request-id: j\r\n", of_json).await;
    assert_eq!(
        (denied.status, denied.header("x-request-id")),
        (429, Some("j"))
    );
    assert!(explain(&house, "j").await.body.contains(r#""value":"v""#));
    let reserve = r#"{"domain":"d","descriptors":[{"user":"v"}],"reserve":true}"#;
    let denied = post(&house, "/v1/check", "x-request-id: r\r\n", reserve).await;
    assert_eq!(
        (denied.status, denied.header("x-request-id")),
        (429, Some("r"))
    );
    assert_eq!(explain(&house, "r").await.status, 200);

    let mut client = Client::to(house.http()).await;
    let head = "GET /v1/auth HTTP/1.1\r\nhost: h\r\nx-original-method: GET\r\n\
        x-original-uri: /\r\nx-real-ip: 192.0.2.1\r\nx-request-id: auth\r\n\r\n";
    client.send(head.as_bytes()).await;
    let denied = client.reply().await.unwrap();
    assert_eq!(
        (denied.status, denied.header("x-request-id")),
        (429, Some("auth"))
    );
    assert!(explain(&house, "auth").await.body.contains("192.0.2.1"));

    let response = call(&house, of_json).await;
    let id = response.metadata().get("x-request-id").unwrap();
    assert_eq!(id, "envoy-7");
    // The message is that of Envoy's service.
    assert!(response.get_ref().response_headers_to_add.is_empty());
    let explained = explain(&house, "envoy-7").await.json();
    assert_eq!(explained["descriptors"][0]["entries"][0]["value"], "v");
}

/// A gRPC call with an id in its metadata.
async fn call(house: &House, json: &str) -> tonic::Response<RateLimitResponse> {
    let message: RateLimitRequest = serde_json::from_str(json).unwrap();
    assert!(message.encoded_len() > 0);
    let channel = grpc_client::Client::to(house.grpc()).await.0;
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let codec: ProstCodec<RateLimitRequest, RateLimitResponse> = ProstCodec::default();
    let mut request = tonic::Request::new(message);
    let id = "envoy-7".parse().unwrap();
    request.metadata_mut().insert("x-request-id", id);
    let path = PathAndQuery::from_static(path);
    grpc.unary(request, path, codec).await.unwrap()
}

fn parse(text: &str) -> Config {
    let text = format!("rules: r\n{text}");
    Config::parse(&Source::new("tollgate.yaml", text), Path::new(".")).unwrap()
}

#[tokio::test]
async fn nothing_is_kept_if_it_is_off_and_a_query_with_an_id_has_nothing_else() {
    let house = House::with(RULES, |config| config.explain.denied_requests = 0).await;
    post(&house, "/v1/check", "", CHECK).await;
    let denied = post(&house, "/v1/check", "x-request-id: a\r\n", CHECK).await;
    assert_eq!((denied.status, denied.header("x-request-id")), (429, None));
    assert_eq!(explain(&house, "a").await.status, 404);
    let problem = explain(&house, "a&domain=d").await;
    assert_eq!(problem.status, 400);
    let settings = parse("explain: {denied_requests: 12, show_values: true}\n").explain;
    assert_eq!((settings.denied_requests, settings.show_values), (12, true));
    let kept: Value = explain(&house, "%1b").await.json();
    assert_eq!(kept["status"], 404);
}

/// The search for rules in any order takes each key once: with 32 equal ones it would not end.
#[tokio::test]
async fn a_query_with_a_key_twice_has_an_order() {
    let house = House::on(RULES).await;
    let mut admin = Client::to(house.admin()).await;
    let path = "/v1/explain?domain=d&descriptor=user%3Da,user%3Db&any_order=";
    let detail = admin.get(&format!("{path}true")).await.problem(400);
    assert!(detail.contains("the key `user`"), "{detail}");
    assert_eq!(admin.get(&format!("{path}false")).await.status, 200);
}
