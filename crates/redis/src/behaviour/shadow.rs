//! Reservations of instances that have died, on limits that never deny.
//!
//! The scripts' time stands still, so no reservation expires.

use tollgate_behaviour::{Subject, Taste, algorithms};
use tollgate_core::{
    Charge, Cost, Decision, Enforcement, Limit, NewReservation, SettledCharge, Span,
};

use super::{Driven, SINGLE};
use crate::config::Config;
use crate::names::reservation_name;
use crate::script_reply::Status;
use crate::script_request::Step;

/// Stores that decide over several slots, and in one.
const STORES: [fn() -> Driven; 3] = [Driven::apart, Driven::apart_at_once, || {
    Driven::new(&Config::single(SINGLE.address()))
}];

/// Reserves the units, and returns the reservation's name.
fn reserve(redis: &Driven, charge: Charge<'_>) -> u64 {
    let lasts = 1_000_000;
    let name = reservation_name(lasts);
    let step = Step::Reserve { name, lasts };
    let reserved = redis.step(Taste::MICROSECONDS.start, step, charge);
    assert_eq!(reserved, Status::Allowed);
    name
}

/// A request whose units fit in a shadow limit only without a reservation that is never confirmed
/// is allowed, as if the reserved units were consumed.
#[test]
fn a_reservation_on_a_shadow_limit_denies_nothing() {
    for (store, algorithm) in STORES
        .into_iter()
        .flat_map(|store| algorithms().into_iter().map(move |one| (store, one)))
    {
        let limit = Limit::new(algorithm, 10, Span::HOUR).expect("an hour is a window");
        let mut redis = store();
        let [met, enforced] = ["shadow", "enforced"].map(|name| redis.key(name));
        let now = Taste::MICROSECONDS.start;
        let shadow = |cost| Charge {
            enforcement: Enforcement::Shadow,
            ..Charge::new(met, &limit, cost)
        };
        let other = Charge::new(enforced, &limit, Cost::ONE);
        assert!(redis.decide(now, &[shadow(Cost::Take(4))]).is_allowed());
        let name = reserve(&redis, shadow(Cost::Take(6)));
        for (cost, remaining) in [(Cost::ONE, 9), (Cost::Take(6), 8), (Cost::Peek(2), 7)] {
            let verdict = redis.decide(now, &[shadow(cost), other]);
            assert!(verdict.is_allowed(), "{cost:?} of {limit:?}");
            let [judged, charged] = &verdict.decisions[..] else {
                panic!("{verdict:?}");
            };
            assert!(!judged.is_allowed(), "{cost:?} of {limit:?}");
            assert_eq!(judged.remaining(), 0);
            assert_eq!(charged.remaining(), remaining, "{cost:?} of {limit:?}");
        }
        // The reservation is unharmed, and nothing else was charged to the limit.
        let confirmed = redis.step(now, Step::Confirm { name }, shadow(Cost::Take(6)));
        assert_eq!(confirmed, Status::Allowed);
        let exhausted = Charge::new(met, &limit, Cost::Peek(1));
        assert!(!redis.decide(now, &[exhausted]).is_allowed());
    }
}

/// The refund of such a request is made, and is not reported as denied.
#[test]
fn a_reservation_on_a_shadow_limit_denies_no_refund() {
    for store in STORES {
        let limit = Limit::fixed_window(10, Span::HOUR).expect("an hour is a window");
        let mut redis = store();
        let [met, enforced] = ["shadow", "enforced"].map(|name| redis.key(name));
        let now = Taste::MICROSECONDS.start;
        let shadow = |cost| Charge {
            enforcement: Enforcement::Shadow,
            ..Charge::new(met, &limit, cost)
        };
        let other = Charge::new(enforced, &limit, Cost::ONE);
        assert!(redis.decide(now, &[shadow(Cost::Take(4))]).is_allowed());
        reserve(&redis, shadow(Cost::Take(6)));
        // One unit is free after the refund.
        let charges = [shadow(Cost::Refund(1)), shadow(Cost::Take(2)), other];
        let verdict = redis.decide(now, &charges);
        assert!(verdict.is_allowed(), "{verdict:?}");
        let allowed = verdict.decisions.iter().map(Decision::is_allowed);
        assert!(allowed.eq([true, false, true]), "{verdict:?}");
        let last = redis.decide(now, &[shadow(Cost::ONE), other]);
        assert!(last.decisions[0].is_allowed(), "{last:?}");
    }
}

