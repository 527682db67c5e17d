//! The parts of a round that are charged immediately, without a reservation.
//!
//! If every other part of a request has reserved, the last one can decide alone: no other part can
//! still deny the requests that it charges. So each request has at most one such part. It is called
//! once instead of twice. If requests share one key and differ in another, nearly all parts are
//! such parts.

use tollgate_core::Enforcement;

use super::super::outcome::Commitment;
use super::{Ledger, Plan};
use crate::script_request::{ScriptRequest, StepLine};

/// The fewest such parts that are worth it: each saves one call, all together cost a round trip.
const PARTS_MIN: usize = 4;

/// The state of a part while parts are chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Open,
    AtOnce,
    Reserves,
}

// === impl Plan ===

impl<'a> Plan<'a> {
    /// For each part, whether it is charged immediately; `always` also chooses if there are few.
    pub(in super::super) fn parts_at_once(&self, always: bool) -> Vec<bool> {
        let is_enforced = |enforcement| enforcement == Enforcement::Enforce;
        let mut lines = self.lines.iter();
        if !lines.all(|planned| is_enforced(planned.line.charge.enforcement)) {
            return vec![false; self.parts.len()];
        }
        let choices = self.choose();
        let at_once = choices.iter().map(|choice| *choice == Choice::AtOnce);
        let at_once: Vec<bool> = at_once.collect();
        let count = at_once.iter().filter(|is_at_once| **is_at_once).count();
        match always || count >= PARTS_MIN {
            true => at_once,
            false => vec![false; self.parts.len()],
        }
    }

    /// Chooses at most one part of each request: at the index where requests differ most.
    fn choose(&self) -> Vec<Choice> {
        let may: Vec<bool> = self
            .parts
            .iter()
            .map(|part| self.may(&part.lines))
            .collect();
        let variety = self.variety();
        let mut choices = vec![Choice::Open; self.parts.len()];
        for lines in &self.of_requests {
            let parts = || lines.iter().map(|line| self.part(*line)).enumerate();
            let best = |wanted: Choice| {
                let of_choice = parts().filter(|(_, part)| may[*part] && choices[*part] == wanted);
                let best = of_choice.max_by_key(|(index, _)| variety[*index]);
                best.map(|(_, part)| part)
            };
            let chosen = best(Choice::AtOnce).or_else(|| best(Choice::Open));
            parts().for_each(|(_, part)| choices[part] = Choice::Reserves);
            if let Some(part) = chosen {
                choices[part] = Choice::AtOnce;
            }
        }
        choices
    }

    /// The number of different parts at each index of the requests' lines.
    fn variety(&self) -> Vec<usize> {
        let longest = self.of_requests.iter().map(Vec::len).max().unwrap_or(0);
        let (mut variety, mut is_seen) = (vec![0; longest], vec![false; self.parts.len()]);
        for lines in &self.of_requests {
            for (index, line) in lines.iter().enumerate() {
                let part = self.part(*line);
                variety[index] += usize::from(!is_seen[part]);
                is_seen[part] = true;
            }
        }
        variety
    }

    /// Whether a part with these lines may be charged immediately.
    fn may(&self, lines: &[usize]) -> bool {
        let [line] = lines else { return false };
        let is_kept = self.lines[*line].line.penalty() == 0;
        is_kept && ScriptRequest::may_charge_at_once(&self.line_for(*line, 1))
    }

    fn line_for(&self, line: usize, times: u32) -> StepLine<'_, 'a> {
        let planned = &self.lines[line];
        StepLine {
            line: &planned.line,
            fitted: &planned.fitted,
            times,
            denied: 0,
        }
    }

    /// For each part, the number of committed requests that it is charged for.
    pub(in super::super) fn count_committed(&self, commitments: &[Commitment]) -> Vec<u32> {
        let mut counts = vec![0; self.parts.len()];
        for (lines, commitment) in self.of_requests.iter().zip(commitments) {
            if *commitment == Commitment::Committed {
                lines.iter().for_each(|line| counts[self.part(*line)] += 1);
            }
        }
        counts
    }

    /// The script request that charges a part for as many of these requests as fit; with none, it
    /// only reads the state.
    pub(in super::super) fn charge_at_once(&self, part: usize, times: u32) -> ScriptRequest {
        let line = self.parts[part].lines[0];
        let request = ScriptRequest::charge_at_once(&self.line_for(line, times));
        request.expect("only such parts are chosen")
    }
}

// === impl Ledger ===

impl Ledger {
    /// Commits as many requests as their other parts have reserved units for.
    pub(in super::super) fn commit(
        &self,
        plan: &Plan<'_>,
        at_once: &[bool],
        commit: impl Fn(usize) -> bool,
    ) -> Vec<Commitment> {
        let reserved = self.lines.iter();
        let reserved = reserved.map(|reply| reply.as_ref().map_or(0, |reply| reply.reserved));
        let mut left: Vec<u32> = reserved.collect();
        let commitments = plan.of_requests.iter().enumerate().map(|(index, lines)| {
            let others = || lines.iter().filter(|line| !at_once[plan.part(**line)]);
            if !others().all(|line| left[*line] > 0) || !commit(index) {
                return Commitment::Excluded;
            }
            others().for_each(|line| left[*line] -= 1);
            Commitment::Committed
        });
        commitments.collect()
    }
}
