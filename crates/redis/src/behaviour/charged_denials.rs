//! A denied request that is charged leaves nothing of its limit, in every mode.

use tollgate_behaviour::{Subject, Taste, algorithms};
use tollgate_core::{Charge, Cost, Limit, Mode, Now, OnDenial, Sharing, Span};

use super::{Driven, SINGLE};
use crate::config::Config;
use crate::fit::GRAIN;

const COUNT: u32 = 100;
/// Units spent before the denial: none, on a first lease, and after several renewals.
const SPENT: [u32; 5] = [0, 1, 3, 40, 90];

fn instance() -> Driven {
    Driven::new(&Config::single(SINGLE.address()))
}

/// Spends some units of each limit, and has a request denied and charged that is one unit too
/// large: nothing remains, for this instance or for others.
fn is_exhausted_by_a_denial(mode: Mode) {
    let limits = algorithms()
        .into_iter()
        .map(|algorithm| Limit::new(algorithm, COUNT, Span::HOUR).expect("an hour is a window"));
    for limit in limits.filter(|limit| mode.suits(limit)) {
        for spent in SPENT {
            let (mut instance, now) = (instance(), Taste::MICROSECONDS.start);
            let key = instance.key(&format!("{mode:?} {limit:?} {spent}"));
            let strict = Charge::new(key, &limit, Cost::ONE);
            let one = strict.shared(Sharing::in_mode(mode));
            let peek = Charge {
                cost: Cost::Peek(1),
                ..strict
            };
            assert!((0..spent).all(|_| instance.decide(now, &[one]).is_allowed()));
            // One unit more than remains.
            let more = Charge {
                cost: Cost::Take(u64::from(COUNT - spent + 1)),
                on_denial: OnDenial::Charge,
                ..one
            };
            let context = format!("{spent} units in {mode:?}: {limit:?}");
            let denied = instance.decide(now, &[more]);
            assert!(!denied.is_allowed(), "{context}");
            assert_eq!(denied.decisions[0].remaining(), 0, "{context}");
            assert!(!instance.decide(now, &[one]).is_allowed(), "{context}");
            instance.report();
            instance.runtime.block_on(instance.store.close());
            let left = self::instance().decide(now, &[peek]).decisions[0].remaining();
            assert_eq!(left, 0, "others find units: {context}");
        }
    }
}

/// Two versions of a rule: a denial under a bucket is charged what the bucket had left, and no more
/// to the counter of the other version, however large and however often.
#[test]
fn a_denial_under_one_version_takes_no_more_from_another() {
    let bucket = Limit::token_bucket(10, Span::SECOND).expect("a limit");
    for other in algorithms() {
        let other = Limit::new(other, COUNT, Span::MINUTE).expect("a limit");
        let (mut instance, now) = (instance(), Taste::MICROSECONDS.start);
        let key = instance.key(&format!("{other:?}"));
        let take = |limit, units| Charge::new(key, limit, Cost::Take(units));
        assert!(instance.decide(now, &[take(&other, 1)]).is_allowed());
        let denied = Charge {
            on_denial: OnDenial::Charge,
            ..take(&bucket, 1_000)
        };
        for micros in 0..5 {
            // A fraction of a unit has refilled meanwhile.
            let later = Now::at(now.utc + GRAIN.times(micros));
            assert!(!instance.decide(later, &[denied]).is_allowed(), "{other}");
        }
        let later = Now::at(now.utc + GRAIN.times(5));
        let charge = take(&other, u64::from(COUNT) - 11);
        assert!(instance.decide(later, &[charge]).is_allowed(), "{other}");
    }
}

#[test]
fn strictly() {
    is_exhausted_by_a_denial(Mode::Strict);
}

#[test]
fn on_leased_units() {
    is_exhausted_by_a_denial(Mode::Leased);
}

#[test]
fn on_an_own_count() {
    is_exhausted_by_a_denial(Mode::WriteBack);
}
