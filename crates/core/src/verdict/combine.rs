//! A verdict of decisions that were not made at one moment.

use super::{Bill, DenialReason, PerCharge, RequestDenial, Verdict};
use crate::decision::{Decision, Grant, Wait};

// === impl Bill ===

impl Bill<'_> {
    /// The verdict on lines that were decided one by one, without charging anything. `decisions`
    /// are those of the lines, in order.
    ///
    /// For callers that only look, because the lines were not decided at one moment.
    pub fn combine(&self, decisions: &[Decision]) -> Verdict {
        let waits: PerCharge<Option<Wait>> = decisions.iter().map(Decision::wait).collect();
        let denied = self.denied_by(&waits);
        let of_charges = self.judges.iter().map(|judge| match decisions[judge.line] {
            Decision::Deny(denial) if judge.is_refund => {
                Decision::Allow(Grant::new(denial.remaining, denial.reset))
            }
            decision => decision,
        });
        let denial = denied.and_then(|line| {
            Some(RequestDenial {
                by: self.first_judge(line)?,
                wait: waits[line]?,
                reason: DenialReason::Exceeded,
            })
        });
        Verdict::new(of_charges.collect(), denial)
    }
}
