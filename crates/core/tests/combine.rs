//! Lines that are looked at one by one give the same verdict as all of them at one moment.
#![allow(clippy::unwrap_used)]

use tollgate_behaviour::{Random, check};
use tollgate_core::{Bill, Charge, Cost, Enforcement, Key, Ledger, Limit, Moment, Now, Span};

const ENFORCEMENTS: [Enforcement; 4] = [
    Enforcement::Enforce,
    Enforcement::Enforce,
    Enforcement::Shadow,
    Enforcement::Quota,
];

/// A limit for each key, and how it is enforced.
fn random_rules(random: &mut Random) -> Vec<(Limit, Enforcement)> {
    let limits = (0..4).map(|_| {
        let count = random.small(1, 4);
        let limit = match random.between(0, 2) {
            0 => Limit::fixed_window(count, Span::MINUTE),
            1 => Limit::token_bucket(count, Span::SECOND),
            _ => Limit::sliding_log(count, Span::SECOND),
        };
        (limit.unwrap(), random.pick(&ENFORCEMENTS))
    });
    limits.collect()
}

#[test]
fn lines_that_are_decided_one_by_one_are_combined() {
    let (mut allowed, mut denied) = (0, 0);
    check("combine", 300, |random| {
        let rules = random_rules(random);
        let mut ledger = Ledger::default();
        let mut now = Moment::from_nanos(1_000_000_000_000);
        for _ in 0..20 {
            now = now + Span::from_millis(random.between(0, 400));
            let picked: Vec<usize> = (0..random.between(1, 4))
                .map(|_| usize::try_from(random.between(0, 3)).unwrap())
                .collect();
            let charges = |cost| -> Vec<Charge<'_>> {
                let charges = picked.iter().map(|index| Charge {
                    enforcement: rules[*index].1,
                    ..Charge::new(Key::from_bits(index_bits(*index)), &rules[*index].0, cost)
                });
                charges.collect()
            };
            let mut peeks = charges(Cost::Peek(1));
            // As a refund is explained, which changes nothing then.
            for peek in peeks.iter_mut().filter(|_| random.chance(20)) {
                peek.cost = Cost::Refund(0);
            }
            let bill = Bill::new(&peeks).unwrap();
            let decisions = bill.lines().iter().map(|line| {
                let cost = Cost::Peek(line.units_needed().unwrap_or(1));
                let alone = Charge {
                    cost,
                    enforcement: Enforcement::Enforce,
                    ..line.charge
                };
                ledger.decide(Now::at(now), &[alone]).unwrap().decisions[0]
            });
            let decisions: Vec<_> = decisions.collect();
            let combined = bill.combine(&decisions);
            assert_eq!(combined, ledger.decide(Now::at(now), &peeks).unwrap());
            match combined.is_allowed() {
                true => allowed += 1,
                false => denied += 1,
            }
            let _charged = ledger.decide(Now::at(now), &charges(Cost::ONE)).unwrap();
        }
    });
    assert!(allowed > 500 && denied > 500, "{allowed}, {denied}");
}

fn index_bits(index: usize) -> u128 {
    u128::try_from(index).unwrap()
}