/// Only a reservation on a limit that denies keeps a request waiting.
#[test]
fn a_released_reservation_leaves_a_shadow_limit_as_it_was() {
    for algorithm in algorithms() {
        let limit = Limit::new(algorithm, 10, Span::HOUR).expect("an hour is a window");
        let mut redis = Driven::apart();
        let [met, enforced] = ["shadow", "enforced"].map(|name| redis.key(name));
        let now = Taste::MICROSECONDS.start;
        let shadow = Charge {
            enforcement: Enforcement::Shadow,
            ..Charge::new(met, &limit, Cost::Take(6))
        };
        let other = Charge::new(enforced, &limit, Cost::ONE);
        let name = reserve(&redis, shadow);
        let exceeded = redis.decide(now, &[shadow, other]);
        assert!(exceeded.is_allowed() && !exceeded.decisions[0].is_allowed());
        assert_eq!(redis.release(now, name, shadow), Status::Allowed);
        let verdict = redis.decide(now, &[shadow, other]);
        assert_eq!(verdict.decisions[0].remaining(), 4, "{limit:?}");
        assert!(verdict.decisions[0].is_allowed(), "{limit:?}");
    }
}

/// The same for a request with a reservation that its client settles, which no round decides.
#[test]
fn a_reservation_on_a_shadow_limit_does_not_block_one_that_is_settled() {
    for algorithm in algorithms() {
        let limit = Limit::new(algorithm, 10, Span::HOUR).expect("an hour is a window");
        let mut redis = Driven::new(&Config::single(SINGLE.address()));
        let [met, enforced] = ["shadow", "enforced"].map(|name| redis.key(name));
        let now = Taste::MICROSECONDS.start;
        let shadow = |cost| Charge {
            enforcement: Enforcement::Shadow,
            ..Charge::new(met, &limit, cost)
        };
        let other = |cost| Charge::new(enforced, &limit, cost);
        assert!(redis.decide(now, &[shadow(Cost::Take(4))]).is_allowed());
        let name = reserve(&redis, shadow(Cost::Take(4)));
        let keep = |units, secret| {
            let new = NewReservation {
                secret,
                lifetime: Span::HOUR,
                memo: b"",
            };
            let charges = [shadow(Cost::Take(units)), other(Cost::Take(units))];
            let kept = redis
                .runtime
                .block_on(redis.store.reserve_kept(&charges, &new));
            kept.unwrap_or_else(|error| panic!("{error}: {limit:?}"))
        };
        // Two units are free beside the reservation.
        let exceeded = keep(3, 1);
        assert!(exceeded.verdict.is_allowed(), "{limit:?}");
        let [judged, charged] = &exceeded.verdict.decisions[..] else {
            panic!("{exceeded:?}");
        };
        assert!(!judged.is_allowed(), "{limit:?}");
        assert_eq!(charged.remaining(), 7, "{limit:?}");
        let fits = keep(2, 2);
        assert!(
            fits.verdict.decisions.iter().all(Decision::is_allowed),
            "{limit:?}"
        );
        // The first one is charged to the other limit only, and so is its settlement.
        let line = |line, cost| SettledCharge {
            line,
            charge: [shadow(cost), other(cost)][line],
        };
        let lines = [0, 1].map(|place| line(place, Cost::Take(0)));
        let record = exceeded.reservation.expect("it is allowed");
        let settled = redis
            .runtime
            .block_on(redis.store.settle_kept(record, &lines));
        let settled = settled.expect("Redis answers").expect("it is not settled");
        assert_eq!([settled[0].charged, settled[1].charged], [0, 0]);
        assert_eq!(
            redis.release(now, name, shadow(Cost::Take(4))),
            Status::Allowed
        );
        let peeks = [shadow(Cost::Peek(1)), other(Cost::Peek(1))];
        let left = redis.decide(now, &peeks).decisions;
        assert_eq!(
            [left[0].remaining(), left[1].remaining()],
            [4, 8],
            "{limit:?}"
        );
    }
}
