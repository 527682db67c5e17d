//! Requests with several limits, on keys whose units one instance has leased.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_behaviour::{Random, Rule, Subject, Taste, check, with_grain};
use tollgate_core::ChargeDenied::{Always, Excess, Never};
use tollgate_core::{Charge, Cost, Decision, Ledger, Limit, Span, Verdict, Wait};

use super::{Care, Instances, STEPS, cost, limit, rule};
use crate::behaviour::Driven;
use crate::fit::GRAIN;

/// The units that an instance holds itself deny none of its own requests with several limits.
#[test]
fn an_instance_denies_nothing_for_what_it_holds_itself() {
    let now = Taste::MICROSECONDS.start;
    for connect in [Instances::instance, Driven::apart] {
        let mut instance = connect();
        let [key, other] = ["leased", "other"].map(|name| instance.key(name));
        let [rule, large] = [1_000, 100_000].map(|count| {
            rule(Limit::fixed_window(count, Span::HOUR).expect("an hour is a window"))
        });
        for _ in 0..40 {
            let spent = instance.decide(now, &[rule.charge(key, Cost::ONE)]);
            assert!(spent.is_allowed());
        }
        assert!(instance.store.counts().leases_held > 0, "nothing is leased");
        let both = |units| {
            let cost = Cost::Take(units);
            [rule.charge(key, cost), large.charge(other, cost)]
        };
        assert_eq!(instance.decide(now, &both(960)).denial, None);
        assert!(!instance.decide(now, &both(1)).is_allowed());
    }
}

/// Alone on its keys, an instance allows and denies as in mode `strict`, with the same retry times,
/// and refunds as much. What remains after a request that it allows may differ: Redis counts what
/// the instance holds as consumed, and a lease does not know what Redis has decided since.
#[test]
fn one_instance_decides_several_limits_as_if_it_were_strict() {
    let (decided, returned) = (AtomicU64::new(0), AtomicU64::new(0));
    check("one_instance_decides_several_limits", 80, |random| {
        let mut instances = Instances::new(1);
        let rules = [(); 2].map(|()| Rule {
            charge_denied: random.pick(&[Never, Never, Excess, Always]),
            ..rule(limit(random))
        });
        let keys = ["one", "other"].map(|name| instances.instances[0].key(name));
        let mut ledger = Ledger::default();
        for step in 0..STEPS {
            instances.pass(random, Care::Taken);
            instances.disturb(random, Care::Taken);
            let of = |at: usize, cost| rules[at].charge(keys[at], cost);
            let charges: Vec<Charge<'_>> = match random.between(0, 9) {
                0..7 => vec![of(random.pick(&[0, 0, 0, 1]), cost(random))],
                7 | 8 => (0..2).map(|at| of(at, any_cost(random))).collect(),
                // A refund on a counter that the same request charges.
                _ => [
                    (0, Cost::Refund(random.between(0, 9))),
                    (0, any_cost(random)),
                ]
                .map(|(at, cost)| of(at, cost))
                .into(),
            };
            let got = instances.instances[0].decide(instances.now, &charges);
            let want = ledger.decide(instances.now, &charges).expect("two charges");
            let context = format!("step {step}: {charges:#?}");
            assert_same(&got, &with_grain(want, GRAIN), &context);
        }
        returned.fetch_add(
            instances.instances[0].store.counts().leases_returned,
            Ordering::Relaxed,
        );
        instances.close();
        decided.fetch_add(instances.decided, Ordering::Relaxed);
    });
    assert!(decided.into_inner() > 1_000, "hardly anything was leased");
    assert!(returned.into_inner() > 100, "hardly anything was returned");
}

fn any_cost(random: &mut Random) -> Cost {
    match random.between(0, 9) {
        0 => Cost::Refund(random.between(1, 9)),
        1 => Cost::Peek(random.pick(&[1, 5, 20, 100])),
        _ => Cost::Take(random.pick(&[1, 5, 20, 60])),
    }
}

fn assert_same(got: &Verdict, want: &Verdict, context: &str) {
    assert_eq!(got.denial, want.denial, "{context}");
    for (got, want) in got.decisions.iter().zip(&want.decisions) {
        let waits = [got, want].map(|one: &Decision| one.wait());
        assert_eq!(waits[0], waits[1], "{context}");
        if matches!(waits[0], Some(Wait::For(_))) {
            assert_eq!(got.remaining(), want.remaining(), "{context}");
        }
    }
}
