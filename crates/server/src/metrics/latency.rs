//! The times of decisions, read back from their histograms.

use std::collections::BTreeMap;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// The name of the metric in the registry that has it alone.
pub(super) const NAME: &str = "latency";

/// By listener, how many decisions took at most so many seconds, for each bucket but the last,
/// which has no bound.
pub(crate) type Buckets = BTreeMap<String, Vec<(f64, u64)>>;

/// Reads the histograms. Their type shows its buckets in the text format only.
pub(super) fn buckets(registry: &Registry) -> Buckets {
    let mut text = String::new();
    encode(&mut text, registry).expect("a String takes everything");
    let mut found = Buckets::new();
    for (listener, bound, count) in text.lines().filter_map(bucket) {
        found.entry(listener).or_default().push((bound, count));
    }
    found
}

/// The listener and the bound in the labels of a bucket, `le="0.1",listener="http"} 3`.
pub(super) fn labels(labels: &str) -> Option<(&str, f64)> {
    let (labels, _) = labels.split_once("} ")?;
    let value = |name: &str| {
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        let mut values = labels.filter(|(found, _)| *found == name);
        values.next().map(|(_, value)| value.trim_matches('"'))
    };
    Some((value("listener")?, value("le")?.parse().ok()?))
}

/// The listener, bound and count in a line such as `latency_bucket{le="0.1",listener="http"} 3`.
fn bucket(line: &str) -> Option<(String, f64, u64)> {
    let bucket = line.strip_prefix(NAME)?.strip_prefix("_bucket{")?;
    let (listener, bound) = labels(bucket)?;
    let (_, count) = bucket.split_once("} ")?;
    let count = count.parse().ok()?;
    bound
        .is_finite()
        .then(|| (listener.to_owned(), bound, count))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::histogram::Histogram;

    use super::*;

    #[test]
    fn buckets_are_read_back() {
        let make = || Histogram::new([0.001, 0.5]);
        let family = Family::<[(&str, &str); 1], Histogram, _>::new_with_constructor(make);
        for (listener, took) in [
            ("http", 0.0001),
            ("http", 0.1),
            ("http", 3.0),
            ("grpc", 0.2),
        ] {
            family
                .get_or_create(&[("listener", listener)])
                .observe(took);
        }
        let mut registry = Registry::default();
        registry.register(NAME, "", family);
        let found = buckets(&registry);
        assert_eq!(found["http"], [(0.001, 1), (0.5, 2)]);
        assert_eq!(found["grpc"], [(0.001, 0), (0.5, 1)]);
        assert_eq!(found.len(), 2);
    }
}
