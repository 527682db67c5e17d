//! The promises of docs/semantics.md, as far as a store's answers show them.

use tollgate_core::{
    Algorithm, Anchor, Charge, ChargeDenied, Cost, Decision, Enforcement, Limit, Segments, Span,
    Verdict, Wait,
};

use crate::random::check;
use crate::rule::{Rule, Taste};
use crate::subject::Subject;
use crate::trace::{Trace, later};

/// How many traces test one promise.
const CASES: u64 = 60;

/// 2: with what was denied left out, all other answers are the same.
pub fn a_denied_request_changes_nothing<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    check("a_denied_request_changes_nothing", CASES, |random| {
        let mut trace = Trace::new(*taste, random);
        trace.keep_on_denial();
        let refunds = |charge: &Charge<'_>| charge.cost.is_refund();
        trace.run_sparing(random, [&mut fresh(), &mut fresh()], |charges, verdict| {
            verdict.is_allowed() || charges.iter().any(refunds)
        });
    });
}

/// 2, over several limits: the limits that would have allowed are not charged either.
pub fn a_denied_request_charges_no_limit_at_all<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for (narrow, wide) in pairs() {
        let mut subject = fresh();
        let (narrow, wide) = (limit(narrow, 2), Rule::new(limit(wide, 10)));
        let narrow = Rule::new(narrow);
        let keys = ["narrow", "wide"].map(|name| subject.key(name));
        let both = [
            narrow.charge(keys[0], Cost::ONE),
            wide.charge(keys[1], Cost::ONE),
        ];
        for passed in 1..=4 {
            let verdict = subject.decide(taste.start, &both);
            assert_eq!(verdict.is_allowed(), passed <= 2);
            let remaining = verdict.decisions[1].remaining();
            assert_eq!(remaining, 10 - u32::min(passed, 2));
            let by = verdict.denial.map(|denial| denial.by);
            assert_eq!(by, (passed > 2).then_some(0));
        }
    }
}

/// 9: with peeks left out, all other answers are the same.
pub fn a_peek_changes_nothing<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    check("a_peek_changes_nothing", CASES, |random| {
        let mut trace = Trace::new(*taste, random);
        let peeks = |charge: &Charge<'_>| matches!(charge.cost, Cost::Peek(_) | Cost::Take(0));
        trace.run_sparing(random, [&mut fresh(), &mut fresh()], |charges, _| {
            !charges.iter().all(peeks)
        });
    });
}

/// 2: under `charge_denied` a denial exhausts the limit, and the retry time is computed afterwards.
pub fn charge_denied_exhausts<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    for algorithm in algorithms() {
        let mut subject = fresh();
        let mut rule = Rule::new(limit(algorithm, 4));
        rule.charge_denied = ChargeDenied::Always;
        for (name, units) in [("fits", 3), ("never fits", 5), ("huge", u64::MAX)] {
            let key = subject.key(name);
            let mut ask = |cost| subject.decide(taste.start, &[rule.charge(key, cost)]);
            assert!(ask(Cost::Take(2)).is_allowed());
            let denied = ask(Cost::Take(units));
            let wait = denied.denial.map(|denial| denial.wait);
            assert_eq!(wait == Some(Wait::Never), units > 4, "{rule:?}");
            assert_eq!(denied.decisions[0].remaining(), 0, "{rule:?}");
            let again = ask(Cost::Peek(units));
            assert_eq!(again.decisions, denied.decisions, "{rule:?}");
            assert!(!ask(Cost::Peek(1)).is_allowed(), "{rule:?}");
        }
    }
}

/// 2: under `excess`, a debit that does not fit exhausts the budget, as one that reports tokens
/// after the fact; a denied request of cost 1 changes nothing.
pub fn a_denied_debit_ends_the_budget<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    for algorithm in algorithms() {
        let mut subject = fresh();
        let mut rule = Rule::new(limit(algorithm, 10));
        rule.charge_denied = ChargeDenied::Excess;
        let key = subject.key("tokens");
        let mut ask = |cost| subject.decide(taste.start, &[rule.charge(key, cost)]);
        for debit in [true, false] {
            assert!(ask(Cost::Take(0)).is_allowed(), "{rule:?}");
            assert_eq!(ask(Cost::Take(6)).is_allowed(), debit, "{rule:?}");
        }
        let denied = ask(Cost::Take(0));
        assert!(!denied.is_allowed(), "{rule:?}");
        let (one, again) = (ask(Cost::ONE), ask(Cost::Take(0)));
        assert_eq!([&one, &again], [&denied, &denied], "{rule:?}");
    }
}

