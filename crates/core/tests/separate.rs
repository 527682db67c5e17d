//! Charges of which each has a key of its own get the verdict of their bill, and leave its states.
#![allow(clippy::unwrap_used)]

use tollgate_behaviour::{Random, check};
use tollgate_core::{
    Account, Bill, Charge, Cost, Enforcement, Key, Limit, Moment, Now, OnDenial, Span, Verdict,
    settle_separate,
};

fn random_limit(random: &mut Random) -> Limit {
    let count = random.small(1, 4);
    let limit = match random.between(0, 4) {
        0 => Limit::fixed_window(count, Span::MINUTE),
        1 => Limit::token_bucket(count, Span::SECOND),
        2 => Limit::leaky_bucket(count, Span::SECOND),
        3 => Limit::sliding_window(count, Span::SECOND, 2),
        _ => Limit::sliding_log(count, Span::SECOND),
    };
    limit.unwrap()
}

fn random_charge<'l>(random: &mut Random, key: usize, limit: &'l Limit) -> Charge<'l> {
    let cost = match random.between(0, 9) {
        0 => Cost::Peek(random.between(0, 3)),
        1 => Cost::Refund(random.between(0, 3)),
        _ => Cost::Take(random.between(0, 5)),
    };
    Charge {
        enforcement: random.pick(&[
            Enforcement::Enforce,
            Enforcement::Shadow,
            Enforcement::Quota,
            Enforcement::Quota,
        ]),
        on_denial: random.pick(&[OnDenial::Keep, OnDenial::Charge]),
        ..Charge::new(Key::from_bits(u128::try_from(key).unwrap()), limit, cost)
    }
}

#[test]
fn separate_charges_get_the_verdict_of_their_bill() {
    let (mut allowed, mut denied) = (0, 0);
    check("separate", 300, |random| {
        // More than are kept without the heap.
        let limits: Vec<Limit> = (0..9).map(|_| random_limit(random)).collect();
        let mut of_bill: Vec<Account> = limits.iter().map(Account::fresh).collect();
        let mut separate = of_bill.clone();
        let mut now = Moment::from_nanos(1_000_000_000_000);
        // The same one for every request: nothing of the former verdict stays.
        let mut got = Verdict::default();
        for _ in 0..30 {
            now = now + Span::from_millis(random.between(0, 400));
            let charges = limits.iter().enumerate();
            let charges = charges.map(|(key, limit)| random_charge(random, key, limit));
            let charges: Vec<Charge<'_>> = charges.collect();
            let bill = Bill::new(&charges).unwrap();
            let want = bill.settle(&mut of_bill, Now::at(now));
            settle_separate(&charges, &mut separate, Now::at(now), &mut got);
            assert_eq!(got, want, "{charges:#?}");
            assert_eq!(separate, of_bill, "{charges:#?}");
            match got.is_allowed() {
                true => allowed += 1,
                false => denied += 1,
            }
        }
    });
    assert!(allowed > 500 && denied > 500, "{allowed}, {denied}");
}
