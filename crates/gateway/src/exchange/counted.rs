//! The outcome of a request, of which there is always one.

use crate::metrics::RouteMetrics;

/// Counts a request as canceled, unless it has another outcome before this is dropped.
pub(super) struct Counted<'a>(Option<&'a RouteMetrics>);

// === impl Counted ===

impl<'a> Counted<'a> {
    pub(super) const fn new(metrics: &'a RouteMetrics) -> Counted<'a> {
        Counted(Some(metrics))
    }

    /// It has this outcome instead.
    pub(super) fn end(mut self, count: impl FnOnce(&RouteMetrics)) {
        if let Some(metrics) = self.0.take() {
            count(metrics);
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.0 {
            metrics.count_canceled();
        }
    }
}
