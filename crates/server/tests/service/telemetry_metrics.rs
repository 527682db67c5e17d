//! Metrics over OTLP, and exemplars.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_testbed::collector::{
    Collector, Data, Metric, TakenMetrics, find_attribute, number_data_point,
};

use crate::house::House;
use crate::http_client::Client;
use crate::telemetry::{TRACE, on, post};

const ASK: &str = r#"{"domain":"d","descriptors":[{"any":"x"}]}"#;

async fn sends_metrics(collector: &Collector) -> House {
    on(collector, |config| {
        config.telemetry.metrics.interval = Some(Duration::from_millis(100));
    })
    .await
}

fn find<'m>(taken: &'m TakenMetrics, name: &str) -> Option<&'m Metric> {
    taken.metrics.iter().find(|metric| metric.name == name)
}

/// How many decisions there were, by `tollgate_decisions_total`.
fn decisions(taken: &TakenMetrics) -> Option<i64> {
    let Some(Data::Sum(sum)) = &find(taken, "tollgate_decisions_total")?.data else {
        return None;
    };
    let point = sum.data_points.first()?;
    let has = |key, value: &str| find_attribute(&point.attributes, key).as_deref() == Some(value);
    assert!(has("domain", "d") && has("rule", "any") && has("outcome", "allowed"));
    match point.value? {
        number_data_point::Value::AsInt(count) => Some(count),
        number_data_point::Value::AsDouble(_) => None,
    }
}

async fn scrape(house: &House, accept: &str) -> String {
    let mut client = Client::to(house.admin()).await;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n\r\n");
    client.send(request.as_bytes()).await;
    client.reply().await.unwrap().body
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_those_of_the_scrape() {
    let collector = Collector::start();
    let house = sends_metrics(&collector).await;
    for _ in 0..3 {
        assert_eq!(post(&house, "/v1/check", "00", ASK).await.status, 200);
    }
    let taken = collector.wait_for_metrics(|taken| decisions(taken) == Some(3));
    let text = scrape(&house, "text/plain").await;
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let types: BTreeSet<_> = types.filter_map(|line| line.split_once(' ')).collect();
    assert!(types.len() > 30, "{text}");
    for metric in &taken.metrics {
        let kind = match &metric.data {
            Some(Data::Sum(_)) => "counter",
            Some(Data::Histogram(_)) => "histogram",
            Some(Data::Gauge(_)) => "gauge",
            other => panic!("{other:?}"),
        };
        assert!(types.contains(&(&*metric.name, kind)), "{metric:?}\n{text}");
        assert!(!metric.description.is_empty(), "{metric:?}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let parts = ["_bucket", "_sum", "_count"];
        let family = parts.iter().find_map(|part| name.strip_suffix(part));
        let is_sent = [Some(name), family].into_iter().flatten();
        let is_sent = is_sent.into_iter().any(|name| find(&taken, name).is_some());
        assert!(is_sent, "{line}");
    }
    let times = find(&taken, "tollgate_decision_seconds").unwrap();
    let Some(Data::Histogram(histogram)) = &times.data else {
        panic!("{times:?}");
    };
    let point = &histogram.data_points[0];
    assert_eq!((point.count, point.bucket_counts.len()), (3, 21));
    assert_eq!(point.bucket_counts.iter().sum::<u64>(), 3);
    assert_eq!(point.exemplars, [], "no trace is recorded");
    assert!(
        !scrape(&house, "application/openmetrics-text")
            .await
            .contains(" # {")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_decisions_are_exemplars_of_their_buckets() {
    let collector = Collector::start();
    let house = sends_metrics(&collector).await;
    assert_eq!(post(&house, "/v1/check", "01", ASK).await.status, 200);
    let span = collector.wait_for_spans(1).remove(0);
    let text = scrape(&house, "application/openmetrics-text; version=1.0.0").await;
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" # {")).collect();
    let [line] = lines[..] else {
        panic!("{text}");
    };
    let (bucket, exemplar) = line.split_once(" # ").unwrap();
    let labels = format!("{{trace_id=\"{TRACE}\",span_id=\"{}\"}} ", span.id());
    let (took, at) = exemplar
        .strip_prefix(&*labels)
        .unwrap()
        .split_once(' ')
        .unwrap();
    let bound = bucket
        .strip_prefix("tollgate_decision_seconds_bucket{le=\"")
        .unwrap();
    let (bound, rest) = bound.split_once('"').unwrap();
    assert_eq!(rest, ",listener=\"http\"} 1");
    let (bound, took): (f64, f64) = (bound.parse().unwrap(), took.parse().unwrap());
    assert!(took <= bound, "{line}");
    let first = "tollgate_decision_seconds_bucket{";
    let first = text
        .lines()
        .find(|found| found.starts_with(first) && !found.ends_with(" 0"));
    assert_eq!(first, Some(line), "the first bucket that counts it");
    let at: f64 = at.parse().unwrap();
    let began = Duration::from_nanos(span.span.start_time_unix_nano).as_secs_f64();
    assert!(at >= began, "{line}");
    assert!(!scrape(&house, "text/plain").await.contains(" # {"));
    let taken = collector.wait_for_metrics(|taken| decisions(taken) == Some(1));
    let times = find(&taken, "tollgate_decision_seconds").unwrap();
    let Some(Data::Histogram(histogram)) = &times.data else {
        panic!("{times:?}");
    };
    let [exemplar] = &histogram.data_points[0].exemplars[..] else {
        panic!("{times:?}");
    };
    assert_eq!(exemplar.trace_id, span.span.trace_id);
    assert_eq!(exemplar.span_id, span.span.span_id);
}
