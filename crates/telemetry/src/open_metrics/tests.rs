//! Texts as the library of the metrics writes them.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family as Metrics;
use prometheus_client::metrics::gauge::Gauge as OneGauge;
use prometheus_client::metrics::histogram::Histogram as OneHistogram;
use prometheus_client::registry::Registry;

use super::*;

const PERIOD: Period = Period {
    start_nanos: 5,
    at_nanos: 7,
};

fn label(name: &str, value: &str) -> Attribute {
    Attribute::text(name, value)
}

fn find<'m>(metrics: &'m [Metric], name: &str) -> &'m Data {
    let found = metrics.iter().find(|metric| metric.name == name);
    let found = found.unwrap_or_else(|| panic!("{name}: {metrics:?}"));
    found.data.as_ref().expect("every metric has data")
}

/// The value of a label, with everything that has to be escaped or looks like an end.
const ODD: &str = "a\"b\\c\nd}, e=\"# {x";

/// Metrics of every kind, as the library writes them.
fn text() -> String {
    let mut registry = Registry::with_prefix("tollgate");
    let decisions = Metrics::<[(&str, &str); 2], Counter>::default();
    decisions
        .get_or_create(&[("rule", ODD), ("outcome", "allowed")])
        .inc_by(3);
    registry.register("decisions", "Descriptors", decisions);
    let keys = OneGauge::<i64>::default();
    keys.set(-2);
    registry.register("keys", "Keys", keys);
    let share = OneGauge::<f64, std::sync::atomic::AtomicU64>::default();
    share.set(0.25);
    registry.register("share", "Share", share);
    let none = Metrics::<[(&str, &str); 1], Counter>::default();
    registry.register("never", "Never", none);
    let make = || OneHistogram::new([0.001, 0.5]);
    let times = Metrics::<[(&str, &str); 1], OneHistogram, _>::new_with_constructor(make);
    for (listener, took) in [
        ("http", 0.0005),
        ("http", 0.25),
        ("http", 3.0),
        ("grpc", 0.25),
    ] {
        times.get_or_create(&[("listener", listener)]).observe(took);
    }
    registry.register("seconds", "Times", times);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a String takes everything");
    text
}

#[test]
fn every_kind_of_metric_is_read() {
    let metrics = read(&text(), PERIOD);
    assert_eq!(metrics.len(), 4, "{metrics:?}");
    assert_eq!(metrics[0].description, "Descriptors.");
    let counted = NumberPoint {
        attributes: vec![label("rule", ODD), label("outcome", "allowed")],
        start_nanos: 5,
        at_nanos: 7,
        value: Some(Number::Integer(3)),
    };
    let sum = Sum {
        points: vec![counted],
        temporality: CUMULATIVE,
        is_monotonic: true,
    };
    assert_eq!(*find(&metrics, "tollgate_decisions_total"), Data::Sum(sum));
    for (name, value) in [
        ("tollgate_keys", Number::Integer(-2)),
        ("tollgate_share", Number::Double(0.25)),
    ] {
        let point = NumberPoint {
            at_nanos: 7,
            value: Some(value),
            ..NumberPoint::default()
        };
        let points = vec![point];
        assert_eq!(*find(&metrics, name), Data::Gauge(Gauge { points }));
    }
    let Data::Histogram(histogram) = find(&metrics, "tollgate_seconds") else {
        panic!("{metrics:?}");
    };
    assert_eq!(
        (histogram.points.len(), histogram.temporality),
        (2, CUMULATIVE)
    );
    for (listener, counts, sum) in [("http", [1, 1, 1], 3.2505), ("grpc", [0, 1, 0], 0.25)] {
        let of_listener = [label("listener", listener)];
        let mut points = histogram.points.iter();
        let point = points
            .find(|point| point.attributes == of_listener)
            .expect(listener);
        assert_eq!(point.bucket_counts, counts);
        assert_eq!(point.bounds, [0.001, 0.5]);
        assert_eq!((point.count, point.sum), (counts.iter().sum(), Some(sum)));
        assert_eq!((point.start_nanos, point.at_nanos), (5, 7));
    }
}

#[test]
fn exemplars_are_read() {
    let text = "# TYPE t histogram\nt_bucket{le=\"0.5\"} 2 # \
        {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\",span_id=\"00f067aa0ba902b7\"} 0.25 \
        1700000000.5\nt_bucket{le=\"+Inf\"} 2\n# EOF\n";
    let metrics = read(text, PERIOD);
    let Data::Histogram(histogram) = find(&metrics, "t") else {
        panic!("{metrics:?}");
    };
    let [exemplar] = &histogram.points[0].exemplars[..] else {
        panic!("{histogram:?}");
    };
    assert_eq!(exemplar.value, Some(ExemplarValue::Double(0.25)));
    assert_eq!(exemplar.at_nanos, 1_700_000_000_500_000_000);
    assert_eq!(exemplar.span_id, [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]);
    assert_eq!((exemplar.trace_id.len(), exemplar.trace_id[0]), (16, 0x4b));
    assert_eq!(histogram.points[0].bucket_counts, [2, 0]);
}

#[test]
fn what_cannot_be_read_is_left_out() {
    for line in [
        "t_total",
        "t_total x",
        "t_total{a=\"b} 1",
        "t_total{a} 1",
        "t_total{a=\"\\",
        "",
        "{",
    ] {
        let text = format!("# TYPE t counter\n{line}\n# EOF\n");
        assert_eq!(read(&text, PERIOD), [], "{line}");
    }
}
