//! What reloads, priorities and headroom change in a run, so that a test can tell that they do.

use crate::account::Effects;
use crate::plan::{Counter, Plan};

/// How often running instances have changed how a limit is shared, or which rules there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A limit got another mode.
    pub modes: u64,
    /// A limit got another `on_store_error`.
    pub on_store_errors: u64,
    /// A rule was removed.
    pub removed: u64,
    /// A rule was added.
    pub added: u64,
    /// A rule began or ceased to replace another one.
    pub replacements: u64,
    /// Charges of requests that met no limit, because their rule was removed.
    pub without_rule: u64,
    /// The same, because another rule replaced theirs.
    pub replaced: u64,
    /// Denials of requests without priority that would have fit the share of others.
    pub kept_for_priority: u64,
    /// Denials of requests without headroom that would have fit an elastic part.
    pub denied_without_headroom: u64,
    /// Allowed requests that used a unit of an elastic part.
    pub allowed_with_headroom: u64,
    /// Reservations that were settled to fewer units.
    pub settled_below: u64,
    /// Reservations that were settled to more units.
    pub settled_above: u64,
}

// === impl Changes ===

impl Changes {
    /// Adds a reload.
    pub(super) fn add(&mut self, plan: &Plan, from: usize, to: usize) {
        let count = |is_changed: &dyn Fn(&Counter) -> bool| {
            let counters = plan.counters.iter().filter(|counter| is_changed(counter));
            u64::try_from(counters.count()).unwrap_or(u64::MAX)
        };
        self.modes += count(&|counter| counter.mode_in(from) != counter.mode_in(to));
        self.on_store_errors +=
            count(&|counter| counter.on_store_error_in(from) != counter.on_store_error_in(to));
        let is_in = Counter::is_present_in;
        self.removed += count(&|counter| is_in(counter, from) && !is_in(counter, to));
        self.added += count(&|counter| !is_in(counter, from) && is_in(counter, to));
        let replaces = plan.replacement.as_ref();
        let is_changed = replaces.is_some_and(|one| one.is_in(from) != one.is_in(to));
        self.replacements += u64::from(is_changed);
    }

    /// These, and what they have changed about decisions.
    pub(super) fn with(self, effects: Effects) -> Changes {
        Changes {
            without_rule: effects.without_rule,
            replaced: effects.replaced,
            kept_for_priority: effects.kept_for_priority,
            denied_without_headroom: effects.denied_without_headroom,
            allowed_with_headroom: effects.allowed_with_headroom,
            settled_below: effects.settled_below,
            settled_above: effects.settled_above,
            ..self
        }
    }
}
