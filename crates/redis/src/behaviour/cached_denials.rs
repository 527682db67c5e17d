//! A denial that this instance has cached, and charges of the same key that it makes later, in
//! whatever way: the next denial and a peek count them.

use std::future::poll_fn;
use std::task::Poll;

use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{
    Charge, Cost, Key, Limit, Mode, NewReservation, OnDenial, Sharing, Span, Wait,
};

use super::{CLUSTER, Driven, SINGLE};
use crate::config::Config;
use crate::denials::DENIAL_CACHE_MAX;
use crate::store::under_test::TimedRedis;

/// So many keys that they are on several nodes of the Cluster.
const KEYS: usize = 24;

/// A bucket that refills a unit in 36 s: none while a test runs.
fn limit() -> Limit {
    Limit::token_bucket(100, Span::HOUR).expect("an hour is a window")
}

/// A store in a Cluster, with every key in a different slot, or with one server.
fn instance(crosses_slots: bool) -> Driven {
    let config = Config {
        connections: 1,
        ..match crosses_slots {
            true => Config::cluster(CLUSTER.addresses()),
            false => Config::single(SINGLE.address()),
        }
    };
    let instance = Driven {
        crosses_slots,
        ..Driven::connect(&config, TimedRedis::connect_with_caches)
    };
    let now = Taste::MICROSECONDS.start;
    instance.store.set_now(now.utc.as_nanos() / 1_000);
    instance
}

const fn take(key: Key, limit: &Limit, units: u64) -> Charge<'_> {
    Charge::new(key, limit, Cost::Take(units))
}

impl Driven {
    /// Has a key of which 10 units are left deny 30, and caches that.
    fn cache_denial(&mut self, key: Key, limit: &Limit) {
        let now = Taste::MICROSECONDS.start;
        assert!(self.decide(now, &[take(key, limit, 90)]).is_allowed());
        let denied = self.decide(now, &[take(key, limit, 30)]);
        assert_eq!(denied.decisions[0].remaining(), 10);
        assert!(self.store.caches_denial_of(key));
    }

    /// Reserves what a charge takes.
    fn reserve_units(&mut self, charge: Charge<'_>) {
        let new = NewReservation {
            secret: 5,
            lifetime: Span::HOUR,
            memo: b"",
        };
        let charges = [charge];
        let reserved = self.store.reserve_kept(&charges, &new);
        let reserved = self.runtime.block_on(reserved).expect("Redis answers");
        assert!(reserved.verdict.is_allowed());
    }

    /// Whether denials and peeks find this many units, and say when there are 30.
    fn assert_left(&mut self, key: Key, limit: &Limit, left: u32, after: &str) {
        let interval = limit.interval().expect("a bucket has one");
        let latest = interval.times(u64::from(30 - left));
        // The second one is denied by the cache, which advances by the local clock.
        let earliest = latest.minus(DENIAL_CACHE_MAX);
        for cost in [Cost::Take(30), Cost::Peek(30)] {
            let charge = Charge::new(key, limit, cost);
            let denied = self.decide(Taste::MICROSECONDS.start, &[charge]);
            let denied = denied.decisions[0];
            assert_eq!(denied.remaining(), left, "{after}, {cost:?}");
            let is_exact = matches!(denied.wait(), Some(Wait::For(wait))
                if wait > earliest && wait <= latest);
            assert!(is_exact, "{after}, {cost:?}: {denied:?}");
        }
    }
}

#[test]
fn a_charge_of_one_limit_is_counted_in_every_mode() {
    let (now, limit) = (Taste::MICROSECONDS.start, limit());
    for mode in [Mode::Strict, Mode::Leased, Mode::WriteBack] {
        let mut instance = instance(false);
        let key = instance.key("only");
        instance.cache_denial(key, &limit);
        let charge = take(key, &limit, 3).shared(Sharing::in_mode(mode));
        // The first one in `write_back` is decided by Redis, the second one here.
        assert!(instance.decide(now, &[charge]).is_allowed());
        assert!(instance.decide(now, &[charge]).is_allowed());
        instance.assert_left(key, &limit, 4, &format!("{mode:?}"));
    }
}

#[test]
fn a_charge_of_several_limits_is_counted() {
    let (now, limit) = (Taste::MICROSECONDS.start, limit());
    for (crosses_slots, others) in [(false, 1), (true, 1), (true, KEYS)] {
        let mut instance = instance(crosses_slots);
        let key = instance.key("only");
        instance.cache_denial(key, &limit);
        let mut charges = vec![take(key, &limit, 6)];
        let others = (0..others).map(|other| instance.key(&other.to_string()));
        let others: Vec<Key> = others.collect();
        charges.extend(others.iter().map(|other| take(*other, &limit, 1)));
        assert!(instance.decide(now, &charges).is_allowed());
        instance.assert_left(key, &limit, 4, &format!("{} limits", charges.len()));
    }
}

/// In `leased`, what is left of a key that has nothing to lease is estimated by the decisions that
/// this instance asks for on it alone. Other charges are not among them.
#[test]
fn an_estimate_does_not_outlast_another_charge() {
    let (now, limit) = (Taste::MICROSECONDS.start, limit());
    let leased = |key, units| take(key, &limit, units).shared(Sharing::in_mode(Mode::Leased));
    for (way, left) in [("several", 4), ("reserved", 4), ("charged denial", 0)] {
        let mut instance = instance(false);
        let [key, other] = ["only", "other"].map(|name| instance.key(name));
        instance.cache_denial(key, &limit);
        // The second one leases nothing, and after that, none tries to for a while.
        for _ in 0..2 {
            instance.store.forget_denial(key);
            assert!(!instance.decide(now, &[leased(key, 30)]).is_allowed());
        }
        match way {
            "several" => {
                let charges = [take(key, &limit, 6), take(other, &limit, 1)];
                assert!(instance.decide(now, &charges).is_allowed());
            }
            "reserved" => instance.reserve_units(leased(key, 6)),
            _ => {
                let charged = Charge {
                    on_denial: OnDenial::Charge,
                    ..leased(key, 11)
                };
                assert!(!instance.decide(now, &[charged]).is_allowed());
            }
        }
        let denied = instance.decide(now, &[leased(key, 30)]);
        assert_eq!(denied.decisions[0].remaining(), left, "{way}");
    }
}

