//! The parts of a request in different slots, and the verdict on all of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tollgate_core::{
    Bill, Charge, Cost, Decision, Denial, DenialReason, Enforcement, Key, Limit, Line, Moment, Now,
    OnDenial, PerCharge, RequestDenial, Span, TooManyCharges, Usage, Verdict, Wait, step,
};

use super::grouping::Grouping;
use super::request::Request;
use crate::fit::{FittedLimit, GRAIN};
use crate::resp::Malformed;
use crate::script_reply;
use crate::snapshot::{Snapshot, moment};

/// A request, with its lines grouped.
pub(super) struct SplitRequest<'a> {
    charges: Vec<Charge<'a>>,
    pub(super) bill: Bill<'a>,
    /// The limits of the lines, as Redis keeps them.
    pub(super) fitted: Vec<FittedLimit>,
    /// The indexes of the lines in each part.
    parts: Vec<Vec<usize>>,
    is_retried: bool,
}

/// The state of one line in its slot, and the slot's time in microseconds.
#[derive(Clone)]
pub(super) struct LineState {
    pub(super) now: u64,
    pub(super) snapshot: Snapshot,
}

/// The part of the verdict that one slot determines.
struct PartVerdict {
    decisions: Vec<(usize, Decision)>,
    waits: Vec<(usize, Option<Wait>)>,
}

// === impl Apart ===

impl<'a> SplitRequest<'a> {
    pub(super) fn new(
        request: &'a Request,
        grouping: Grouping,
    ) -> Result<SplitRequest<'a>, TooManyCharges> {
        let charges = request.charges();
        let (bill, fitted) = script_reply::bill(&charges, &request.fitted)?;
        let mut parts: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (index, line) in bill.lines().iter().enumerate() {
            let part = grouping.part_of(line.charge.key);
            parts.entry(part).or_default().push(index);
        }
        Ok(SplitRequest {
            charges,
            bill,
            fitted,
            parts: parts.into_values().collect(),
            is_retried: request.is_retried,
        })
    }

    fn line(&self, line: usize) -> &Line<'a> {
        &self.bill.lines()[line]
    }

    /// The waits of all lines before anything is charged, from the state of each.
    pub(super) fn waits(&self, line_states: &[&LineState]) -> Vec<Option<Wait>> {
        let pairs = self.bill.lines().iter().zip(line_states);
        let waits = pairs.map(|(line, line_state)| {
            let (mut snapshot, now) = (line_state.snapshot.clone(), moment(line_state.now));
            snapshot.settle(line.charge.limit, now);
            snapshot.refund(line.charge.limit, now, line.refund());
            wait(line, &snapshot, now)
        });
        waits.collect()
    }

    pub(super) fn refunds(&self) -> bool {
        self.bill.lines().iter().any(|line| line.refund() > 0)
    }

    /// The lines that an allowed request is charged to.
    pub(super) fn charged_lines(&self, waits: &[Option<Wait>]) -> impl Iterator<Item = usize> {
        let takes = |line: &usize| waits[*line].is_none() && self.line(*line).take() > 0;
        (0..self.bill.lines().len()).filter(takes)
    }

    /// Whether a line that has room only without the reservations of others counts as exceeded: a
    /// shadow limit denies nothing, so it must not keep a request waiting. These reservations may
    /// be about to be released: the first round is repeated.
    pub(super) fn gives_way(&self, line: usize) -> bool {
        self.is_retried && self.line(line).charge.enforcement == Enforcement::Shadow
    }

    /// Changes the decisions of lines that have given way: reservations may end at any time. Their
    /// refunds are made.
    pub(super) fn deny_lines(&self, verdict: &mut Verdict, lines: &[usize]) {
        let decided = self.charges.iter().zip(&mut verdict.decisions);
        let judged = decided.filter(|(charge, _)| !charge.cost.is_refund());
        for (charge, decision) in judged {
            if lines
                .iter()
                .any(|line| self.line(*line).charge.key == charge.key)
            {
                *decision = Decision::Deny(Denial::new(Wait::For(GRAIN), 0, decision.reset()));
            }
        }
    }

    /// The verdict; updates the states of the lines.
    pub(super) fn verdict(
        &self,
        line_states: &mut [LineState],
        denied: Option<usize>,
    ) -> Result<Verdict, Malformed> {
        let mut decisions: Vec<Option<Decision>> = vec![None; self.charges.len()];
        let mut waits = vec![None; self.bill.lines().len()];
        for part in &self.parts {
            let settled = self.settle(part, line_states, denied.is_some())?;
            for (charge, decision) in settled.decisions {
                decisions[charge] = Some(decision);
            }
            for (line, wait) in settled.waits {
                waits[line] = wait;
            }
        }
        let decisions: Option<PerCharge<Decision>> = decisions.into_iter().collect();
        let decisions = decisions.ok_or(Malformed("a charge without a decision"))?;
        let denial = denied.map(|line| {
            let longest = self.bill.denied_by(&waits).and_then(|line| waits[line]);
            RequestDenial {
                by: self.denying_charge(line, &decisions),
                wait: longest.unwrap_or(Wait::For(Span::ZERO)),
                reason: DenialReason::Exceeded,
            }
        });
        let mut verdict = Verdict::new(decisions, denial);
        script_reply::coarsen(&mut verdict);
        Ok(verdict)
    }

    /// The charge by which a line denies: the first of those with the longest wait, because charges
    /// on one key may have several limits.
    fn denying_charge(&self, line: usize, decisions: &[Decision]) -> usize {
        let key = self.line(line).charge.key;
        let charges = (0..self.charges.len()).filter(|charge| self.charges[*charge].key == key);
        let by = charges.min_by_key(|charge| Reverse(decisions[*charge].wait()));
        by.unwrap_or(0)
    }

    /// Core's verdict on one part, given whether the whole request is denied: if there are other
    /// parts, an artificial line in addition to those of this one forces that outcome. An only part
    /// determines it, and may have as many charges as core takes.
    fn settle(
        &self,
        lines: &[usize],
        line_states: &mut [LineState],
        is_denied: bool,
    ) -> Result<PartVerdict, Malformed> {
        const ARTIFICIAL: Key = Key::from_bits(0);
        let limit = Limit::fixed_window(u32::from(!is_denied), Span::SECOND);
        let limit = limit.expect("a second is a window");
        let artificial = Charge {
            enforcement: match is_denied {
                true => Enforcement::Enforce,
                false => Enforcement::Quota,
            },
            ..Charge::new(ARTIFICIAL, &limit, Cost::ONE)
        };
        let is_in_part = |charge: &Charge<'_>| {
            lines
                .iter()
                .any(|line| self.line(*line).charge.key == charge.key)
        };
        let in_part: Vec<usize> = (0..self.charges.len())
            .filter(|index| is_in_part(&self.charges[*index]))
            .collect();
        let mut charges: Vec<Charge<'_>> =
            in_part.iter().map(|index| self.charges[*index]).collect();
        let is_only = self.parts.len() == 1;
        if !is_only {
            charges.push(artificial);
        }
        let bill = Bill::new(&charges).map_err(|_| Malformed("too many charges in a part"))?;
        let of_lines = lines.iter().map(|line| line_states[*line].snapshot.clone());
        let mut snapshot: Vec<Snapshot> = of_lines.collect();
        if !is_only {
            snapshot.push(Snapshot::fresh(
                &FittedLimit::new(&limit).map_err(|_| Malformed("no limit"))?,
            ));
        }
        // All lines of a slot are in one reply.
        let now = moment(line_states[lines[0]].now);
        let verdict = bill.settle(&mut snapshot, Now::at(now));
        let mut waits = Vec::with_capacity(lines.len());
        for (line, snapshot) in lines.iter().zip(snapshot) {
            waits.push((*line, wait(self.line(*line), &snapshot, now)));
            line_states[*line].snapshot = snapshot;
        }
        Ok(PartVerdict {
            waits,
            decisions: in_part.into_iter().zip(verdict.decisions).collect(),
        })
    }
}

