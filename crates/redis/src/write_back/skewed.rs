//! A local count at the time of its own server, in a request over keys on several.

use tollgate_core::{Limit, Moment, Span, Usage};

use super::tally::Counting;

/// A tally whose server's clock is behind the time of the request, which is that of the server
/// whose clock is furthest ahead.
///
/// The tally must never see another server's time: it is reported to its own server, where a later
/// time would lock the key for as long as the clocks differ.
#[derive(Debug)]
pub(super) struct Skewed<'t> {
    pub(super) counting: Counting<'t>,
    pub(super) behind: Span,
}

// === impl Skewed ===

impl Usage for Skewed<'_> {
    fn settle(&mut self, limit: &Limit, now: Moment) {
        self.counting.settle(limit, now - self.behind);
    }

    fn not_before(&self, limit: &Limit) -> Moment {
        self.counting.not_before(limit) + self.behind
    }

    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span {
        self.counting.wait(limit, now - self.behind, units)
    }

    fn remaining(&self, limit: &Limit, now: Moment) -> u32 {
        self.counting.remaining(limit, now - self.behind)
    }

    fn reset(&self, limit: &Limit, now: Moment) -> Span {
        self.counting.reset(limit, now - self.behind)
    }

    fn is_over_nominal(&self, limit: &Limit, now: Moment) -> bool {
        self.counting.is_over_nominal(limit, now - self.behind)
    }

    fn take(&mut self, limit: &Limit, now: Moment, units: u32) {
        self.counting.take(limit, now - self.behind, units);
    }

    fn penalise(&mut self, limit: &Limit, now: Moment, units: u32) {
        self.counting.penalise(limit, now - self.behind, units);
    }

    fn refund(&mut self, limit: &Limit, now: Moment, units: u64) {
        self.counting.refund(limit, now - self.behind, units);
    }

    fn expires_at(&self, limit: &Limit) -> Moment {
        self.counting.expires_at(limit) + self.behind
    }
}
