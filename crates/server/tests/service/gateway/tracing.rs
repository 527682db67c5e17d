//! The spans of the gateway, and the trace context that its upstreams see.

use tollgate_testbed::collector::Collector;

use super::upstream::Echo;
use super::{FREE, RULES, gateway, gateway_with, section};
use crate::http_client::Client;
use crate::telemetry::{PARENT, TRACE, telemetry};

const BY_ADDRESS: &str =
    "identity: {descriptors: [{entries: [{key: remote_address, from: client_address}]}]}";

fn request(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: h\r\n{fields}\r\n")
}

/// What the upstream saw of the trace context of its last request.
fn seen(upstream: &Echo) -> Vec<String> {
    let seen = upstream.seen.lock().unwrap();
    let fields = seen.last().unwrap().fields.iter();
    let fields = fields.filter(|field| field.starts_with("trace"));
    fields.cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_is_the_parent_of_what_it_passes_on() {
    let (collector, upstream) = (Collector::start(), Echo::start().await);
    let house = gateway_with(RULES, section(upstream.address, BY_ADDRESS), |config| {
        config.telemetry = telemetry(&collector);
    })
    .await;
    let mut client = Client::to(house.gateway()).await;
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: rojo=1\r\n");
    let mut parents = Vec::new();
    for status in [200, 503, 429] {
        let target = if status == 503 {
            "/a?status=503"
        } else {
            "/a?b=secret"
        };
        client.send(request(target, &fields).as_bytes()).await;
        assert_eq!(client.reply().await.unwrap().status, status);
        parents.push(seen(&upstream));
    }
    let spans = collector.wait_for_spans(3);
    for (span, fields) in spans.iter().zip(&parents).take(2) {
        let parent = format!("traceparent: 00-{TRACE}-{}-01", span.id());
        assert_eq!(fields[..], [parent, "tracestate: rojo=1".to_owned()]);
        assert_eq!((&*span.trace(), &*span.parent()), (TRACE, PARENT));
        let address = upstream.address.to_string();
        assert_eq!(span.attribute("tollgate.upstream"), Some(address));
        assert_eq!(
            span.attribute("tollgate.outcome").as_deref(),
            Some("allowed")
        );
    }
    let expected = [
        ("200", "forwarded"),
        ("503", "forwarded"),
        ("429", "denied"),
    ];
    for (span, (status, outcome)) in spans.iter().zip(expected) {
        for (key, value) in [
            ("http.response.status_code", status),
            ("tollgate.gateway.outcome", outcome),
            ("tollgate.listener", "gateway"),
            ("tollgate.domain", "api"),
            ("tollgate.rule", "remote_address"),
            ("url.path", "/a"),
        ] {
            assert_eq!(span.attribute(key).as_deref(), Some(value), "{key}");
        }
        let route = span.attribute("tollgate.route").unwrap();
        assert_eq!(span.span.name, format!("GET {route}"));
        assert!(span.attribute("tollgate.store.duration").is_some());
    }
    let is_error = |index: usize| spans[index].span.status.is_some();
    assert_eq!(
        [is_error(0), is_error(1), is_error(2)],
        [false, true, false]
    );
    assert_eq!(
        spans[2].attribute("tollgate.outcome").as_deref(),
        Some("denied")
    );
    assert!(spans[2].attribute("tollgate.request_id").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_is_not_sampled_is_not_sampled_by_upstreams() {
    let (collector, upstream) = (Collector::start(), Echo::start().await);
    let house = gateway_with(RULES, section(upstream.address, FREE), |config| {
        config.telemetry = telemetry(&collector);
        config.telemetry.sample = tollgate_server::Ratio::parse_percent("0%");
    })
    .await;
    let mut client = Client::to(house.gateway()).await;
    let valid = format!("traceparent: 00-{TRACE}-{PARENT}-00\r\ntracestate: rojo=1\r\n");
    let invalid = "traceparent: 00-x\r\ntracestate: rojo=1\r\n";
    for (fields, is_same_trace) in [(&*valid, true), (invalid, false), ("", false)] {
        client.send(request("/", fields).as_bytes()).await;
        assert_eq!(client.reply().await.unwrap().status, 200);
        let seen = seen(&upstream);
        assert!(seen[0].ends_with("-00") && seen[0].len() == 68, "{seen:?}");
        assert_eq!(seen[0].contains(TRACE), is_same_trace, "{seen:?}");
        assert!(!seen[0].contains(PARENT), "{seen:?}");
        assert_eq!(seen.len() == 2, is_same_trace, "{seen:?}");
    }
    assert_eq!(collector.exports().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_are_not_trusted_begin_a_trace_that_upstreams_continue() {
    let (collector, upstream) = (Collector::start(), Echo::start().await);
    let house = gateway_with(RULES, section(upstream.address, FREE), |config| {
        config.telemetry = telemetry(&collector);
        config.telemetry.trust_context = Some(Vec::new());
    })
    .await;
    let mut client = Client::to(house.gateway()).await;
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-00\r\ntracestate: rojo=1\r\n");
    client.send(request("/", &fields).as_bytes()).await;
    assert_eq!(client.reply().await.unwrap().status, 200);
    let span = &collector.wait_for_spans(1)[0];
    assert_ne!(span.trace(), TRACE);
    assert_eq!((&*span.parent(), span.span.links.len()), ("", 1));
    let parent = format!("traceparent: 00-{}-{}-01", span.trace(), span.id());
    assert_eq!(seen(&upstream), [parent]);
}

#[tokio::test]
async fn without_tracing_the_context_is_passed_on_as_it_is() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, FREE).await;
    let mut client = Client::to(house.gateway()).await;
    let fields = "traceparent: 00-x\r\ntracestate: rojo\r\n";
    client.send(request("/", fields).as_bytes()).await;
    assert_eq!(client.reply().await.unwrap().status, 200);
    assert_eq!(seen(&upstream), ["traceparent: 00-x", "tracestate: rojo"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_client_goes_away_has_a_span() {
    let collector = Collector::start();
    let stage = super::upstream::Stage::open().await;
    let house = gateway_with(RULES, section(stage.address(), FREE), |config| {
        config.telemetry = telemetry(&collector);
    })
    .await;
    let mut client = Client::to(house.gateway()).await;
    client.send(request("/", "").as_bytes()).await;
    let actor = stage.accept().await;
    drop(client);
    let span = collector.wait_for_spans(1).remove(0);
    let outcome = span.attribute("tollgate.gateway.outcome");
    assert_eq!(outcome.as_deref(), Some("canceled"));
    assert_eq!(span.attribute("http.response.status_code"), None);
    drop(actor);
}
