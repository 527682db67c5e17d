//! What an allowed request was charged by each counter.

use super::{PerCharge, Verdict};
use crate::charge::Charge;
use crate::cost::Cost;
use crate::decision::{Decision, Grant};
use crate::key::Key;

/// What an allowed request was charged by one counter: by all its charges there together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargedLine {
    /// The index of its line in the request's [`Bill`](super::Bill).
    pub line: usize,
    /// The index of the first charge on it.
    pub first: usize,
    /// How many charges consumed units of it.
    pub times: u64,
    /// The units of all of them.
    pub units: u64,
    /// The grant of the first that consumed units.
    pub grant: Grant,
}

// === impl Verdict ===

impl Verdict {
    /// What each counter was charged by this verdict on `charges`; nothing if the request is
    /// denied.
    ///
    /// The charges on one counter take their units together or not at all. One that would have
    /// denied (a shadow limit, and all but one of several quotas) has taken none.
    pub fn charged_lines(&self, charges: &[Charge<'_>]) -> PerCharge<ChargedLine> {
        let (mut keys, mut charged) = (PerCharge::<Key>::new(), PerCharge::new());
        if !self.is_allowed() {
            return charged;
        }
        for (first, charge) in charges.iter().enumerate() {
            if keys.contains(&charge.key) {
                continue;
            }
            charged.extend(self.charged_line(charges, keys.len(), first));
            keys.push(charge.key);
        }
        charged
    }

    /// What a counter was charged, of which `first` is the first charge; `None` if nothing.
    fn charged_line(
        &self,
        charges: &[Charge<'_>],
        line: usize,
        first: usize,
    ) -> Option<ChargedLine> {
        let key = charges[first].key;
        let decided = charges.iter().zip(&self.decisions);
        let mut charged = None;
        for (charge, decision) in decided.filter(|(charge, _)| charge.key == key) {
            let Decision::Allow(grant) = decision else {
                return None;
            };
            if let Cost::Take(units) = charge.cost {
                let counted = charged.get_or_insert(ChargedLine {
                    line,
                    first,
                    times: 0,
                    units: 0,
                    grant: *grant,
                });
                counted.times += 1;
                counted.units = counted.units.saturating_add(units);
            }
        }
        charged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Denial, Wait};
    use crate::limit::Limit;
    use crate::span::Span;
    use crate::verdict::{DenialReason, RequestDenial};

    fn line(line: usize, first: usize, times: u64, units: u64) -> ChargedLine {
        ChargedLine {
            line,
            first,
            times,
            units,
            grant: Grant::default(),
        }
    }

    #[test]
    fn charges_on_one_counter_are_charged_together_or_not_at_all() {
        let limit = Limit::per_minute(9);
        let [a, b, c] = [1, 2, 3].map(Key::from_bits);
        let charge = |key, cost| Charge::new(key, &limit, cost);
        let charges = [
            charge(a, Cost::Peek(1)),
            charge(b, Cost::Take(4)),
            charge(a, Cost::Take(u64::MAX)),
            charge(c, Cost::Refund(1)),
            charge(a, Cost::Take(2)),
            charge(b, Cost::Take(5)),
        ];
        let mut decisions = PerCharge::from_elem(Decision::Allow(Grant::default()), charges.len());
        let allowed = Verdict::new(decisions.clone(), None);
        let expected = [line(0, 0, 2, u64::MAX), line(1, 1, 2, 9)];
        assert_eq!(allowed.charged_lines(&charges)[..], expected);

        // A shadow limit would have denied the last one.
        let denial = Denial::new(Wait::For(Span::SECOND), 0, Span::SECOND);
        decisions[5] = Decision::Deny(denial);
        let shadow = Verdict::new(decisions.clone(), None);
        assert_eq!(shadow.charged_lines(&charges)[..], expected[..1]);

        let denied = Verdict::new(
            decisions,
            Some(RequestDenial {
                by: 5,
                wait: denial.wait,
                reason: DenialReason::Exceeded,
            }),
        );
        assert!(denied.charged_lines(&charges).is_empty());
    }
}