/// 3: allowed after exactly the wait, denied one grain earlier; over several limits as well.
pub fn the_wait_is_honest<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    check("the_wait_is_honest", CASES, |random| {
        Trace::new(*taste, random).run_waiting(random, &mut fresh());
    });
}

/// 7 and 11: a state from before the wall clock was set back locks no key. With the clock set back
/// and forth the wait is still exact, and never longer than the limit's memory.
pub fn a_wall_clock_that_steps_locks_no_key<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    check("a_wall_clock_that_steps_locks_no_key", CASES, |random| {
        let mut trace = Trace::new(*taste, random).with_steps();
        trace.run_waiting(random, &mut fresh());
    });
}

/// 4: a cost above the capacity never fits, and charges nothing.
pub fn a_cost_above_the_capacity_never_fits<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    check("a_cost_above_the_capacity_never_fits", CASES, |random| {
        let mut subject = fresh();
        let rule = taste.rule(random);
        let rule = Rule::new(rule.limit);
        let (key, capacity) = (subject.key("only"), rule.limit.available());
        for units in [u64::from(capacity) + 1, random.between(1 << 32, u64::MAX)] {
            let verdict = subject.decide(taste.start, &[rule.charge(key, Cost::Take(units))]);
            let wait = verdict.denial.map(|denial| denial.wait);
            assert_eq!(wait, Some(Wait::Never), "{units} of {rule:?}");
            assert_eq!(verdict.decisions[0].remaining(), capacity);
        }
        let whole = rule.charge(key, Cost::from(capacity));
        let verdict = subject.decide(taste.start, &[whole]);
        assert_eq!(verdict.is_allowed(), capacity > 0, "{rule:?}");
    });
}

/// 9: N = 0.
pub fn zero_per_window_denies_everything<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    for algorithm in algorithms() {
        let mut subject = fresh();
        let rule = Rule::new(limit(algorithm, 0));
        let key = subject.key("only");
        for cost in [0, 1, u64::MAX]
            .into_iter()
            .flat_map(|n| [Cost::Take(n), Cost::Peek(n)])
        {
            let verdict = subject.decide(taste.start, &[rule.charge(key, cost)]);
            let wait = verdict.denial.map(|denial| denial.wait);
            assert_eq!(wait, Some(Wait::Never), "{cost:?} of {rule:?}");
            assert_eq!(verdict.decisions[0].remaining(), 0);
        }
        let refund = rule.charge(key, Cost::Refund(5));
        assert!(subject.decide(taste.start, &[refund]).is_allowed());
    }
}

/// 6: from the promised reset on, a key answers as one never seen.
pub fn a_recovered_key_is_a_fresh_key<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    check("a_recovered_key_is_a_fresh_key", CASES, |random| {
        let mut subject = fresh();
        let rule = Rule::new(taste.limit(random));
        let keys = ["seen", "never seen"].map(|name| subject.key(name));
        let mut now = taste.start;
        let mut reset = Span::ZERO;
        for _ in 0..random.between(1, 8) {
            now = later(now, taste.grain.times(random.between(0, 3)));
            let charge = rule.charge(keys[0], taste.cost(&rule.limit, random));
            reset = subject.decide(now, &[charge]).decisions[0].reset();
        }
        now = later(now, reset);
        for _ in 0..8 {
            let cost = taste.cost(&rule.limit, random);
            let answers = keys.map(|key| subject.decide(now, &[rule.charge(key, cost)]));
            assert_eq!(answers[0], answers[1], "{cost:?} of {rule:?}");
            now = later(now, taste.grain.times(random.between(0, 3)));
        }
    });
}