#[test]
fn a_denial_that_is_charged_is_counted() {
    let (now, limit) = (Taste::MICROSECONDS.start, limit());
    let mut instance = instance(false);
    let key = instance.key("only");
    instance.cache_denial(key, &limit);
    let charged = Charge {
        on_denial: OnDenial::Charge,
        ..take(key, &limit, 11)
    };
    assert!(!instance.decide(now, &[charged]).is_allowed());
    instance.assert_left(key, &limit, 0, "a charged denial");
}

#[test]
fn a_reservation_is_counted() {
    let limit = limit();
    let mut instance = instance(false);
    let key = instance.key("only");
    instance.cache_denial(key, &limit);
    instance.reserve_units(take(key, &limit, 6));
    instance.assert_left(key, &limit, 4, "a reservation");
}

/// What one instance has counted locally is charged by its report, which leaves the denial of
/// another limit's mode with the same key behind.
#[test]
fn a_report_is_counted() {
    let (now, limit) = (Taste::MICROSECONDS.start, limit());
    let mut instance = instance(false);
    let key = instance.key("only");
    let counted = take(key, &limit, 3).shared(Sharing::in_mode(Mode::WriteBack));
    assert!(instance.decide(now, &[counted]).is_allowed());
    assert!(instance.decide(now, &[counted]).is_allowed());
    let strict = take(key, &limit, 0);
    instance.store.cache_denial(&strict);
    instance.report();
    assert!(!instance.store.caches_denial_of(key));
    instance.store.cache_denial(&strict);
    instance.report();
    assert!(instance.store.caches_denial_of(key), "nothing was reported");
}

/// Units that are leased in the background are charged too.
#[test]
fn a_lease_that_is_renewed_in_the_background_is_counted() {
    let (now, limit) = (Taste::MICROSECONDS.start, limit());
    let mut instance = instance(false);
    let key = instance.key("only");
    let one = take(key, &limit, 1).shared(Sharing::in_mode(Mode::Leased));
    while instance.store.counts().lease_decisions < 2 {
        assert!(instance.decide(now, &[one]).is_allowed());
    }
    let later = (now.utc + Span::from_millis(9_500)).as_nanos() / 1_000;
    instance.store.set_now(later);
    instance.store.cache_denial(&one);
    let leased = instance.store.counts().units_leased;
    let renewed = instance.store.renew_due_leases();
    instance.runtime.block_on(renewed);
    assert!(instance.store.counts().units_leased > leased);
    assert!(!instance.store.caches_denial_of(key));
}

/// Denials were decided before a charge, and their replies are read after that of the charge: they
/// are not cached.
#[test]
fn a_denial_from_before_a_charge_is_not_cached_after_it() {
    let limit = limit();
    for cost in [Cost::Take(30), Cost::Peek(30)] {
        let mut instance = instance(false);
        let key = instance.key("only");
        let now = Taste::MICROSECONDS.start;
        let first = [take(key, &limit, 90)];
        assert!(instance.decide(now, &first).is_allowed());
        let (denied, allowed) = ([Charge::new(key, &limit, cost)], [take(key, &limit, 6)]);
        let store = &instance.store;
        instance.runtime.block_on(async {
            let mut denied = Box::pin(store.decide(&denied));
            let mut allowed = Box::pin(store.decide(&allowed));
            poll_fn(|context| {
                assert!(denied.as_mut().poll(context).is_pending());
                assert!(allowed.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            assert!(allowed.await.expect("Redis answers").is_allowed());
            let denied = denied.await.expect("Redis answers");
            assert!(!denied.is_allowed(), "10 units are left");
        });
        instance.assert_left(key, &limit, 4, "a charge that overtook a denial");
    }
}

/// Redis charges a request whose caller has gone.
#[test]
fn a_charge_whose_caller_has_gone_is_counted() {
    let (limit, mut instance) = (limit(), instance(false));
    let key = instance.key("only");
    instance.cache_denial(key, &limit);
    let charges = [take(key, &limit, 6)];
    let calls = instance.store.counts().calls;
    instance.runtime.block_on(async {
        let mut charged = Box::pin(instance.store.decide(&charges));
        while instance.store.counts().calls == calls {
            poll_fn(|context| {
                assert!(charged.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
    });
    instance.assert_left(key, &limit, 4, "a charge without a caller");
}

/// A denial or a peek charges nothing: what is cached remains.
#[test]
fn a_denial_and_a_peek_leave_a_cached_denial() {
    let (now, limit) = (Taste::MICROSECONDS.start, limit());
    let mut instance = instance(false);
    let [key, other] = ["only", "other"].map(|name| instance.key(name));
    instance.cache_denial(key, &limit);
    for cost in [Cost::Take(30), Cost::Peek(3), Cost::Take(0)] {
        let charge = Charge::new(key, &limit, cost);
        let _verdict = instance.decide(now, &[charge]);
        let _verdict = instance.decide(now, &[charge, take(other, &limit, 101)]);
        assert!(instance.store.caches_denial_of(key), "{cost:?}");
    }
}
