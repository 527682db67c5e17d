//! Spans of requests that are decided together, and of callers that are not trusted.

use tokio_stream::StreamExt;
use tollgate_rls::decisions::{CheckRequest, CheckResponse, Descriptor, Entry};
use tollgate_testbed::collector::{Collector, TakenSpan};
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;
use crate::redis_client::{RedisClient, with_redis};
use crate::telemetry::{PARENT, TRACE, check, on, post};

const PATH: &str = "/tollgate.v1.Decisions/Check";

/// The trace and the id of each span that this one links.
fn links(span: &TakenSpan) -> Vec<(String, String)> {
    let hexadecimal = |id: &[u8]| -> String { id.iter().map(|b| format!("{b:02x}")).collect() };
    let links = span.span.links.iter();
    let ids = links.map(|link| (hexadecimal(&link.trace_id), hexadecimal(&link.span_id)));
    ids.collect()
}

fn request(id: u64, user: &str) -> CheckRequest {
    let entry = |key: &str, value: &str| Entry {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
    };
    CheckRequest {
        id,
        domain: "d".into(),
        descriptors: vec![Descriptor {
            entries: vec![entry("user", user)],
            any_order: false,
        }],
        ..CheckRequest::default()
    }
}

/// The answers to requests of a stream, which a caller with a span opens.
async fn answers(house: &House, requests: Vec<CheckRequest>) -> Vec<CheckResponse> {
    let client = grpc_client::Client::to(house.grpc()).await;
    let mut grpc = Grpc::new(client.0.clone());
    grpc.ready().await.unwrap();
    let codec: ProstCodec<CheckRequest, CheckResponse> = ProstCodec::default();
    let mut call = Request::new(tokio_stream::iter(requests));
    let parent = format!("00-{TRACE}-{PARENT}-01").parse().unwrap();
    call.metadata_mut().insert("traceparent", parent);
    let path = PathAndQuery::from_static(PATH);
    let answers = grpc.streaming(call, path, codec).await.unwrap();
    answers.into_inner().map(Result::unwrap).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_the_stream_has_a_span_that_links_the_caller() {
    let collector = Collector::start();
    let house = on(&collector, |_| ()).await;
    let single = answers(&house, vec![request(1, "a")]).await;
    assert!(single[0].allowed);
    let denied = answers(&house, vec![request(2, "a")]).await;
    let several = (0..3).map(|id| request(id, "a")).collect();
    assert_eq!(answers(&house, several).await.len(), 3);
    let invalid = CheckRequest {
        cost: Some(-1),
        peek: true,
        ..request(4, "a")
    };
    answers(&house, vec![invalid]).await;
    let has_all = |spans: &[TakenSpan]| {
        let checks = spans
            .iter()
            .filter_map(|span| span.attribute("tollgate.batch.size"));
        checks.map(|size| size.parse::<u32>().unwrap()).sum::<u32>() == 5
            && spans
                .iter()
                .any(|span| span.attribute("tollgate.batch.size").is_none())
    };
    // How the transport divides the three into batches is its own affair.
    let spans = (4..=6).map(|count| collector.wait_for_spans(count));
    let spans = spans.into_iter().find(|spans| has_all(spans)).unwrap();
    for span in &spans {
        assert_eq!(span.span.name, &PATH[1..]);
        assert_eq!(
            &*span.parent(),
            "",
            "the batch is not part of the caller's span"
        );
        assert_ne!(span.trace(), TRACE);
        assert_eq!(links(span), [(TRACE.to_owned(), PARENT.to_owned())]);
        let expected = [
            ("tollgate.listener", "grpc"),
            ("rpc.system.name", "grpc"),
            ("rpc.method", &PATH[1..]),
        ];
        check(span, &expected);
    }
    let common = [("tollgate.domain", "d"), ("tollgate.rule", "user")];
    check(&spans[0], &common);
    check(&spans[0], &[("tollgate.outcome", "allowed")]);
    assert!(spans[0].attribute("tollgate.store.duration").is_some());
    check(&spans[1], &common);
    let id = &*denied[0].request_id;
    check(
        &spans[1],
        &[("tollgate.outcome", "denied"), ("tollgate.request_id", id)],
    );
    check(spans.last().unwrap(), &[("tollgate.outcome", "invalid")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_the_redis_protocol_has_a_span() {
    let collector = Collector::start();
    let house = on(&collector, with_redis).await;
    let mut client = RedisClient::to(&house).await;
    // A pipeline in one write; its batches are as the service finds it.
    let throttle = "CL.THROTTLE key 0 1 86400\r\n";
    client.send(throttle.repeat(2)).await;
    let ask = "TG.CHECK d 1 user a\r\n";
    client
        .send(format!("{}TG.PEEK d 1 user a\r\nQUIT\r\n", ask.repeat(2)))
        .await;
    assert!(client.rest().await.ends_with("+OK\r\n"));
    let sum = |spans: &[TakenSpan], name: &str, key: &str| -> u32 {
        let spans = spans.iter().filter(|span| span.span.name.starts_with(name));
        let values = spans.filter_map(|span| span.attribute(key));
        values.map(|value| value.parse::<u32>().unwrap()).sum()
    };
    let size = "tollgate.batch.size";
    let has_all = |spans: &[TakenSpan]| sum(spans, "", size) == 5;
    let spans = (2..=5).map(|count| collector.wait_for_spans(count));
    let spans = spans.into_iter().find(|spans| has_all(spans)).unwrap();
    for (name, asked, denied) in [("CL.THROTTLE", 2, 1), ("TG", 3, 2)] {
        assert_eq!(sum(&spans, name, size), asked);
        assert_eq!(sum(&spans, name, "tollgate.batch.denied"), denied);
    }
    for span in &spans {
        assert_eq!(&*span.parent(), "");
        check(span, &[("tollgate.listener", "redis")]);
        assert!(span.attribute("tollgate.store.duration").is_some());
        let is_denied = span.attribute("tollgate.batch.denied").as_deref() != Some("0");
        let outcome = if is_denied { "denied" } else { "allowed" };
        check(span, &[("tollgate.outcome", outcome)]);
        let domain = span.attribute("tollgate.domain");
        let has_rules = span.span.name.starts_with("TG");
        assert_eq!(domain.as_deref(), has_rules.then_some("d"), "{span:?}");
        let names = ["CL.THROTTLE", "TG.CHECK", "TG.PEEK", "TG"];
        assert!(names.contains(&&*span.span.name), "{span:?}");
    }
    // The last decision of its bucket is an exemplar.
    let head =
        "GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: application/openmetrics-text\r\n\r\n";
    let mut admin = Client::to(house.admin()).await;
    admin.send(head.as_bytes()).await;
    let text = admin.reply().await.unwrap().body;
    let is_exemplar = |line: &str| line.contains("listener=\"redis\"") && line.contains("trace_id");
    assert!(text.lines().any(is_exemplar), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_are_not_trusted_neither_force_nor_prevent_a_span() {
    let ask = r#"{"domain":"d","descriptors":[{"any":"x"}]}"#;
    let collector = Collector::start();
    let trusted = Some(vec!["grpc".to_owned()]);
    let house = on(&collector, |config| {
        config.telemetry.trust_context = trusted.clone()
    })
    .await;
    for flags in ["01", "00"] {
        assert_eq!(post(&house, "/v1/check", flags, ask).await.status, 200);
    }
    for span in collector.wait_for_spans(2) {
        assert_ne!(span.trace(), TRACE);
        assert_eq!((&*span.parent(), &*span.span.trace_state), ("", ""));
        assert_eq!(links(&span), [(TRACE.to_owned(), PARENT.to_owned())]);
    }
    house.running.stop().await;

    // As often as the settings say: never.
    let unsampled = on(&collector, |config| {
        config.telemetry.trust_context = trusted;
        config.telemetry.sample = tollgate_server::Ratio::parse_percent("0%");
    });
    let unsampled = unsampled.await;
    assert_eq!(post(&unsampled, "/v1/check", "01", ask).await.status, 200);
    unsampled.running.stop().await;
    assert_eq!(collector.wait_for_spans(2).len(), 2);
}