/// How long until a line allows its units; `None` if it does now.
fn wait(line: &Line<'_>, snapshot: &Snapshot, now: Moment) -> Option<Wait> {
    let peek = Cost::Peek(line.units_needed()?);
    step(
        &mut snapshot.clone(),
        line.charge.limit,
        now,
        peek,
        OnDenial::Keep,
    )
    .wait()
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use tollgate_core::CHARGES_MAX;

    use super::super::request::Refunds;
    use super::*;

    /// A reservation of another request has blocked it, so it is in a round, although its keys are
    /// in one slot.
    #[test]
    fn a_request_in_one_slot_has_as_many_charges_as_any() {
        let limit = Limit::fixed_window(1, Span::HOUR).expect("an hour is a window");
        let fitted = FittedLimit::new(&limit).expect("an hour is whole");
        let key = |number| Key::from_bits(u128::try_from(number).expect("a few"));
        let charges = (0..CHARGES_MAX).map(|number| Charge::new(key(number), &limit, Cost::ONE));
        let charges: Vec<Charge<'_>> = charges.collect();
        let request = Request::new(&charges, Refunds::Done, Instant::now());
        let request = request.expect("these are not too many");
        let request =
            SplitRequest::new(&request, Grouping::BySlot).expect("these are not too many");
        assert_eq!(request.parts.len(), 1);
        let line_state = LineState {
            now: 1_000_000,
            snapshot: Snapshot::fresh(&fitted),
        };
        let mut line_states = vec![line_state; CHARGES_MAX];
        let verdict = request.verdict(&mut line_states, None);
        assert!(verdict.expect("it is complete").is_allowed());
        // The units of the first are used now.
        let waits = request.waits(&line_states.iter().collect::<Vec<_>>());
        let denied = request.bill.denied_by(&waits);
        assert_eq!(denied, Some(0));
        let verdict = request.verdict(&mut line_states, denied);
        let denial = verdict.expect("it is complete").denial;
        assert_eq!(denial.map(|denial| denial.by), Some(0));
    }
}
