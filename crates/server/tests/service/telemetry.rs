//! What a collector of OpenTelemetry receives of a service.

use std::path::Path;
use std::time::Duration;

use tollgate_rls::{RateLimitRequest, RateLimitResponse};
use tollgate_rules::Source;
use tollgate_server::{Config, ConfigError, Ratio, TelemetryConfig};
use tollgate_testbed::collector::{Behaviour, Collector, TakenSpan};
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

use crate::grpc_client;
use crate::house::House;
use crate::http_client::{Client, Reply};

const RULES: &str = "
domain: d
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: any, rate_limit: 1000000/day}
";
pub(crate) const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(crate) const PARENT: &str = "00f067aa0ba902b7";
const SECRET: &str = "hunter2";

/// The settings below `telemetry`.
fn parse(text: &str) -> Result<TelemetryConfig, ConfigError> {
    let source = Source::new("tollgate.yaml", format!("rules: r\ntelemetry: {text}\n"));
    Ok(Config::parse(&source, Path::new("/etc"))?.telemetry)
}

/// Spans of all requests, soon.
pub(crate) fn telemetry(collector: &Collector) -> TelemetryConfig {
    let url = collector.url();
    parse(&format!(
        "{{endpoint: '{url}', traces: {{interval: 100ms}}}}"
    ))
    .unwrap()
}

pub(crate) async fn on(collector: &Collector, change: impl FnOnce(&mut Config)) -> House {
    House::with(RULES, |config| {
        config.telemetry = telemetry(collector);
        change(config);
    })
    .await
}

/// Posts JSON with a caller's trace context.
pub(crate) async fn post(house: &House, path: &str, flags: &str, body: &str) -> Reply {
    let mut client = Client::to(house.http()).await;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: h\r\ntraceparent: 00-{TRACE}-{PARENT}-{flags}\r\n\
         tracestate: rojo=1\r\ncontent-length: {length}\r\n\r\n"
    );
    client.send((head + body).as_bytes()).await;
    client.reply().await.unwrap()
}

