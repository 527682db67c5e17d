#![allow(clippy::unwrap_used)]

use std::time::Duration;

use http::HeaderMap;
use prometheus_client::encoding::text::encode;
use tollgate_http::{Client, Origin, Unusable};

use super::*;

/// The lines that name this.
fn lines(metrics: &Metrics, name: &str) -> Vec<String> {
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let named = text.lines().filter(|line| line.contains(name));
    named.map(str::to_owned).collect()
}

/// Whatever its requests count that were in flight when it was removed.
#[test]
fn series_of_what_is_removed_do_not_come_back() {
    let metrics = Metrics::new();
    let use_all = |route: &RouteMetrics, upstream: &UpstreamMetrics| {
        route.count_forwarded();
        route.count_failure("closed");
        route.unsettled_counter().count("busy");
        let client = Client {
            address: None,
            origin: Origin::Fallback(Unusable::Absent),
        };
        route.clients().record(client, &HeaderMap::new());
        upstream.count_failure("closed");
        upstream.count_retry("sent");
        upstream.record_answer(Duration::from_secs(1));
    };
    let (route, upstream) = (metrics.route("gone"), metrics.upstream("gone"));
    let (staying, other) = (metrics.route("stays"), metrics.upstream("stays"));
    let checks = upstream.checks("gone:80");
    let (gauge, denied) = (metrics.in_flight("gone"), metrics.in_flight_denied("gone"));
    use_all(&route, &upstream);
    use_all(&staying, &other);
    let before = lines(&metrics, "stays");
    let names = [
        OwnerName::Route("stays".to_owned()),
        OwnerName::Upstream("stays".to_owned()),
    ];
    metrics.retain(&names.into_iter().collect());
    use_all(&route, &upstream);
    route.count_failure("malformed");
    checks.record(true);
    checks.set_healthy(true);
    gauge.inc();
    denied.inc();
    assert_eq!(lines(&metrics, "gone"), [""; 0]);
    assert_eq!(lines(&metrics, "stays"), before);
    // A later one of the same name has series of its own.
    let again = metrics.route("gone");
    again.count_failure("closed");
    let failed = r#"gateway_requests_total{route="gone",outcome="closed"} 1"#;
    assert!(lines(&metrics, "gone").contains(&failed.to_owned()));
}