/// 9: a refund ends at a full budget.
pub fn a_refund_never_exceeds_the_budget<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    for algorithm in algorithms() {
        let mut subject = fresh();
        let rule = Rule::new(limit(algorithm, 5));
        let key = subject.key("only");
        let mut ask = |cost| subject.decide(taste.start, &[rule.charge(key, cost)]);
        assert!(ask(Cost::Take(4)).is_allowed());
        assert_eq!(ask(Cost::Refund(1)).decisions[0].remaining(), 2, "{rule:?}");
        for units in [3, 1, u64::MAX] {
            assert_eq!(
                ask(Cost::Refund(units)).decisions[0].remaining(),
                5,
                "{rule:?}"
            );
        }
        assert!(ask(Cost::Take(5)).is_allowed());
        assert!(!ask(Cost::ONE).is_allowed());
    }
}

/// 8: whatever changes, what was consumed stays consumed, beyond a smaller capacity as well.
pub fn a_change_of_capacity_keeps_what_was_consumed<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for (old, new) in pairs() {
        let mut subject = fresh();
        let mut rule = Rule::new(limit(old, 10));
        let key = subject.key("only");
        let first = subject.decide(taste.start, &[rule.charge(key, Cost::Take(6))]);
        assert_eq!(first.decisions[0].remaining(), 4);
        let mut remaining_of = |count| {
            rule.change(limit(new, count));
            let peek = rule.charge(key, Cost::Peek(1));
            subject.decide(taste.start, &[peek]).decisions[0].remaining()
        };
        let outcome = [20, 6, 8, 4, 5].map(&mut remaining_of);
        assert_eq!(outcome, [14, 0, 2, 0, 0], "from {old:?} to {new:?}");
    }
}

/// Shadow limits never deny; quotas deny only all together.
pub fn shadow_and_quota_deny_as_specified<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    for (one, other) in pairs() {
        let mut subject = fresh();
        let keys = ["one", "other"].map(|name| subject.key(name));
        let mut ask = |enforcement| {
            let mut rules = [Rule::new(limit(one, 1)), Rule::new(limit(other, 3))];
            rules
                .iter_mut()
                .for_each(|rule| rule.enforcement = enforcement);
            let charges = [0, 1].map(|at| rules[at].charge(keys[at], Cost::ONE));
            outcome(&subject.decide(taste.start, &charges))
        };
        assert_eq!(ask(Enforcement::Shadow), (true, [Some(0), Some(2)]));
        // The first is over: it is not charged, and the other one is.
        assert_eq!(ask(Enforcement::Quota), (true, [None, Some(1)]));
        assert_eq!(ask(Enforcement::Shadow), (true, [None, Some(0)]));
        assert_eq!(ask(Enforcement::Shadow), (true, [None, None]));
        assert_eq!(ask(Enforcement::Quota), (false, [None, None]));
        assert_eq!(ask(Enforcement::Enforce), (false, [None, None]));
    }
}

/// A shadow limit never delays, but what it counts takes its turns.
pub fn a_shadow_limit_never_delays<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    // By itself, and with another limit.
    for limits in [1, 2] {
        let mut subject = fresh();
        let keys = ["one", "other"].map(|name| subject.key(name));
        let mut delay = |enforcement| {
            let rule = Rule {
                enforcement,
                ..Rule::new(limit(Algorithm::LeakyBucket, 5))
            };
            let charges = keys.map(|key| rule.charge(key, Cost::ONE));
            subject.decide(taste.start, &charges[..limits]).delay()
        };
        assert_eq!(delay(Enforcement::Shadow), Span::ZERO);
        assert_eq!(delay(Enforcement::Shadow), Span::ZERO);
        assert!(delay(Enforcement::Enforce) > Span::ZERO);
    }
}

/// Two charges that meet on one key are added up and judged once.
pub fn charges_on_one_key_are_added_up<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    for algorithm in algorithms() {
        let mut subject = fresh();
        let rule = Rule::new(limit(algorithm, 5));
        let key = subject.key("only");
        let mut ask = |units| {
            let charges = [
                rule.charge(key, Cost::Take(units)),
                rule.charge(key, Cost::Take(1)),
            ];
            outcome(&subject.decide(taste.start, &charges))
        };
        assert_eq!(ask(2), (true, [Some(2), Some(2)]));
        assert_eq!(ask(2), (false, [None, None]));
        assert_eq!(ask(1), (true, [Some(0), Some(0)]));
    }
}

