//! Spans on their way to a collector that takes them, fails, hangs, goes and comes back.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::{Instant, pause};
use tollgate_core::{Clock, Moment, Span};
use tollgate_memory::ManualClock;
use tollgate_telemetry::{
    Endpoint, FLUSH_WITHIN, HttpRequest, QUEUED_SPANS_MAX, Ratio, RequestSpan, SignalConfig,
    TRACEPARENT, TRACESTATE, Telemetry, TelemetryConfig, attribute, header,
};
use tollgate_testbed::collector::{
    Behaviour, Collector, Data, TakenMetrics, find_attribute, number_data_point,
};
use tollgate_testbed::{Journal, free_port};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn config(url: &str) -> TelemetryConfig {
    TelemetryConfig {
        endpoint: Some(Endpoint::parse(url).unwrap()),
        timeout: Some(Duration::from_secs(1)),
        traces: SignalConfig {
            interval: Some(Duration::from_millis(100)),
            ..SignalConfig::default()
        },
        ..TelemetryConfig::default()
    }
}

fn start(config: &TelemetryConfig) -> Telemetry {
    Journal::keep_enabled();
    let clock = ManualClock::at(Moment::ZERO + Span::from_secs(1_000_000_000));
    let clock: Arc<dyn Clock> = Arc::new(clock);
    Telemetry::start(config, &clock).unwrap()
}

fn headers(flags: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let parent = format!("00-{TRACE}-{PARENT}-{flags}");
    headers.insert(TRACEPARENT, HeaderValue::try_from(parent).unwrap());
    headers.insert(TRACESTATE, HeaderValue::from_static("rojo=1"));
    headers
}

fn begin(telemetry: &Telemetry) -> RequestSpan {
    telemetry.tracer().begin("test", &HeaderMap::new())
}

