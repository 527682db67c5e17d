//! Units that are returned by a task, because its caller has gone or knows nothing of it: a denial
//! that was cached meanwhile does not outlast that.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::task::yield_now;
use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{
    Charge, Cost, InspectStore, Key, Limit, Mode, NewReservation, SettledCharge, Sharing, Span,
};

use crate::behaviour::{CLUSTER, Driven, SINGLE};
use crate::config::Config;
use crate::store::under_test::TimedRedis;

/// More round trips than any decision here takes.
const ROUND_TRIPS: usize = 20;
/// So many keys that they are on several nodes of the Cluster.
const KEYS: usize = 24;
/// How often a test is begun again that needs replies one after the other.
const ATTEMPTS_MAX: usize = 50;

/// A bucket that refills one unit a day.
fn limit() -> Limit {
    let limit = Limit::token_bucket(1, Span::DAY).and_then(|limit| limit.with_burst(100));
    limit.expect("a day is a window")
}

fn alone() -> Driven {
    let config = Config {
        connections: 1,
        ..Config::single(SINGLE.address())
    };
    at_start(Driven::connect(&config, TimedRedis::connect_with_caches))
}

/// A store in a Cluster, with every key in a different slot.
fn apart(connect: fn(&Config) -> Result<TimedRedis, crate::config::InvalidConfig>) -> Driven {
    let config = Config {
        connections: 1,
        ..Config::cluster(CLUSTER.addresses())
    };
    at_start(Driven {
        crosses_slots: true,
        ..Driven::connect(&config, connect)
    })
}

fn at_start(redis: Driven) -> Driven {
    let now = Taste::MICROSECONDS.start;
    redis.store.set_now(now.utc.as_nanos() / 1_000);
    redis
}

