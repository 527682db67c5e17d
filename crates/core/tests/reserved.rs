//! Which units of a sliding log are refunded when a reservation is settled.
#![allow(clippy::unwrap_used)]

use tollgate_core::{
    Account, Charge, Cost, Decision, Key, Limit, Moment, Now, OnDenial, Reserved, Settlement, Span,
    step,
};

/// As in the store over Redis.
const NEWER_MAX: u64 = 10_000;
const START: Moment = Moment::from_nanos(1_000_000_000_000);

/// Charges `units`, `after` nanoseconds after the start.
fn take(account: &mut Account, charge: &Charge<'_>, after: u64, units: u64) -> Reserved {
    let now = START + Span::from_nanos(after);
    let cost = Cost::Take(units);
    let decision = step(account, charge.limit, now, cost, OnDenial::Keep);
    let Decision::Allow(grant) = decision else {
        panic!("{units} are denied after {after} ns");
    };
    Reserved::new(&Charge { cost, ..*charge }, &grant, Now::at(now))
}

/// An account of which 3 units are charged at 0 ns, 5 at 1 ns, and one at each of the next `newer`
/// nanoseconds. Returns what the 5 units were reserved as.
fn long_account(charge: &Charge<'_>, newer: u64) -> (Account, Reserved) {
    let mut account = Account::fresh(charge.limit);
    take(&mut account, charge, 0, 3);
    let reserved = take(&mut account, charge, 1, 5);
    for after in 2..2 + newer {
        take(&mut account, charge, after, 1);
    }
    (account, reserved)
}

/// All newer entries are rewritten while others wait for the key, so their number is bounded, as
/// over Redis.
#[test]
fn units_before_too_many_others_are_not_refunded() {
    let limit = Limit::sliding_log(100_000, Span::HOUR).unwrap();
    let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
    let now = Now::at(START + Span::SECOND);
    for (newer, charged) in [(NEWER_MAX, 2), (NEWER_MAX + 1, 5)] {
        let (mut account, reserved) = long_account(&charge, newer);
        let used = u32::try_from(3 + charged + newer).unwrap();
        let expected = Settlement::new(charged, limit.capacity() - used);
        let settlement = account.settle_reserved(&charge, now, &reserved, 2);
        assert_eq!(settlement, expected, "{newer}");
        let mut want = Account::fresh(&limit);
        for (after, units) in [(0, 3), (1, charged)]
            .into_iter()
            .chain((2..2 + newer).map(|at| (at, 1)))
        {
            take(&mut want, &charge, after, units);
        }
        assert!(account == want, "{newer}");
    }
}

/// Other entries keep their units and times, whichever part of an entry is refunded.
#[test]
fn only_the_entry_of_the_reservation_changes() {
    let limit = Limit::sliding_log(100, Span::HOUR).unwrap();
    let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
    let now = Now::at(START + Span::SECOND);
    let entries = [(0, 3), (1, 5), (4, 2), (9, 7)];
    for settled in 0..entries.len() {
        for actual in 0..=entries[settled].1 {
            let mut account = Account::fresh(&limit);
            let reserved = entries.map(|(after, units)| take(&mut account, &charge, after, units));
            let settlement = account.settle_reserved(&charge, now, &reserved[settled], actual);
            let mut want = Account::fresh(&limit);
            for (index, (after, units)) in entries.into_iter().enumerate() {
                let left = if index == settled { actual } else { units };
                take(&mut want, &charge, after, left);
            }
            assert_eq!(account, want, "{actual} of {settled}");
            assert_eq!(settlement.charged, actual);
        }
    }
}
