//! The verdicts of events that were decided elsewhere: by instances that share their limits.

use tollgate_core::{Answer, Decision, RequestDenial, Status, Verdict};

use crate::error::Error;

/// The most decisions of limits that are kept, 40 bytes each.
pub(crate) const DECISIONS_MAX: usize = 5_000_000;

/// The verdict of each event that has one.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// By the event's line.
    of_lines: Vec<Option<Kept>>,
    /// Those of all verdicts, one after the other.
    decisions: Vec<Decision>,
}

/// Where a verdict is kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    first: u32,
    charges: u32,
    denial: Option<RequestDenial>,
}

// === impl Verdicts ===

impl Verdicts {
    /// Keeps the answer to the event of this line.
    pub(crate) fn add(&mut self, line: u32, answer: &Answer) -> Result<(), Error> {
        let is_limit = |status: &Status| matches!(status, Status::Limited(_));
        let (first, place) = (self.decisions.len(), usize::try_from(line));
        let place = place.map_err(|_| Error::ManyDecisions)?;
        self.decisions
            .extend(answer.limited().map(|limited| limited.decision));
        if self.decisions.len() > DECISIONS_MAX {
            return Err(Error::ManyDecisions);
        }
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        if self.of_lines.len() <= place {
            self.of_lines.resize(place + 1, None);
        }
        self.of_lines[place] = Some(Kept {
            first: count(first),
            charges: count(self.decisions.len() - first),
            // An answer counts descriptors, a verdict those that met a limit.
            denial: answer.denial.map(|denial| RequestDenial {
                by: answer.statuses[..denial.by]
                    .iter()
                    .filter(|status| is_limit(status))
                    .count(),
                ..denial
            }),
        });
        Ok(())
    }

    /// The verdict on the event of this line; `None` if there was no answer.
    pub(crate) fn get(&self, line: u32) -> Option<Verdict> {
        let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let kept = (*self.of_lines.get(index(line))?)?;
        let first = index(kept.first);
        let decisions = &self.decisions[first..first + index(kept.charges)];
        let decisions = decisions.iter().copied().collect();
        Some(Verdict::new(decisions, kept.denial))
    }
}