/// A limit and a shadow of it that meet on one key are enforced together, whichever comes first.
pub fn a_shadow_on_a_key_does_not_turn_its_limit_off<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for algorithm in algorithms() {
        for weak in [Enforcement::Shadow, Enforcement::Quota] {
            for order in [[weak, Enforcement::Enforce], [Enforcement::Enforce, weak]] {
                let mut subject = fresh();
                let key = subject.key("only");
                // Quotas deny together; beside another quota that allows, these two do not.
                let free = Rule::new(limit(algorithm, 100));
                let free = (
                    Rule {
                        enforcement: Enforcement::Quota,
                        ..free
                    },
                    subject.key("free"),
                );
                let rules = order.map(|enforcement| Rule {
                    enforcement,
                    ..Rule::new(limit(algorithm, 3))
                });
                let mut ask = || {
                    let [first, second] = rules.each_ref().map(|rule| rule.charge(key, Cost::ONE));
                    let free = free.0.charge(free.1, Cost::ONE);
                    subject
                        .decide(taste.start, &[first, second, free])
                        .is_allowed()
                };
                assert_eq!([ask(), ask()], [true, false], "{algorithm:?} {order:?}");
            }
        }
    }
}

/// Overrides in one request may have different limits for one counter: its costs are added up, and
/// each limit decides on the sum. The smaller limit comes first, or last.
pub fn each_limit_on_one_key_judges_by_itself<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let override_of = |count| Rule::new(Limit::fixed_window(count, Span::MINUTE).expect("valid"));
    let (small, large) = (override_of(4), override_of(100));
    for order in [[&small, &large], [&large, &small]] {
        let mut subject = fresh();
        let key = subject.key("only");
        let mut ask = |rules: &[&Rule]| {
            let charges: Vec<_> = rules
                .iter()
                .map(|rule| rule.charge(key, Cost::ONE))
                .collect();
            subject.decide(taste.start, &charges)
        };
        let remains = |small, large| match order[0].limit.count() {
            4 => [small, large],
            _ => [large, small],
        };
        assert_eq!(outcome(&ask(&order)), (true, remains(Some(2), Some(98))));
        assert_eq!(outcome(&ask(&order)), (true, remains(Some(0), Some(96))));
        let denied = ask(&order);
        assert_eq!(outcome(&denied), (false, remains(None, Some(96))));
        let by = denied.denial.map(|denial| order[denial.by].limit.count());
        assert_eq!(by, Some(4));
        // The small limit has erased nothing that the large one has counted.
        assert!((0..96).all(|_| ask(&[&large]).is_allowed()));
        assert!(!ask(&[&large]).is_allowed());
    }
}

/// Whether it is allowed, and the remaining units where a limit allows it.
fn outcome(verdict: &Verdict) -> (bool, [Option<u32>; 2]) {
    let remaining = [0, 1].map(|at: usize| match verdict.decisions[at] {
        Decision::Allow(grant) => Some(grant.remaining),
        Decision::Deny(_) => None,
    });
    (verdict.is_allowed(), remaining)
}

/// Every algorithm, in each of its forms.
///
/// # Panics
///
/// Never: 6 segments are allowed.
pub fn algorithms() -> [Algorithm; 7] {
    let six = Segments::new(6).expect("6 is from 1 to 60");
    [
        Algorithm::FixedWindow(Anchor::Clock),
        Algorithm::FixedWindow(Anchor::FirstRequest),
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow(Segments::ONE),
        Algorithm::SlidingWindow(six),
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ]
}

/// Every algorithm with every other, and with itself.
pub(crate) fn pairs() -> impl Iterator<Item = (Algorithm, Algorithm)> {
    let other = |one| algorithms().map(|other| (one, other));
    algorithms().into_iter().flat_map(other)
}

pub(crate) fn limit(algorithm: Algorithm, count: u32) -> Limit {
    // An hour divides by every count used here into whole microseconds.
    Limit::new(algorithm, count, Span::HOUR).expect("valid for every algorithm")
}