fn lost(telemetry: &Telemetry, reason: &str) -> u64 {
    let counts = telemetry.counts().unwrap();
    let found = counts.count_lost().find(|(found, _)| *found == reason);
    found.unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_has_its_parent_its_attributes_and_its_process() {
    let collector = Collector::start();
    let mut config = config(&collector.url());
    config.headers = [header("api-key", "hunter2").unwrap()]
        .into_iter()
        .collect();
    config.service_name = Some("edge".to_owned());
    config.resource = [("region".to_owned(), "eu".to_owned())].into();
    let telemetry = start(&config);
    let mut span = telemetry.tracer().begin("", &headers("01"));
    span.describe_http(HttpRequest {
        listener: "http",
        method: &Method::POST,
        target: "/v1/check",
        path: &"p".repeat(1000),
        scheme: "https",
    });
    span.set_domain(b"sh\xffop");
    span.set_http_status(StatusCode::SERVICE_UNAVAILABLE);
    let (trace, id, _) = span.exemplar().unwrap();
    drop(span);
    let taken = collector.wait_for_spans(1).remove(0);
    assert_eq!(
        (taken.trace(), taken.parent()),
        (trace.to_string(), PARENT.to_owned())
    );
    assert_eq!(taken.trace(), TRACE);
    assert_eq!(taken.id(), id.to_string());
    let span = &taken.span;
    assert_eq!(
        (&*span.name, &*span.trace_state),
        ("POST /v1/check", "rojo=1")
    );
    assert_eq!((span.kind, span.flags), (2, 0x301));
    assert_eq!(span.status.as_ref().unwrap().code, 2);
    assert_eq!(span.start_time_unix_nano, 1_000_000_000_000_000_000);
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    for (key, expected) in [
        (attribute::LISTENER, "http"),
        (attribute::DOMAIN, "sh\u{fffd}op"),
        (attribute::HTTP_METHOD, "POST"),
        (attribute::URL_SCHEME, "https"),
        (attribute::HTTP_STATUS, "503"),
        (attribute::ERROR_TYPE, "503"),
        (attribute::URL_PATH, &"p".repeat(256)),
    ] {
        assert_eq!(taken.attribute(key).as_deref(), Some(expected), "{key}");
    }
    assert_eq!(taken.resource("service.name").as_deref(), Some("edge"));
    assert_eq!(taken.resource("region").as_deref(), Some("eu"));
    assert_eq!(taken.resource("service.instance.id").unwrap().len(), 36);
    let head = &collector.exports()[0].head;
    for line in [
        "post /v1/traces http/1.1",
        "content-type: application/x-protobuf",
        "api-key: hunter2",
        &format!("host: {}", collector.address()),
    ] {
        assert!(head.lines().any(|found| found == line), "{line}: {head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_sent_at_an_interval_and_at_the_end() {
    let collector = Collector::start();
    let mut config = config(&collector.url());
    config.metrics.interval = Some(Duration::from_millis(100));
    let mut telemetry = start(&config);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    telemetry.export_metrics(move || {
        let count = counted.load(Ordering::Relaxed);
        format!("# TYPE c counter\nc_total {count}\n# EOF\n")
    });
    let has = |wanted: i64| {
        move |taken: &TakenMetrics| {
            let Some(Data::Sum(sum)) = &taken.metrics[0].data else {
                return false;
            };
            let point = &sum.data_points[0];
            assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
            assert_eq!(point.start_time_unix_nano, 1_000_000_000_000_000_000);
            point.value == Some(number_data_point::Value::AsInt(wanted))
        }
    };
    let first = collector.wait_for_metrics(has(0));
    assert_eq!(first.metrics[0].name, "c_total");
    let name = find_attribute(&first.resource.attributes, "service.name");
    assert_eq!(name.as_deref(), Some("tollgate"));
    // A failed export is made up for by the next one.
    collector.set_behaviour(Behaviour::Fail(400, ""));
    let before = collector.exports().len();
    collector.wait_for(|exports| exports.len() > before);
    count.store(7, Ordering::Relaxed);
    collector.set_behaviour(Behaviour::Take);
    collector.wait_for_metrics(has(7));
    count.store(8, Ordering::Relaxed);
    telemetry.close().await;
    collector.wait_for_metrics(has(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_are_compressed_if_asked() {
    let collector = Collector::start();
    let telemetry = start(&TelemetryConfig {
        gzip: Some(true),
        ..config(&collector.url())
    });
    drop(begin(&telemetry));
    assert_eq!(collector.wait_for_spans(1)[0].span.name, "test");
    assert!(
        collector.exports()[0]
            .head
            .contains("content-encoding: gzip")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_decision_to_sample_is_followed() {
    let collector = Collector::start();
    for sample in [Ratio::NONE, Ratio::ALL] {
        let mut telemetry = start(&TelemetryConfig {
            sample: Some(sample),
            ..config(&collector.url())
        });
        let tracing = telemetry.tracer();
        assert!(!tracing.begin("", &headers("00")).is_sampled());
        assert!(tracing.begin("", &headers("01")).is_sampled());
        assert_eq!(begin(&telemetry).is_sampled(), sample == Ratio::ALL);
        telemetry.close().await;
    }
    let spans = collector.wait_for_spans(3);
    assert_eq!(spans.len(), 3);
    let of_caller = spans.iter().filter(|span| span.trace() == TRACE);
    assert_eq!(of_caller.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_the_traces_is_sampled() {
    let collector = Collector::start();
    let telemetry = start(&TelemetryConfig {
        sample: Ratio::parse_percent("25%"),
        ..config(&collector.url())
    });
    let sampled = (0..4000).filter(|_| begin(&telemetry).is_sampled()).count();
    // Eight standard deviations.
    assert!((780..=1220).contains(&sampled), "{sampled} of 4000");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_span_is_the_parent_of_what_it_passes_on() {
    let collector = Collector::start();
    let telemetry = start(&TelemetryConfig {
        sample: Some(Ratio::NONE),
        ..config(&collector.url())
    });
    let tracing = telemetry.tracer();
    for (flags, sampled) in [("01", "01"), ("00", "00")] {
        let mut passed = headers(flags);
        let span = tracing.begin("", &passed);
        span.propagate(&mut passed);
        let value = passed[TRACEPARENT].to_str().unwrap();
        assert!(value.starts_with(&format!("00-{TRACE}-")), "{value}");
        assert!(value.ends_with(&format!("-{sampled}")), "{value}");
        assert!(!value.contains(PARENT), "{value}");
        assert_eq!(passed[TRACESTATE], "rojo=1");
    }
    // A trace begins here, and what is invalid ends here.
    let mut passed = headers("x");
    tracing.begin("", &passed).propagate(&mut passed);
    let value = passed[TRACEPARENT].to_str().unwrap();
    assert!(!value.contains(TRACE) && value.ends_with("-00"), "{value}");
    assert!(!passed.contains_key(TRACESTATE));
    // Without tracing, even that is passed on.
    let mut passed = headers("x");
    let off = start(&TelemetryConfig::default());
    off.tracer().begin("", &passed).propagate(&mut passed);
    assert_eq!(passed, headers("x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_loses_spans_and_counts_them() {
    let collector = Collector::start();
    collector.set_behaviour(Behaviour::Hang);
    let telemetry = start(&config(&collector.url()));
    drop(begin(&telemetry));
    collector.wait_for(|exports| exports.len() == 1);
    for _ in 0..QUEUED_SPANS_MAX + 10 {
        drop(begin(&telemetry));
    }
    assert_eq!(lost(&telemetry, "queue_full"), 10);
    // It recovers by itself.
    collector.set_behaviour(Behaviour::Take);
    let taken = collector.wait_for_spans(QUEUED_SPANS_MAX + 1);
    assert_eq!(taken.len(), QUEUED_SPANS_MAX + 1);
    assert_eq!(lost(&telemetry, "queue_full"), 10);
    assert_eq!(lost(&telemetry, "failed"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_down_gets_the_spans_when_it_is_up() {
    let address = format!("127.0.0.1:{}", free_port());
    let telemetry = start(&config(&format!("http://{address}")));
    drop(begin(&telemetry));
    let counts = telemetry.counts().unwrap();
    let has_failed = || {
        let mut exports = counts.exports();
        exports.any(|(signal, is_ok, count)| signal == "traces" && !is_ok && count > 0)
    };
    while !has_failed() {
        tokio::task::yield_now().await;
    }
    let collector = Collector::at(address.parse().unwrap());
    assert_eq!(collector.wait_for_spans(1).len(), 1);
    // It is replaced, and the connection to it is gone.
    drop(collector);
    let collector = Collector::at(address.parse().unwrap());
    drop(begin(&telemetry));
    assert_eq!(collector.wait_for_spans(1).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_are_retried_as_the_collector_asks_and_no_more() {
    for (behaviour, attempts, reason) in [
        (Behaviour::Fail(503, "retry-after: 0\r\n"), 5, "failed"),
        (Behaviour::Fail(429, "Retry-After: 0\r\n"), 5, "failed"),
        (Behaviour::Fail(500, "retry-after: 0\r\n"), 1, "failed"),
        (Behaviour::Fail(400, ""), 1, "failed"),
        (Behaviour::Fail(302, "location: /\r\n"), 1, "failed"),
        (Behaviour::Long(404), 1, "failed"),
        (Behaviour::Long(200), 1, ""),
        (Behaviour::Cut(404), 1, "failed"),
        (Behaviour::Cut(200), 1, ""),
        (Behaviour::Reject(1), 1, "rejected"),
        (Behaviour::Reject(-1), 1, ""),
        (Behaviour::Reject(i64::MAX), 1, "rejected"),
    ] {
        let collector = Collector::start();
        collector.set_behaviour(behaviour.clone());
        let mut telemetry = start(&config(&collector.url()));
        drop(begin(&telemetry));
        collector.wait_for(|exports| exports.len() == attempts);
        telemetry.close().await;
        assert_eq!(collector.exports().len(), attempts, "{behaviour:?}");
        for found in ["failed", "rejected", "queue_full", "shutdown"] {
            let expected = u64::from(found == reason);
            assert_eq!(lost(&telemetry, found), expected, "{behaviour:?}: {found}");
        }
        let sent = telemetry.counts().unwrap().count_sent();
        assert_eq!(sent, u64::from(reason.is_empty()), "{behaviour:?}");
    }
}

#[tokio::test]
async fn the_log_has_the_status_of_a_response_whose_body_is_too_long() {
    let (journal, _guard) = Journal::begin();
    let collector = Collector::start();
    collector.set_behaviour(Behaviour::Long(404));
    let mut telemetry = start(&config(&collector.url()));
    drop(begin(&telemetry));
    telemetry.close().await;
    let logged = journal.count("the collector answered 404");
    assert_eq!(logged, 1, "{}", journal.text());
}

/// The HTTP library skips interim responses as long as they come, and does nothing else meanwhile.
#[tokio::test]
async fn a_flood_of_interim_responses_ends_the_connection() {
    for (interim, failed) in [(100, 0), (100_000, 1)] {
        let collector = Collector::start();
        collector.set_behaviour(Behaviour::Interim(interim));
        let mut telemetry = start(&config(&collector.url()));
        drop(begin(&telemetry));
        telemetry.close().await;
        assert_eq!(lost(&telemetry, "failed"), failed, "{interim}");
        assert_eq!(telemetry.counts().unwrap().count_sent(), 1 - failed);
    }
}

#[tokio::test]
async fn the_log_says_how_many_spans_are_lost_at_the_end() {
    for (behaviour, expected) in [(Behaviour::Fail(429, ""), 1), (Behaviour::Take, 0)] {
        let (journal, _guard) = Journal::begin();
        let collector = Collector::start();
        collector.set_behaviour(behaviour);
        let mut telemetry = start(&config(&collector.url()));
        for _ in 0..1000 {
            drop(begin(&telemetry));
        }
        telemetry.close().await;
        let logged =
            journal.count("the last spans are lost: the collector does not take them spans=1000");
        assert_eq!(logged, expected, "{}", journal.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_is_replaced() {
    let collector = Collector::start();
    collector.set_behaviour(Behaviour::Close);
    let telemetry = start(&config(&collector.url()));
    drop(begin(&telemetry));
    collector.wait_for(|exports| exports.len() == 1);
    collector.set_behaviour(Behaviour::Take);
    assert_eq!(collector.wait_for_spans(1).len(), 1);
    assert_eq!(lost(&telemetry, "failed"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_process_sends_what_is_left() {
    let collector = Collector::start();
    let mut config = config(&collector.url());
    config.traces.interval = Some(Duration::from_secs(3600));
    let mut telemetry = start(&config);
    for _ in 0..1000 {
        drop(begin(&telemetry));
    }
    let late = begin(&telemetry);
    telemetry.close().await;
    assert_eq!(collector.wait_for_spans(1000).len(), 1000);
    drop(late);
    assert_eq!(lost(&telemetry, "shutdown"), 1);
}

#[tokio::test]
async fn the_end_of_the_process_does_not_wait_for_a_collector_that_hangs() {
    let collector = Collector::start();
    collector.set_behaviour(Behaviour::Hang);
    let mut telemetry = start(&TelemetryConfig {
        timeout: Some(Duration::from_secs(3600)),
        ..config(&collector.url())
    });
    drop(begin(&telemetry));
    pause();
    let began = Instant::now();
    telemetry.close().await;
    assert!(began.elapsed() <= FLUSH_WITHIN + Duration::from_millis(10));
}
