//! What the gateway counts, read back from its metrics.

use std::collections::BTreeMap;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tollgate_gateway::{REQUESTS, UPSTREAM_ERRORS, UPSTREAM_SECONDS};

/// What the gateway did until now.
#[derive(Debug, Default)]
pub(crate) struct GatewayFigures {
    /// Requests by route and outcome; the route of those that match no route is empty.
    pub(crate) routes: BTreeMap<String, Counts>,
    pub(crate) upstreams: BTreeMap<String, UpstreamFigures>,
}

/// Counts by outcome or by kind.
pub(crate) type Counts = BTreeMap<String, u64>;

/// What an upstream did until now.
#[derive(Debug, Default)]
pub(crate) struct UpstreamFigures {
    pub(crate) answers: u64,
    /// How many answers took at most so many seconds, for each bucket but the last, which has no
    /// bound.
    pub(crate) times: Vec<(f64, u64)>,
    /// Requests that were not answered, by kind.
    pub(crate) errors: Counts,
}

/// A line of the text format: `name{label="value"} 3`.
struct Series<'t> {
    name: &'t str,
    labels: Vec<(&'t str, String)>,
    value: &'t str,
}

/// Reads the metrics of a registry that has no others. Families and histograms show their series in
/// the text format only.
pub(super) fn figures(registry: &Registry) -> GatewayFigures {
    let mut text = String::new();
    encode(&mut text, registry).expect("a String takes everything");
    let mut figures = GatewayFigures::default();
    for series in text.lines().filter_map(Series::read) {
        // A line with other labels is of no metric that is read here.
        let _ = figures.add(&series);
    }
    figures
}

// === impl GatewayFigures ===

impl GatewayFigures {
    /// Adds a series, if it is one of those that are shown.
    fn add(&mut self, series: &Series<'_>) -> Option<()> {
        let count = series.value.parse().ok()?;
        if series.name.strip_prefix(REQUESTS) == Some("_total") {
            let route = self.routes.entry(series.label("route")?).or_default();
            route.insert(series.label("outcome")?, count);
            return Some(());
        }
        let times = series.name.strip_prefix(UPSTREAM_SECONDS);
        let is_error = series.name.strip_prefix(UPSTREAM_ERRORS) == Some("_total");
        if times.is_none() && !is_error {
            return None;
        }
        let upstream = self.upstreams.entry(series.label("upstream")?).or_default();
        match times {
            None => {
                upstream.errors.insert(series.label("kind")?, count);
            }
            Some("_count") => upstream.answers = count,
            Some("_bucket") => {
                let bound: f64 = series.label("le")?.parse().ok()?;
                if bound.is_finite() {
                    upstream.times.push((bound, count));
                }
            }
            Some(_) => {}
        }
        Some(())
    }
}

// === impl Series ===

impl Series<'_> {
    fn read(line: &str) -> Option<Series<'_>> {
        let (name, mut rest) = line.split_once('{')?;
        let mut labels = Vec::new();
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = unescape(after)?;
            labels.push((label, value));
            if let Some(next) = after.strip_prefix(',') {
                rest = next;
                continue;
            }
            let value = after.strip_prefix("} ")?;
            return Some(Series {
                name,
                labels,
                value,
            });
        }
    }

    fn label(&self, name: &str) -> Option<String> {
        let mut labels = self.labels.iter();
        let found = labels.find(|(label, _)| *label == name);
        found.map(|(_, value)| value.clone())
    }
}

/// The text before a quote, and what follows the quote.
fn unescape(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut signs = text.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match signs.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::histogram::Histogram;

    use super::*;

    #[test]
    fn figures_are_read_back_whatever_names_are() {
        const NAME: &str = "a\"} 7,\\\n{b=\"é";
        let mut registry = Registry::default();
        let requests = Family::<[(&str, String); 2], Counter>::default();
        let labels = |outcome: &str| [("route", NAME.to_owned()), ("outcome", outcome.to_owned())];
        requests.get_or_create(&labels("forwarded")).inc_by(5);
        requests.get_or_create(&labels("denied")).inc_by(2);
        registry.register(REQUESTS, "", requests);
        let errors = Family::<[(&str, String); 2], Counter>::default();
        let of_upstream = [
            ("upstream", NAME.to_owned()),
            ("kind", "timeout".to_owned()),
        ];
        errors.get_or_create(&of_upstream).inc_by(3);
        registry.register(UPSTREAM_ERRORS, "", errors);
        let make = || Histogram::new([0.001, 0.5]);
        let seconds = Family::<[(&str, String); 1], Histogram, _>::new_with_constructor(make);
        for took in [0.0001, 0.1, 3.0] {
            let of_upstream = [("upstream", NAME.to_owned())];
            seconds.get_or_create(&of_upstream).observe(took);
        }
        registry.register(UPSTREAM_SECONDS, "", seconds);
        let found = figures(&registry);
        let counts = |counts: &Counts| -> Vec<(String, u64)> {
            counts
                .iter()
                .map(|(name, count)| (name.clone(), *count))
                .collect()
        };
        assert_eq!(
            counts(&found.routes[NAME]),
            [("denied".to_owned(), 2), ("forwarded".to_owned(), 5)]
        );
        let upstream = &found.upstreams[NAME];
        assert_eq!(upstream.answers, 3);
        assert_eq!(upstream.times, [(0.001, 1), (0.5, 2)]);
        assert_eq!(counts(&upstream.errors), [("timeout".to_owned(), 3)]);
        assert_eq!((found.routes.len(), found.upstreams.len()), (1, 1));
    }
}
