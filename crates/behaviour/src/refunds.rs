//! Refunds in requests that also charge the same counter: "a refund never fails, is no part of all
//! or nothing".

use tollgate_core::{ChargeDenied, Cost, Decision, Enforcement, Grant, Verdict};

use crate::promises::{algorithms, limit};
use crate::rule::{Rule, Taste};
use crate::subject::Subject;

/// A request that takes or peeks at too much is denied by that charge. Its refund is made.
pub fn a_refund_beside_a_denied_charge_is_allowed<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for (index, algorithm) in algorithms().into_iter().enumerate() {
        for (cost, refund_first) in [Cost::Take(9), Cost::Peek(9)]
            .into_iter()
            .flat_map(|cost| [(cost, true), (cost, false)])
        {
            let rule = Rule::new(limit(algorithm, 3));
            let mut subject = fresh();
            let key = subject.key(&format!("key {index}"));
            let taken = [rule.charge(key, Cost::Take(2))];
            assert!(subject.decide(taste.start, &taken).is_allowed());
            let refund = rule.charge(key, Cost::Refund(1));
            let denied = rule.charge(key, cost);
            let (charges, by) = match refund_first {
                true => ([refund, denied], 1),
                false => ([denied, refund], 0),
            };
            let verdict = subject.decide(taste.start, &charges);
            assert_eq!(verdict.denial.map(|denial| denial.by), Some(by));
            assert!(!verdict.decisions[by].is_allowed(), "{verdict:?}");
            let refunded = verdict.decisions[1 - by];
            assert!(refunded.is_allowed(), "{verdict:?}");
            assert_eq!(refunded.remaining(), 2);
            assert_eq!(refunded.delay(), std::time::Duration::ZERO);
        }
    }
}

/// A refund under a smaller limit than the rest of its request: whatever fits the other limit is
/// allowed.
pub fn the_limit_of_a_refund_judges_nothing_else<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for (index, algorithm) in algorithms().into_iter().enumerate() {
        for (charge_denied, refund_first) in ChargeDenied::ALL
            .into_iter()
            .flat_map(|one| [(one, true), (one, false)])
        {
            let rule_of = |count| Rule {
                charge_denied,
                ..Rule::new(limit(algorithm, count))
            };
            let (small, large) = (rule_of(3), rule_of(7));
            let mut subject = fresh();
            let key = subject.key(&format!("key {index}"));
            let taken = [large.charge(key, Cost::Take(5))];
            assert!(subject.decide(taste.start, &taken).is_allowed());
            let refund = small.charge(key, Cost::Refund(1));
            let take = |units| {
                let take = large.charge(key, Cost::Take(units));
                in_order([refund, take], refund_first)
            };
            let verdict = subject.decide(taste.start, &take(2));
            assert!(verdict.is_allowed(), "{verdict:?}");
            let remaining = grants(&verdict).map(|grant| grant.remaining);
            let expected = in_order([0, 1], refund_first);
            assert!(remaining.eq(expected), "{verdict:?}");
            // One unit remains, and another one is refunded: three do not fit.
            let verdict = subject.decide(taste.start, &take(3));
            let by = verdict.denial.map(|denial| denial.by);
            assert_eq!(by, Some(usize::from(refund_first)), "{verdict:?}");
        }
    }
}

/// A shadow limit denies nothing, although a refund on its counter has an enforced limit.
pub fn a_refund_does_not_turn_a_shadow_limit_on<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let enforced = Rule::new(limit(algorithms()[0], 3));
    let shadow = Rule {
        enforcement: Enforcement::Shadow,
        ..enforced.clone()
    };
    for refund_first in [true, false] {
        let mut subject = fresh();
        let key = subject.key("only");
        let charges = [
            enforced.charge(key, Cost::Refund(1)),
            shadow.charge(key, Cost::Take(9)),
        ];
        let verdict = subject.decide(taste.start, &in_order(charges, refund_first));
        assert!(verdict.is_allowed(), "{verdict:?}");
        let allowed = verdict.decisions.iter().map(Decision::is_allowed);
        assert!(allowed.eq(in_order([true, false], refund_first)));
    }
}

fn in_order<T>([first, second]: [T; 2], is_in_order: bool) -> [T; 2] {
    match is_in_order {
        true => [first, second],
        false => [second, first],
    }
}

fn grants(verdict: &Verdict) -> impl Iterator<Item = Grant> {
    verdict
        .decisions
        .iter()
        .filter_map(|one| one.into_result().ok())
}
