//! Which counters a request will charge.

use super::{Bill, PerCharge};
use crate::moment::Now;
use crate::usage::Usage;

// === impl Bill ===

impl Bill<'_> {
    /// For each line, whether [`Bill::settle`] would charge it, given the states of all lines.
    /// `usages` are settled, and stay as they are otherwise.
    ///
    /// For stores that make room for a state only if there is something to store. Where a bill
    /// judges a counter to which it also refunds, the answer is "yes" for all lines with units to
    /// take, since the refund may let the request through.
    pub fn find_charged<U: Usage>(&self, usages: &mut [U], now: Now) -> PerCharge<bool> {
        for (line, usage) in self.lines.iter().zip(usages.iter_mut()) {
            usage.settle(line.widest, now.on(line.widest.timeline()));
        }
        let waits = self.longest_of_lines(&self.waits(usages, now));
        let is_denied = self.denied_by(&waits).is_some();
        let mut lines = self.lines.iter();
        let is_open = lines.any(|line| line.judged && line.refund > 0);
        let lines = self.lines.iter().zip(&waits);
        let is_charged = lines.map(|(line, wait)| match is_denied {
            _ if is_open => line.take > 0,
            true => line.penalty > 0 && line.widest.available() > 0,
            false => line.take > 0 && wait.is_none(),
        });
        is_charged.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::charge::{Charge, Enforcement, OnDenial};
    use crate::cost::Cost;
    use crate::key::Key;
    use crate::limit::Limit;
    use crate::moment::Moment;
    use crate::sliding_log::SlidingLog;
    use crate::span::Span;

    const COSTS: [Cost; 6] = [
        Cost::Take(0),
        Cost::Take(1),
        Cost::Take(3),
        Cost::Peek(1),
        Cost::Peek(3),
        Cost::Refund(1),
    ];

    /// Every kind of charge of a limit, on one of two counters.
    fn charges(limit: &Limit) -> Vec<Charge<'_>> {
        let keys = [1, 2].map(Key::from_bits);
        let costs = keys.iter().flat_map(|key| COSTS.map(|cost| (*key, cost)));
        let charges = costs.flat_map(|(key, cost)| {
            let kinds = [
                (Enforcement::Enforce, OnDenial::Keep),
                (Enforcement::Enforce, OnDenial::Charge),
                (Enforcement::Shadow, OnDenial::Keep),
                (Enforcement::Quota, OnDenial::Charge),
            ];
            kinds.map(|(enforcement, on_denial)| Charge {
                enforcement,
                on_denial,
                ..Charge::new(key, limit, cost)
            })
        });
        charges.collect()
    }

    /// Of states with nothing to refund, those change that were found before.
    #[test]
    fn the_states_that_change_are_those_that_were_found() {
        let now = Now::at(Moment::ZERO + Span::DAY);
        let limits = [0, 2].map(|count| Limit::sliding_log(count, Span::HOUR).unwrap());
        for (one, other) in limits
            .iter()
            .flat_map(|one| limits.iter().map(move |two| (one, two)))
        {
            for (first, second) in charges(one).into_iter().flat_map(|first| {
                charges(other)
                    .into_iter()
                    .map(move |second| (first, second))
            }) {
                let bill = Bill::new(&[first, second]).unwrap();
                let mut usages: Vec<SlidingLog> = vec![SlidingLog::default(); bill.lines().len()];
                let found = bill.find_charged(&mut usages, now);
                assert!(usages.iter().all(|usage| *usage == SlidingLog::default()));
                let is_open = bill
                    .lines()
                    .iter()
                    .any(|line| line.judged && line.refund > 0);
                let _verdict = bill.settle(&mut usages, now);
                for (usage, is_found) in usages.iter().zip(found) {
                    let is_charged = *usage != SlidingLog::default();
                    let is_right = is_found == is_charged || is_found && is_open;
                    assert!(is_right, "{is_found}: {first:#?}, {second:#?}");
                }
            }
        }
    }
}
