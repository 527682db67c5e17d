//! The reports of local counts to Redis.
//!
//! Packed for the general script: the step (1) and the number of lines (1); for each line the
//! limit's kind (1), segments (1), capacity (4) and span (6), the base (7), Redis's time of the
//! last decision (7) and the number of parts (1); for each part its position in time (7) and its
//! units (5). Numbers are unsigned, the highest byte first.

use bytes::BufMut;
use tollgate_core::{Key, Moment};

use super::tally::Part;
use crate::fit::FittedLimit;
use crate::keys;
use crate::script_request::{General, ScriptKind, ScriptRequest, StepNumber};

/// The most keys of one request; several requests share a script call.
pub(crate) const LINES_MAX: usize = 64;
/// The most units of one part.
const UNITS_MAX: u64 = (1 << 40) - 1;
/// The latest time, in microseconds.
const AT_MAX: u64 = (1 << 53) - 1;

/// A report of some keys; without parts, it only fetches their counts.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) lines: Vec<Line>,
}

/// The report of one key.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) key: Key,
    pub(crate) fitted: FittedLimit,
    pub(crate) base: u64,
    /// Redis's time of the last decision on the key here, in microseconds.
    pub(crate) latest: u64,
    pub(crate) parts: Vec<Part>,
    /// When the first of these units was allowed.
    pub(crate) since: Option<Moment>,
}

// === impl Report ===

impl Report {
    /// The lines by request: any lines share one if all slots are on one node, otherwise those of
    /// one slot.
    pub(crate) fn into_groups(mut self, is_cluster: bool) -> Vec<Vec<Line>> {
        let slot = |line: &Line| if is_cluster { keys::slot(line.key) } else { 0 };
        if is_cluster {
            self.lines.sort_by_key(slot);
        }
        let mut groups: Vec<Vec<Line>> = Vec::new();
        for line in self.lines {
            match groups.last_mut() {
                Some(group) if group.len() < LINES_MAX && slot(&group[0]) == slot(&line) => {
                    group.push(line);
                }
                _ => groups.push(vec![line]),
            }
        }
        groups
    }
}

/// One request with all of these lines, which are at most [`LINES_MAX`].
pub(crate) fn request(lines: &[Line]) -> ScriptRequest {
    let mut packed = Vec::with_capacity(2 + 39 * lines.len());
    packed.put_u8(StepNumber::Report.byte());
    packed.put_u8(count(lines.len()));
    for line in lines {
        let fitted = &line.fitted;
        packed.put_slice(&[fitted.kind.byte(), fitted.segments]);
        packed.put_u32(fitted.limit.capacity());
        packed.put_uint(fitted.span, 6);
        packed.put_uint(line.base.min(AT_MAX), 7);
        packed.put_uint(line.latest.min(AT_MAX), 7);
        packed.put_u8(count(line.parts.len()));
        for part in &line.parts {
            packed.put_uint(part.at.min(AT_MAX), 7);
            packed.put_uint(part.units.min(UNITS_MAX), 5);
        }
    }
    ScriptRequest::General(General {
        script: ScriptKind::General,
        keys: lines.iter().map(|line| line.key).collect(),
        packed,
        states: lines.len(),
        writes: true,
        is_last_step: false,
    })
}

fn count(number: usize) -> u8 {
    u8::try_from(number).expect("a request has at most 64 lines, and a line at most 61 parts")
}
