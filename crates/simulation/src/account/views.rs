//! How requests meet limits: with or without priority, with or without headroom.

use tollgate_core::Limited;

use super::{Account, Open};
use crate::plan::{Part, View};

impl Account {
    /// Records a report to an instance: that there is headroom for so long, or that there is none.
    pub(crate) fn headroom_reported(&mut self, instance: usize, now: u64, lasts: Option<u64>) {
        self.headroom.report(instance, now, lasts);
    }

    /// How a request meets limits on its instance now.
    pub(super) fn view_now(&self, instance: usize, has_priority: bool, now: u64) -> View {
        View {
            has_priority,
            has_headroom: self.headroom.is_there(instance, now),
        }
    }

    /// Widens how a decision may have met limits if it was made again under other rules: then it
    /// looked again whether there is headroom.
    pub(super) fn widen_views(&self, open: &mut Open, now: u64) {
        if open.versions.len() < 2 {
            return;
        }
        let (ever, always) = self.headroom.within(open.instance, open.from, now);
        open.most.has_headroom = ever;
        open.least.has_headroom = always;
    }

    /// Counts an allowed request if it used a unit of an elastic part.
    pub(super) fn count_elastic(&mut self, open: &Open, part: Part, limited: &Limited) {
        let counter = &self.plan.counters[part.counter];
        if !counter.is_elastic() || open.least != open.most {
            return;
        }
        let available = counter.meet_again(&limited.limit, open.most).available();
        let without = View {
            has_headroom: false,
            ..open.most
        };
        let used = available.saturating_sub(limited.decision.remaining());
        let is_beyond = used > counter.meet_again(&limited.limit, without).available();
        self.effects.allowed_with_headroom += u64::from(is_beyond);
    }
}