/// Expects these attributes.
pub(crate) fn check(span: &TakenSpan, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        let found = span.attribute(key);
        assert_eq!(found.as_deref(), Some(*value), "{key}: {span:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_over_http_have_spans() {
    let collector = Collector::start();
    let house = on(&collector, |_| ()).await;
    let ask = format!(r#"{{"domain":"d","descriptors":[{{"user":"{SECRET}"}},{{"any":"x"}}]}}"#);
    assert_eq!(post(&house, "/v1/check", "01", &ask).await.status, 200);
    let denied = post(&house, "/v1/check", "01", &ask).await;
    assert_eq!(denied.status, 429);
    let spans = collector.wait_for_spans(2);
    for span in &spans {
        assert_eq!((&*span.trace(), &*span.parent()), (TRACE, PARENT));
        assert_eq!((span.span.kind, &*span.span.trace_state), (2, "rojo=1"));
        assert_eq!(span.span.name, "POST /v1/check");
        let expected = [
            ("tollgate.listener", "http"),
            ("tollgate.domain", "d"),
            ("tollgate.rule", "user"),
            ("tollgate.rules", "user,any"),
            ("http.request.method", "POST"),
            ("http.route", "/v1/check"),
            ("url.path", "/v1/check"),
            ("url.scheme", "http"),
        ];
        check(span, &expected);
        let store_time = span.attribute("tollgate.store.duration").unwrap();
        let store_time: f64 = store_time.parse().unwrap();
        let nanos = span.span.end_time_unix_nano - span.span.start_time_unix_nano;
        let took = Duration::from_nanos(nanos).as_secs_f64();
        assert!(0.0 < store_time && store_time <= took, "{span:?}");
        assert_eq!(span.span.status, None, "a denial is not an error");
    }
    let id = denied.header("x-request-id").unwrap();
    check(
        &spans[0],
        &[
            ("tollgate.outcome", "allowed"),
            ("http.response.status_code", "200"),
        ],
    );
    check(
        &spans[1],
        &[
            ("tollgate.outcome", "denied"),
            ("http.response.status_code", "429"),
        ],
    );
    check(&spans[1], &[("tollgate.request_id", id)]);
    let shows = |body: &[u8]| {
        body.windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes())
    };
    let exports = collector.exports();
    let has_secret = exports.iter().any(|export| shows(&export.body));
    assert!(!has_secret, "values of keys are never sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_follows_its_caller_whatever_it_asks() {
    let collector = Collector::start();
    let house = on(&collector, |_| ()).await;
    let envoy = r#"{"domain":"d","descriptors":[{"entries":[{"key":"any","value":"y"}]}]}"#;
    assert_eq!(post(&house, "/json", "01", envoy).await.status, 200);
    assert_eq!(post(&house, "/v1/check", "01", "{}").await.status, 400);
    // A caller that does not record its span, and one whose context is none.
    assert_eq!(post(&house, "/json", "00", envoy).await.status, 200);
    assert_eq!(post(&house, "/json", "zz", envoy).await.status, 200);
    let spans = collector.wait_for_spans(3);
    let [json, invalid, alone] = &spans[..] else {
        panic!("{spans:?}");
    };
    assert_eq!((&*json.trace(), &*json.parent()), (TRACE, PARENT));
    assert_eq!((&*invalid.trace(), &*invalid.parent()), (TRACE, PARENT));
    assert_eq!(json.span.name, "POST /json");
    check(
        json,
        &[("tollgate.rule", "any"), ("tollgate.outcome", "allowed")],
    );
    check(
        invalid,
        &[
            ("tollgate.outcome", "invalid"),
            ("http.response.status_code", "400"),
        ],
    );
    assert_eq!((&*alone.parent(), &*alone.span.trace_state), ("", ""));
    assert_ne!(alone.trace(), TRACE);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_and_reservations_have_one_span_each() {
    let collector = Collector::start();
    let house = on(&collector, |_| ()).await;
    let one = r#"{"domain":"d","descriptors":[{"user":"a"}]}"#;
    post(&house, "/v1/check", "01", &format!("[{one},{one},{one}]")).await;
    let reserve = r#"{"domain":"d","descriptors":[{"any":"a"}],"cost":5,"reserve":true}"#;
    assert_eq!(post(&house, "/v1/check", "01", reserve).await.status, 200);
    let spans = collector.wait_for_spans(2);
    let expected = [
        ("tollgate.batch.size", "3"),
        ("tollgate.batch.denied", "2"),
        ("tollgate.outcome", "denied"),
        ("tollgate.domain", "d"),
    ];
    check(&spans[0], &expected);
    let expected = [
        ("tollgate.outcome", "allowed"),
        ("tollgate.rule", "any"),
        ("tollgate.domain", "d"),
    ];
    check(&spans[1], &expected);
    assert!(spans[1].attribute("tollgate.store.duration").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_have_spans() {
    let collector = Collector::start();
    let house = on(&collector, |_| ()).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let mut codes = Vec::new();
    for descriptors in [r#"[{"entries":[{"key":"user","value":"a"}]}]"#; 2]
        .into_iter()
        .chain(["[]"])
    {
        let json = format!(r#"{{"domain":"d","descriptors":{descriptors}}}"#);
        let message: RateLimitRequest = serde_json::from_str(&json).unwrap();
        let mut request = Request::new(message);
        let parent = format!("00-{TRACE}-{PARENT}-01").parse().unwrap();
        request.metadata_mut().insert("traceparent", parent);
        let mut grpc = Grpc::new(client.0.clone());
        grpc.ready().await.unwrap();
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        let codec: ProstCodec<RateLimitRequest, RateLimitResponse> = ProstCodec::default();
        let called = grpc
            .unary(request, PathAndQuery::from_static(path), codec)
            .await;
        codes.push(called.map(|response| response.into_inner().overall_code));
    }
    assert_eq!(
        codes.iter().filter(|code| code.is_err()).count(),
        1,
        "{codes:?}"
    );
    let spans = collector.wait_for_spans(3);
    let outcomes = [
        ("allowed", "OK"),
        ("denied", "OK"),
        ("invalid", "INVALID_ARGUMENT"),
    ];
    for (span, (outcome, status)) in spans.iter().zip(outcomes) {
        let method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        assert_eq!(span.span.name, method);
        assert_eq!((&*span.trace(), &*span.parent()), (TRACE, PARENT));
        let expected = [
            ("tollgate.listener", "grpc"),
            ("rpc.system.name", "grpc"),
            ("rpc.method", method),
            ("rpc.response.status_code", status),
            ("tollgate.outcome", outcome),
        ];
        check(span, &expected);
    }
    for span in &spans[..2] {
        check(span, &[("tollgate.domain", "d"), ("tollgate.rule", "user")]);
        assert!(span.attribute("tollgate.store.duration").is_some());
    }
    assert!(spans[1].attribute("tollgate.request_id").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_proxies_have_spans() {
    let collector = Collector::start();
    let text = "rules: r\nauth: {domain: d, source: x-original-uri, identity: \
        {client_address: {source: x-real-ip}, descriptors: [{entries: [{key: user, from: \
        client_address}]}]}}\n";
    let source = Source::new("tollgate.yaml", text);
    let auth = Config::parse(&source, Path::new(".")).unwrap().auth;
    let house = on(&collector, |config| config.auth = auth).await;
    let mut client = Client::to(house.http()).await;
    for (original, status) in [
        ("x-original-method: GET\r\nx-original-uri: /\r\n", 200),
        ("x-original-method: GET\r\nx-original-uri: /\r\n", 429),
        ("", 400),
    ] {
        let head = format!(
            "GET /v1/auth HTTP/1.1\r\nhost: h\r\ntraceparent: 00-{TRACE}-{PARENT}-01\r\n\
             {original}x-real-ip: 192.0.2.1\r\n\r\n"
        );
        client.send(head.as_bytes()).await;
        assert_eq!(client.reply().await.unwrap().status, status);
    }
    let spans = collector.wait_for_spans(3);
    for (span, outcome) in spans.iter().zip(["allowed", "denied", "invalid"]) {
        assert_eq!(span.span.name, "GET /v1/auth");
        assert_eq!(&*span.parent(), PARENT);
        check(span, &[("tollgate.outcome", outcome)]);
    }
    check(
        &spans[1],
        &[("tollgate.rule", "user"), ("tollgate.domain", "d")],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_do_not_wait_for_a_collector_that_hangs() {
    let collector = Collector::start();
    collector.set_behaviour(Behaviour::Hang);
    let house = on(&collector, |config| {
        config.telemetry.timeout = Some(Duration::from_secs(3600));
    })
    .await;
    let ask = r#"{"domain":"d","descriptors":[{"any":"x"}]}"#;
    let mut client = Client::to(house.http()).await;
    assert_eq!(client.post("/v1/check", ask).await.status, 200);
    collector.wait_for(|exports| exports.len() == 1);
    for _ in 0..tollgate_server::QUEUED_SPANS_MAX + 5 {
        assert_eq!(client.post("/v1/check", ask).await.status, 200);
    }
    let text = Client::to(house.admin()).await.get("/metrics").await.body;
    for line in [
        r#"tollgate_telemetry_spans_lost_total{reason="queue_full"} 5"#,
        "tollgate_telemetry_spans_sent_total 0",
        r#"tollgate_telemetry_exports_total{signal="traces",outcome="ok"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_stops_sends_its_last_spans() {
    let collector = Collector::start();
    let house = on(&collector, |config| {
        config.telemetry.traces.interval = Some(Duration::from_secs(3600));
    })
    .await;
    let ask = r#"{"domain":"d","descriptors":[{"any":"x"}]}"#;
    assert_eq!(post(&house, "/v1/check", "01", ask).await.status, 200);
    house.running.stop().await;
    assert_eq!(collector.wait_for_spans(1).len(), 1);
}

#[test]
fn every_setting_is_read() {
    let config = parse(
        "{endpoint: 'https://otel.example/', headers: {api-key: k}, timeout: 2s, \
         compression: gzip, service_name: edge, resource: {region: eu}, \
         traces: {sample: 12.5%, interval: 1s, endpoint: 'https://t/x', trust_context: [grpc]}, metrics: null}",
    )
    .unwrap();
    assert_eq!(config.endpoint.unwrap().to_string(), "https://otel.example");
    assert_eq!(config.headers["api-key"], "k");
    assert_eq!(config.timeout, Some(Duration::from_secs(2)));
    assert_eq!(config.gzip, Some(true));
    assert_eq!(config.service_name.as_deref(), Some("edge"));
    assert_eq!(config.resource["region"], "eu");
    assert_eq!(config.sample, Ratio::parse_percent("12.5%"));
    assert_eq!(config.trust_context, Some(vec!["grpc".to_owned()]));
    assert_eq!(config.traces.interval, Some(Duration::from_secs(1)));
    assert_eq!(config.traces.endpoint.unwrap().to_string(), "https://t/x");
    assert_eq!(
        (config.traces.is_on, config.metrics.is_on),
        (Some(true), Some(false))
    );
}

#[test]
fn errors_name_the_setting_and_hide_headers() {
    for (text, problem) in [
        (
            "{endpoint: 'localhost:4317'}",
            "does not begin with http://",
        ),
        ("{endpoint: 'http://a:hunter2@h'}", "`headers`"),
        (
            "{endpoint: 'http://localhost:4318/v1/traces'}",
            "leave out `/v1/traces`",
        ),
        (
            "{headers: {'a b': hunter2}}",
            "a name that no header can have",
        ),
        ("{headers: {host: hunter2}}", "every export sets itself"),
        ("{headers: {a: \"hunter2\\n\"}}", "a value of `a`"),
        ("{headers: hunter2}", "headers"),
        ("{heders: {a: hunter2}}", "`telemetry.headers`"),
        ("{timeout: 0s}", "100ms"),
        ("{compression: zstd}", "`compression`"),
        ("{traces: {sample: 10}}", "percentage"),
        ("{traces: {sample: 101%}}", "percentage"),
        ("{traces: {interval: 2h}}", "1h"),
        (
            "{traces: {trust_context: [redis]}}",
            "`[]` trusts no caller",
        ),
        ("{traces: {trust_context: false}}", "trust_context"),
        ("{metrics: {sample: 1%}}", "`endpoint`, `interval`"),
        (
            "{endpoint: 'https://h', ca: missing.pem}",
            "/etc/missing.pem",
        ),
    ] {
        let errors = parse(text).unwrap_err().to_string();
        assert!(errors.contains(problem), "{text}: {errors}");
        assert!(!errors.contains("hunter2"), "{text}: {errors}");
    }
}
