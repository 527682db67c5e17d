//! The latest reloads of the rules, and what was wrong with them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tollgate_core::{Moment, Span};
use tollgate_rules::Diagnostic;

use crate::outcome::Outcome;

/// How many reloads are kept.
pub const RELOADS_KEPT: usize = 16;
/// How many diagnostics are kept of each, errors first.
pub const RELOAD_DIAGNOSTICS_KEPT: usize = 20;

/// A reload, or the first load.
#[derive(Clone, Debug)]
pub struct ReloadRecord {
    /// When, by the clock of the engine.
    at: Moment,
    /// Whether all rules came into effect.
    pub outcome: Outcome,
    /// How many rules were in effect afterwards.
    pub rules: usize,
    /// How many domains were in effect afterwards.
    pub domains: usize,
    /// The errors and warnings, at most [`RELOAD_DIAGNOSTICS_KEPT`].
    pub diagnostics: Vec<Diagnostic>,
    /// How many more there were.
    pub omitted: usize,
    /// Why the rules could not be read, if they could not.
    pub unreadable: Option<String>,
}

/// The latest reloads.
#[derive(Debug, Default)]
pub(crate) struct ReloadHistory(Mutex<VecDeque<ReloadRecord>>);

// === impl ReloadHistory ===

impl ReloadHistory {
    /// Adds a reload, and drops the oldest one if there is no room.
    pub(crate) fn push(&self, record: ReloadRecord) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() >= RELOADS_KEPT {
            records.pop_front();
        }
        records.push_back(record);
    }

    /// All that are kept, the latest first, each with the time since.
    pub(crate) fn latest(&self, now: Moment) -> Vec<(ReloadRecord, Span)> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = records.iter().rev();
        latest.map(|one| (one.clone(), now.since(one.at))).collect()
    }
}

// === impl ReloadRecord ===

impl ReloadRecord {
    /// A reload with its first diagnostics, errors before warnings.
    pub(crate) fn new(
        at: Moment,
        outcome: Outcome,
        (rules, domains): (usize, usize),
        diagnostics: &[Diagnostic],
        unreadable: Option<String>,
    ) -> ReloadRecord {
        let errors = diagnostics.iter().filter(|one| one.is_error());
        let others = diagnostics.iter().filter(|one| !one.is_error());
        let kept = errors.chain(others).take(RELOAD_DIAGNOSTICS_KEPT);
        let kept: Vec<Diagnostic> = kept.cloned().collect();
        ReloadRecord {
            at,
            outcome,
            rules,
            domains,
            omitted: diagnostics.len() - kept.len(),
            diagnostics: kept,
            unreadable,
        }
    }
}