impl Driven {
    /// Polls a call once, and drops it.
    fn begin_and_go<T>(&self, call: impl Future<Output = T>) {
        self.runtime.block_on(async {
            let mut call = Box::pin(call);
            poll_fn(|context| {
                assert!(call.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
        });
    }

    /// Polls until this many calls were sent; whether no further one was.
    async fn poll_until<T>(
        &self,
        call: &mut (impl Future<Output = T> + Unpin),
        calls: u64,
    ) -> bool {
        let before = self.store.counts().calls;
        while self.store.counts().calls < before + calls {
            poll_fn(|context| {
                assert!(Pin::new(&mut *call).poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            yield_now().await;
        }
        self.store.counts().calls == before + calls
    }

    /// Lets the calls in flight end.
    fn finish(&self, keys: &[Key]) {
        self.runtime.block_on(async {
            for _ in 0..ROUND_TRIPS {
                for key in keys {
                    // On the same connection, after what was sent before.
                    let found = self.store.find_kept(*key).await;
                    assert_eq!(found.expect("Redis answers"), None);
                }
            }
        });
    }

    /// Of how many keys a denial is cached, for however long.
    fn cached_denials(&self, keys: &[Key]) -> usize {
        let cached = keys.iter().filter(|key| self.store.caches_denial_of(**key));
        cached.count()
    }

    /// Caches denials of these keys, as of replies that arrive now.
    fn cache_denials(&self, keys: &[Key]) {
        let limit = limit();
        for key in keys {
            let one = Charge::new(*key, &limit, Cost::ONE);
            self.store.cache_denial(&one);
        }
    }
}

#[test]
fn a_refund_whose_caller_has_gone_drops_a_denial_from_before() {
    let (mut redis, limit) = (alone(), limit());
    let keys = ["one", "other"].map(|name| redis.key(name));
    // One limit and several.
    for refunded in [&keys[..1], &keys[..]] {
        let charge = |key: &Key| Charge::new(*key, &limit, Cost::Refund(1));
        let charges: Vec<Charge<'_>> = refunded.iter().map(charge).collect();
        redis.begin_and_go(redis.store.decide(&charges));
        redis.cache_denials(refunded);
        redis.finish(&keys);
        assert_eq!(redis.cached_denials(refunded), 0, "{refunded:?}");
    }
    redis.cache_denials(&keys);
    assert_eq!(redis.cached_denials(&keys), 2, "nothing was refunded since");
}

#[test]
fn a_refund_of_leased_units_whose_caller_has_gone_drops_a_denial_from_before() {
    let (mut redis, limit) = (alone(), limit());
    let key = redis.key("leased");
    let charge = |cost| Charge::new(key, &limit, cost).shared(Sharing::in_mode(Mode::Leased));
    let one = [charge(Cost::ONE)];
    while redis.store.counts().leases_held == 0 {
        assert!(redis.decide(Taste::MICROSECONDS.start, &one).is_allowed());
    }
    let refund = [charge(Cost::Refund(1))];
    assert!(!redis.decide_and_go(&refund, 1));
    redis.cache_denials(&[key]);
    redis.finish(&[key]);
    assert_eq!(redis.cached_denials(&[key]), 0);
}

#[test]
fn a_lease_that_is_returned_drops_a_denial_from_before() {
    let (mut redis, limit) = (alone(), limit());
    let key = redis.key("returned");
    let one = [Charge::new(key, &limit, Cost::ONE).shared(Sharing::in_mode(Mode::Leased))];
    while redis.store.counts().leases_held == 0 {
        assert!(redis.decide(Taste::MICROSECONDS.start, &one).is_allowed());
    }
    redis.runtime.block_on(async {
        let mut closing = Box::pin(redis.store.close());
        redis.poll_until(&mut closing, 1).await;
        redis.cache_denials(&[key]);
        closing.await;
    });
    assert_eq!(redis.cached_denials(&[key]), 0);
}

#[test]
fn a_settlement_whose_caller_has_gone_drops_a_denial_from_before() {
    let (mut redis, limit) = (alone(), limit());
    let key = redis.key("settled");
    let charge = |units| Charge::new(key, &limit, Cost::Take(units));
    let new = NewReservation {
        secret: 6,
        lifetime: Span::HOUR,
        memo: b"",
    };
    let reserved = [charge(9)];
    let reserved = redis.store.reserve_kept(&reserved, &new);
    let reserved = redis.runtime.block_on(reserved).expect("Redis answers");
    let record = reserved.reservation.expect("it is allowed");
    let lines = [SettledCharge {
        line: 0,
        charge: charge(3),
    }];
    redis.begin_and_go(redis.store.settle_kept(record, &lines));
    redis.cache_denials(&[key]);
    redis.finish(&[key, record]);
    assert_eq!(redis.cached_denials(&[key]), 0);
}

#[test]
fn a_reset_whose_caller_has_gone_drops_a_denial_from_before() {
    let mut redis = alone();
    let key = redis.key("reset");
    redis.begin_and_go(redis.store.reset(key));
    redis.cache_denials(&[key]);
    redis.finish(&[key]);
    assert_eq!(redis.cached_denials(&[key]), 0);
}

/// The requests of a round over several slots have a refund each, and their caller goes away while
/// it is in flight.
#[test]
fn a_round_whose_caller_has_gone_drops_a_denial_from_before() {
    let (mut redis, limit) = (apart(TimedRedis::connect_with_caches), limit());
    let keys: Vec<Key> = (0..KEYS).map(|name| redis.key(&name.to_string())).collect();
    let charge = |key: &Key| Charge::new(*key, &limit, Cost::Refund(1));
    let charges: Vec<Charge<'_>> = keys.iter().map(charge).collect();
    assert!(!redis.decide_and_go(&charges, 1));
    redis.cache_denials(&keys);
    redis.finish(&keys);
    assert_eq!(redis.cached_denials(&keys), 0);
}

/// A round has charged a slot immediately, and the reservations in the others have expired: what it
/// was charged is refunded.
#[test]
fn a_round_that_is_undone_drops_a_denial_from_before() {
    let (mut redis, limit) = (apart(TimedRedis::connect_at_once_with_caches), limit());
    let later = Taste::MICROSECONDS.start.utc + Span::HOUR;
    let is_undone = (0..ATTEMPTS_MAX).any(|attempt| {
        let keys = (0..KEYS).map(|name| redis.key(&format!("{attempt} {name}")));
        let keys: Vec<Key> = keys.collect();
        let charge = |key: &Key| Charge::new(*key, &limit, Cost::Take(2));
        let charges: Vec<Charge<'_>> = keys.iter().map(charge).collect();
        let is_undone = redis.runtime.block_on(async {
            let mut asking = Box::pin(redis.store.decide(&charges));
            // Each of the three nodes has reserved, and one is called again. If replies come
            // together, others are as well, and the round is not undone.
            if !redis.poll_until(&mut asking, 4).await {
                let decided = asking.await;
                assert!(decided.is_ok(), "{decided:?}");
                return false;
            }
            redis.store.set_now(later.as_nanos() / 1_000);
            redis.cache_denials(&keys);
            let decided = asking.await;
            assert!(decided.is_err(), "{decided:?}");
            true
        });
        assert!(!is_undone || redis.cached_denials(&keys) == 0);
        is_undone
    });
    assert!(is_undone, "the replies always came together");
}
