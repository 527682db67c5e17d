//! The expected answer to a request, from docs/semantics.md alone.
//!
//! There are no formulas: answers such as "the first moment at which" or "the largest that" are
//! found by searching, that is, by testing repeatedly whether it would fit.

mod naive;

use std::collections::HashMap;

use tollgate_core::{
    Charge, Cost, Decision, Denial, DenialReason, Enforcement, Grant, Key, Now, OnDenial,
    RequestDenial, Span, Verdict, Wait,
};

pub use naive::Naive;

/// Every key ever charged, with its whole history.
#[derive(Clone, Debug, Default)]
pub struct Model {
    keys: HashMap<Key, Naive>,
}

/// The total of one request's charges on one key.
struct KeyTotal<'a> {
    charge: Charge<'a>,
    take: u64,
    /// Of these, what is charged if the request is denied.
    penalty: u64,
    peek: u64,
    judged: bool,
}

// === impl Model ===

impl Model {
    /// All or nothing over `charges`, at `now`, which is not before the last one.
    pub fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        for charge in charges {
            let fresh = || Naive::new(charge.limit);
            let naive = self.keys.entry(charge.key).or_insert_with(fresh);
            naive.change(charge.limit, now);
        }
        for charge in charges {
            if let Cost::Refund(units) = charge.cost {
                self.of_mut(charge.key).refund(now, units);
            }
        }
        let asked = add_up(charges);
        let before: Vec<Option<Wait>> = asked.iter().map(|one| self.wait(one, now)).collect();
        let by = denying_charge(&asked, &before);
        let mut delays = vec![Span::ZERO; asked.len()];
        for (index, one) in asked.iter().enumerate() {
            let fits = before[index].is_none();
            let naive = self.keys.get_mut(&one.charge.key).expect("entered above");
            if by.is_none() && fits && one.take > 0 {
                if one.charge.enforcement != Enforcement::Shadow {
                    delays[index] = naive.delay(now);
                }
                naive.take(now, one.take);
            }
            if by.is_some() && one.penalty > 0 {
                naive.exhaust(now, one.penalty);
            }
        }
        let decisions = charges.iter().map(|charge| {
            let index = asked.iter().position(|one| one.charge.key == charge.key);
            let index = index.expect("gathered from the charges");
            // Promise 9: a refund never fails, and is no part of all or nothing.
            let (before, delay) = match charge.cost.is_refund() {
                true => (None, Span::ZERO),
                false => (before[index], delays[index]),
            };
            self.decision(&asked[index], before, delay, now)
        });
        let denial = by.map(|index| RequestDenial {
            by: first_charge(charges, asked[index].charge.key),
            wait: self.whole_wait(&asked, now),
            reason: DenialReason::Exceeded,
        });
        Verdict::new(decisions.collect(), denial)
    }

    fn of(&self, key: Key) -> &Naive {
        &self.keys[&key]
    }

    fn of_mut(&mut self, key: Key) -> &mut Naive {
        self.keys.get_mut(&key).expect("entered by `decide`")
    }

    fn wait(&self, one: &KeyTotal<'_>, now: Now) -> Option<Wait> {
        let naive = self.of(one.charge.key);
        one.judged.then(|| naive.wait(now, one.units())).flatten()
    }

    /// What is decided about one key, if the whole request must wait as long as `before`.
    fn decision(
        &self,
        one: &KeyTotal<'_>,
        before: Option<Wait>,
        delay: Span,
        now: Now,
    ) -> Decision {
        let naive = self.of(one.charge.key);
        let (remaining, reset) = (naive.remaining(now), naive.reset(now));
        match before {
            None => Decision::Allow(
                Grant::new(remaining, reset)
                    .with_delay(delay)
                    .with_over_soft(naive.is_over_soft(now)),
            ),
            Some(_) => Decision::Deny(Denial::new(
                self.wait(one, now).expect("a denial never makes room"),
                remaining,
                reset,
            )),
        }
    }

    /// The first moment at which the same request would be allowed as a whole.
    fn whole_wait(&self, asked: &[KeyTotal<'_>], now: Now) -> Wait {
        let fits = |one: &KeyTotal<'_>, wait: Span| {
            let then = Now {
                monotonic: now.monotonic + wait,
                utc: now.utc + wait,
            };
            self.of(one.charge.key).fits(then, one.units())
        };
        let allows = |wait: Span| {
            let enforced = of(asked, Enforcement::Enforce).all(|(_, one)| fits(one, wait));
            let mut quotas = of(asked, Enforcement::Quota).peekable();
            enforced && (quotas.peek().is_none() || quotas.any(|(_, one)| fits(one, wait)))
        };
        let waits = asked.iter().filter_map(|one| self.wait(one, now));
        let candidates = waits.filter_map(|wait| match wait {
            Wait::For(span) => Some(span),
            Wait::Never => None,
        });
        let first = candidates.filter(|span| allows(*span)).min();
        if let Some(span) = first {
            assert!(
                !allows(span.minus(Span::NANOSECOND)),
                "not the first moment"
            );
        }
        first.map_or(Wait::Never, Wait::For)
    }
}

