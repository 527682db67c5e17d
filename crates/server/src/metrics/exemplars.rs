//! For each bucket of the times of decisions, the trace of the last decision in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tollgate_telemetry::RequestSpan;

use super::{ListenerName, latency};

/// What a line of a bucket begins with.
const BUCKET: &str = "tollgate_decision_seconds_bucket{";

/// The last recorded decision of each bucket, of which there are few: by listener, and the index of
/// the bucket. Without traces it stays empty.
#[derive(Debug)]
pub(super) struct Exemplars {
    bounds: Vec<f64>,
    last: Mutex<BTreeMap<(ListenerName, usize), Exemplar>>,
}

#[derive(Clone, Debug)]
struct Exemplar {
    /// What identifies the trace, as labels.
    labels: String,
    took: Duration,
    /// The time since 1970.
    at: Duration,
}

// === impl Exemplars ===

impl Exemplars {
    /// For a histogram with these upper bounds.
    pub(super) fn new(bounds: impl Iterator<Item = f64>) -> Exemplars {
        Exemplars {
            bounds: bounds.collect(),
            last: Mutex::default(),
        }
    }

    /// Keeps a decision, if its trace is recorded.
    pub(super) fn record(&self, listener: ListenerName, took: Duration, span: &RequestSpan) {
        let Some((trace, span, at)) = span.exemplar() else {
            return;
        };
        let exemplar = Exemplar {
            labels: format!("trace_id=\"{trace}\",span_id=\"{span}\""),
            took,
            at,
        };
        let bucket = self.bucket(took.as_secs_f64());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.insert((listener, bucket), exemplar);
    }

    /// The index of the first bucket whose bound is not below `seconds`.
    fn bucket(&self, seconds: f64) -> usize {
        self.bounds.partition_point(|bound| *bound < seconds)
    }

    /// Adds the exemplars to a text of OpenMetrics.
    pub(super) fn add_to(&self, text: String) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.clone();
        if last.is_empty() {
            return text;
        }
        let mut with = String::with_capacity(text.len());
        for line in text.lines() {
            with.push_str(line);
            if let Some(exemplar) = self.find(&last, line) {
                let Exemplar { labels, took, at } = exemplar;
                let (took, seconds) = (took.as_secs_f64(), at.as_secs());
                let nanos = at.subsec_nanos();
                write!(with, " # {{{labels}}} {took} {seconds}.{nanos:09}")
                    .expect("a String takes everything");
            }
            with.push('\n');
        }
        with
    }

    /// The exemplar of the bucket in a line, if it is one of the histogram and has one.
    fn find<'l>(
        &self,
        last: &'l BTreeMap<(&'l str, usize), Exemplar>,
        line: &'l str,
    ) -> Option<&'l Exemplar> {
        let labels = line.strip_prefix(BUCKET)?;
        let (listener, bound) = latency::labels(labels)?;
        last.get(&(listener, self.bucket(bound)))
    }
}
