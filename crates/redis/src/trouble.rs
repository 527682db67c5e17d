//! Failures of Redis, for operators: why nodes cannot be used, their error replies, and changes of
//! the primary.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Mutex;

use tokio::time::{Duration, Instant};
use tollgate_core::StoreEvent;

use crate::failure::ErrorReply;
use crate::sharded::lock;

/// The most Redis nodes whose reasons are kept, and the most error counts by node and code.
const NODES_MAX: usize = 64;
/// The most reasons that are shown at once.
const SHOWN_MAX: usize = 3;
/// The most changes of the primary that are kept for the log.
const CHANGES_MAX: usize = 16;
/// Stands for all nodes beyond [`NODES_MAX`].
const OTHERS: &str = "(other)";
/// The shortest interval between two events of the same error on the same node.
const EVENT_EVERY: Duration = Duration::from_secs(10);

/// Failures of Redis.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Why nodes cannot be used now, by address; the newest last.
    reasons: VecDeque<(Box<str>, String)>,
    /// By address and code.
    errors: BTreeMap<(Box<str>, &'static str), Tally>,
    changes: VecDeque<StoreEvent>,
}

/// The count of one error.
#[derive(Debug, Default)]
struct Tally {
    count: u64,
    /// How many of them were in events, and when the last event was.
    reported: u64,
    reported_at: Option<Instant>,
    text: String,
}

/// The number of error replies with one code from one Redis node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// `host:port`, or `(other)` for all beyond a fixed number of nodes.
    pub node: String,
    /// One of [`ERROR_CODES`](crate::ERROR_CODES).
    pub code: &'static str,
    /// The number of these replies.
    pub count: u64,
}

// === impl Trouble ===

impl Trouble {
    /// Notes why a node cannot be used.
    pub(crate) fn record_failure(&self, node: &str, reason: &dyn fmt::Display) {
        let mut known = lock(&self.0);
        known.reasons.retain(|(other, _)| **other != *node);
        if known.reasons.len() == NODES_MAX {
            known.reasons.pop_front();
        }
        known.reasons.push_back((node.into(), reason.to_string()));
    }

    /// Notes that a node can be used, or is no longer needed.
    pub(crate) fn clear_failure(&self, node: &str) {
        let mut known = lock(&self.0);
        known.reasons.retain(|(other, _)| **other != *node);
    }

    /// Counts an error reply of a node.
    pub(crate) fn record_error(&self, node: &str, error: &ErrorReply) {
        let mut known = lock(&self.0);
        let is_full = known.errors.len() >= NODES_MAX;
        let mut key = (Box::from(node), error.code);
        if is_full && !known.errors.contains_key(&key) {
            key.0 = Box::from(OTHERS);
        }
        let tally = known.errors.entry(key).or_default();
        tally.count += 1;
        if *tally.text != *error.text {
            error.text.as_ref().clone_into(&mut tally.text);
        }
    }

    /// Notes that the sentinels name another primary.
    pub(crate) fn record_new_primary(&self, from: &str, to: &str) {
        let mut known = lock(&self.0);
        if known.changes.len() == CHANGES_MAX {
            known.changes.pop_front();
        }
        known.changes.push_back(StoreEvent::PrimaryChanged {
            from: from.to_owned(),
            to: to.to_owned(),
        });
    }

    /// Why Redis nodes cannot be used now, each with its address; the newest reason first.
    pub(crate) fn reason(&self) -> Option<String> {
        let known = lock(&self.0);
        let all = known.reasons.iter().rev().take(SHOWN_MAX);
        let shown: Vec<String> = all.map(|(node, why)| format!("{node}: {why}")).collect();
        (!shown.is_empty()).then(|| shown.join("; "))
    }

    /// The events to be logged since the last call.
    pub(crate) fn events(&self, now: Instant) -> Vec<StoreEvent> {
        let mut known = lock(&self.0);
        let mut events: Vec<StoreEvent> = known.changes.drain(..).collect();
        for ((node, code), tally) in &mut known.errors {
            let is_early = tally.reported_at.is_some_and(|at| now < at + EVENT_EVERY);
            if tally.count == tally.reported || is_early {
                continue;
            }
            events.push(StoreEvent::ErrorReplies {
                node: node.to_string(),
                code,
                text: tally.text.clone(),
                count: tally.count - tally.reported,
            });
            (tally.reported, tally.reported_at) = (tally.count, Some(now));
        }
        events
    }

    /// Error replies so far, by Redis node and code.
    pub(crate) fn error_counts(&self) -> Vec<ErrorCount> {
        let known = lock(&self.0);
        let errors = known.errors.iter();
        let counts = errors.map(|((node, code), tally)| ErrorCount {
            node: node.to_string(),
            code,
            count: tally.count,
        });
        counts.collect()
    }
}

#[cfg(test)]
mod tests;