/// Adds up the charges on each key.
fn add_up<'a>(charges: &[Charge<'a>]) -> Vec<KeyTotal<'a>> {
    let mut asked: Vec<KeyTotal<'a>> = Vec::new();
    for charge in charges {
        if asked.iter().all(|one| one.charge.key != charge.key) {
            asked.push(KeyTotal {
                charge: *charge,
                take: 0,
                penalty: 0,
                peek: 0,
                judged: false,
            });
        }
        let same = asked.iter_mut().find(|one| one.charge.key == charge.key);
        let same = same.expect("pushed above");
        if !same.judged && !charge.cost.is_refund() {
            same.charge = *charge;
        }
        match charge.cost {
            Cost::Take(units) => {
                same.take = same.take.saturating_add(units);
                if charge.on_denial == OnDenial::Charge {
                    same.penalty = same.penalty.saturating_add(units);
                }
            }
            Cost::Peek(units) => same.peek = same.peek.saturating_add(units),
            Cost::Refund(_) => continue,
        }
        same.judged = true;
    }
    asked
}

/// The charges with this enforcement that are decided, with their indices.
fn of<'s, 'a>(
    asked: &'s [KeyTotal<'a>],
    enforcement: Enforcement,
) -> impl Iterator<Item = (usize, &'s KeyTotal<'a>)> {
    let places = asked.iter().enumerate();
    places.filter(move |(_, one)| one.judged && one.charge.enforcement == enforcement)
}

/// Which charge denies the request: the first with the longest wait.
fn denying_charge(asked: &[KeyTotal<'_>], waits: &[Option<Wait>]) -> Option<usize> {
    let enforced = of(asked, Enforcement::Enforce).map(|(index, _)| index);
    let mut denying: Vec<usize> = enforced.filter(|index| waits[*index].is_some()).collect();
    let quotas: Vec<usize> = of(asked, Enforcement::Quota)
        .map(|(index, _)| index)
        .collect();
    if quotas.iter().all(|index| waits[*index].is_some()) {
        // One open quota is enough, so the one that opens first stands for all.
        denying.extend(quotas.iter().min_by_key(|index| waits[**index]));
    }
    denying.sort_unstable();
    let longest = denying.iter().filter_map(|index| waits[*index]).max();
    denying.into_iter().find(|index| waits[*index] == longest)
}

/// The first charge on a key that is not a refund.
fn first_charge(charges: &[Charge<'_>], key: Key) -> usize {
    let judges = |charge: &Charge<'_>| charge.key == key && !charge.cost.is_refund();
    let first = charges.iter().position(judges);
    first.expect("a key that denies has such a charge")
}

// === impl KeyTotal ===

impl KeyTotal<'_> {
    fn units(&self) -> u64 {
        self.take.saturating_add(self.peek).max(1)
    }
}
