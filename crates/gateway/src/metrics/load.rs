//! What is known of the load of upstreams, while limits depend on it.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tollgate_core::Span;

use crate::load_trend::LoadFigures;

/// The label `figure` of what was measured of late.
const RECENT: &str = "recent";
/// The label `figure` of what is usual.
const BASELINE: &str = "baseline";

type FigureLabels = [(&'static str, String); 2];
type Figures = Family<FigureLabels, Gauge<f64, AtomicU64>>;

/// Those of all upstreams.
#[derive(Clone, Debug, Default)]
pub(super) struct AllLoadMetrics {
    headroom: Family<[(&'static str, String); 1], Gauge>,
    seconds: Figures,
    errors: Figures,
}

/// Those of one upstream.
#[derive(Clone, Debug)]
pub(crate) struct LoadMetrics {
    upstream: String,
    all: AllLoadMetrics,
}

// === impl AllLoadMetrics ===

impl AllLoadMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "gateway_upstream_headroom",
            "Whether an upstream has headroom: 1 or 0; without a series if no limit depends on it",
            self.headroom.clone(),
        );
        registry.register(
            "gateway_upstream_load_seconds",
            "The response time that nine tenths of requests to an upstream do not exceed",
            self.seconds.clone(),
        );
        registry.register(
            "gateway_upstream_load_errors",
            "The share of requests to an upstream that fail",
            self.errors.clone(),
        );
    }

    pub(super) fn of(&self, upstream: &str) -> LoadMetrics {
        LoadMetrics {
            upstream: upstream.to_owned(),
            all: self.clone(),
        }
    }
}

// === impl LoadMetrics ===

impl LoadMetrics {
    /// Shows these figures. One that is not known has no series.
    pub(crate) fn record(&self, figures: &LoadFigures) {
        let headroom = self.all.headroom.get_or_create(&self.label());
        headroom.set(i64::from(figures.has_headroom));
        let millionths = |share: u64| Duration::from_micros(share).as_secs_f64();
        let seconds = |time: Span| time.to_duration().as_secs_f64();
        for (family, figure, value) in [
            (&self.all.seconds, RECENT, figures.recent_time.map(seconds)),
            (
                &self.all.seconds,
                BASELINE,
                figures.baseline_time.map(seconds),
            ),
            (
                &self.all.errors,
                RECENT,
                figures.recent_errors.map(millionths),
            ),
            (
                &self.all.errors,
                BASELINE,
                Some(millionths(figures.baseline_errors)),
            ),
        ] {
            let labels = self.labels(figure);
            match value {
                Some(value) => {
                    family.get_or_create(&labels).set(value);
                }
                None => {
                    family.remove(&labels);
                }
            }
        }
    }

    /// Shows nothing more of this upstream.
    pub(crate) fn remove(&self) {
        self.all.headroom.remove(&self.label());
        for figure in [RECENT, BASELINE] {
            self.all.seconds.remove(&self.labels(figure));
            self.all.errors.remove(&self.labels(figure));
        }
    }

    fn label(&self) -> [(&'static str, String); 1] {
        [("upstream", self.upstream.clone())]
    }

    fn labels(&self, figure: &str) -> FigureLabels {
        let [upstream] = self.label();
        [upstream, ("figure", figure.to_owned())]
    }
}
