//! Reservations that clients settle: Redis charges and refunds what the store in memory does.

use std::sync::Arc;
use std::task::{Context, Poll};

use tollgate_behaviour::{Random, Subject, Taste, check, with_grain};
use tollgate_core::{
    Charge, Cost, Decision, Key, Limit, Mode, NewReservation, Now, Reserved, Settled,
    SettledCharge, Settlement, Sharing, Span, StoreError, Verdict,
};
use tollgate_memory::{ManualClock, Memory};
use tollgate_testbed as testbed;

use super::{CLUSTER, Driven, SINGLE, VALKEY};
use crate::config::Config;
use crate::fit::{Fitted, GRAIN};

const MEMO: &[u8] = b"what\0ever";
const UNITS_MAX: u64 = 1 << 32;

/// A reservation in both stores.
struct Twin {
    record: Key,
    reserved: Reserved,
}

/// The same limit in Redis and in memory.
struct Pair {
    redis: Driven,
    memory: Memory<Arc<ManualClock>>,
    clock: Arc<ManualClock>,
    limit: Limit,
    /// In either store.
    keys: (Key, Key),
    open: Vec<Twin>,
}

fn new(secret: u128) -> NewReservation<'static> {
    NewReservation {
        secret,
        lifetime: Span::HOUR,
        memo: MEMO,
    }
}

impl Driven {
    fn reserve(&self, charges: &[Charge<'_>], secret: u128) -> (Verdict, Option<Key>) {
        let new = new(secret);
        let reserved = self.store.reserve_kept(charges, &new);
        let reserved = self.runtime.block_on(reserved).expect("it can be kept");
        (reserved.verdict, reserved.reservation)
    }

    fn settle(&self, record: Key, charges: &[SettledCharge<'_>]) -> Settled {
        let settled = self.store.settle_kept(record, charges);
        self.runtime.block_on(settled).expect("Redis answers")
    }
}

// === impl Pair ===

impl Pair {
    fn new(mut redis: Driven, random: &mut Random) -> Pair {
        let taste = Taste::MICROSECONDS;
        let limit = taste.rule(random).limit;
        let limit = Fitted::new(&limit).expect("the taste's limits fit").limit;
        let clock = Arc::new(ManualClock::at(taste.start.utc));
        let memory = Memory::builder().max_keys(10).clock(Arc::clone(&clock));
        let memory = memory.limits(&[limit]).build();
        Pair {
            keys: (redis.key("only"), memory.key_of("only")),
            redis,
            memory,
            clock,
            limit,
            open: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        tollgate_core::Clock::now(&self.clock)
    }

    fn act(&mut self, random: &mut Random) {
        // Up to half a window: some of what was charged has left, and some has not.
        let window = self.limit.window().as_nanos() / GRAIN.as_nanos();
        let most = random.pick(&[0, 8, window / 8, window / 2]);
        let passed = random.between(0, most);
        self.clock.advance(GRAIN.times(passed));
        let micros = self.now().monotonic.as_nanos() / GRAIN.as_nanos();
        self.redis.store.set_now(micros);
        match random.between(0, 3) {
            0 => self.take(Taste::MICROSECONDS.cost(&self.limit, random)),
            1 if !self.open.is_empty() => self.settle(random),
            _ => self.reserve(random),
        }
    }

    fn charges(&self, cost: Cost) -> (Charge<'_>, Charge<'_>) {
        let of = |key| Charge::new(key, &self.limit, cost);
        (of(self.keys.0), of(self.keys.1))
    }

    fn take(&mut self, cost: Cost) {
        let now = self.now();
        let (limit, keys) = (self.limit, self.keys);
        let got = self.redis.decide(now, &[Charge::new(keys.0, &limit, cost)]);
        let charge = Charge::new(keys.1, &limit, cost);
        let want = self.memory.decide_now(&[charge]).expect("one charge");
        assert_eq!(got, with_grain(want, GRAIN), "{cost:?} of {limit:?}");
    }

    /// Reserves up to all of the limit in both stores, and finds it again in Redis.
    fn reserve(&mut self, random: &mut Random) {
        let most = u64::from(self.limit.capacity());
        let cost = Cost::Take(random.any_size(most));
        let (ours, theirs) = self.charges(cost);
        let (got, record) = self.redis.reserve(&[ours], u128::from(random.word()));
        let want = self.memory.decide_timed(&[theirs]);
        let (want, now) = want.expect("one charge");
        let Decision::Allow(grant) = want.decisions[0] else {
            assert_eq!((got, record), (with_grain(want, GRAIN), None));
            return;
        };
        let reserved = Reserved::new(&theirs, &grant, now);
        assert_eq!(got, with_grain(want, GRAIN), "{cost:?}: {:?}", self.limit);
        let record = record.expect("it is allowed");
        let found = self.redis.store.find_kept(record);
        let found = self.redis.runtime.block_on(found).expect("Redis answers");
        let found = found.expect("it was kept");
        assert_eq!(found.charged, [(0, cost.units())]);
        assert_eq!(found.memo, MEMO);
        self.open.push(Twin { record, reserved });
    }

    fn settle(&mut self, random: &mut Random) {
        let index = usize::try_from(random.word() % 1_000).expect("it is small") % self.open.len();
        let Twin { record, reserved } = self.open.swap_remove(index);
        let actual = random.any_size(2 * u64::from(self.limit.capacity()));
        let (charge, theirs) = self.charges(Cost::Take(actual));
        let line = SettledCharge { line: 0, charge };
        let got = self.redis.settle(record, &[line]);
        let want = self.memory.settle_reserved(&theirs, &reserved, actual);
        let want = want.expect("nobody else is there");
        let limit = &self.limit;
        assert_eq!(
            got,
            Some(vec![want]),
            "{actual} for {reserved:?} of {limit:?}"
        );
        assert_eq!(self.redis.settle(record, &[line]), None, "once");
    }
}

fn agree_on(config: impl Fn() -> Config, cases: u64) {
    check("reservations in Redis and in memory", cases, |random| {
        let mut pair = Pair::new(Driven::new(&config()), random);
        for _ in 0..60 {
            pair.act(random);
        }
    });
}

#[test]
fn redis_and_memory_settle_alike() {
    agree_on(|| Config::single(SINGLE.address()), 150);
}

#[test]
fn valkey_and_memory_settle_alike() {
    agree_on(|| Config::single(VALKEY.address()), 30);
}

#[test]
fn a_cluster_and_memory_settle_alike() {
    agree_on(|| Config::cluster(CLUSTER.addresses()), 30);
}

/// Of a bucket, what has refilled is not refunded, although others have consumed units since.
#[test]
fn a_bucket_refunds_nothing_that_has_refilled() {
    let mut redis = Driven::new(&Config::single(SINGLE.address()));
    let limit = Limit::token_bucket(10, Span::SECOND).expect("a limit");
    let key = redis.key("refilled");
    let charge = |units| Charge::new(key, &limit, Cost::Take(units));
    let start = Taste::MICROSECONDS.start.utc;
    redis.store.set_now(start.as_nanos() / 1_000);
    let (_, record) = redis.reserve(&[charge(10)], 5);
    let later = start + Span::from_millis(600);
    assert!(redis.decide(Now::at(later), &[charge(6)]).is_allowed());
    let line = SettledCharge {
        line: 0,
        charge: charge(0),
    };
    let settled = redis.settle(record.expect("it is allowed"), &[line]);
    assert_eq!(settled, Some(vec![Settlement::new(6, 4)]));
}

/// Every line of a request whose keys share a slot.
#[test]
fn all_limits_of_a_request_are_settled_at_once() {
    for config in [
        Config::single(SINGLE.address()),
        Config::cluster(CLUSTER.addresses()),
    ] {
        let mut redis = Driven::new(&config);
        redis.store.set_now(1_000_000_000_000);
        let hour = Limit::fixed_window(100, Span::HOUR).expect("a limit");
        let log = Limit::sliding_log(50, Span::HOUR).expect("a limit");
        let [one, other] = ["one", "other"].map(|name| redis.key(name));
        let cost = Cost::Take(20);
        let charges = [
            Charge::new(one, &hour, cost),
            Charge::new(other, &log, cost),
            Charge::new(one, &hour, cost),
        ];
        let (verdict, record) = redis.reserve(&charges, 7);
        assert!(verdict.is_allowed());
        let record = record.expect("it is allowed");
        // The second line was removed from the rules meanwhile.
        let charge = Charge::new(one, &hour, Cost::Take(10));
        let settled = redis.settle(record, &[SettledCharge { line: 0, charge }]);
        assert_eq!(settled, Some(vec![Settlement::new(10, 90)]));
        let (_, record) = redis.reserve(&charges, 8);
        let settled = [(1, other, &log), (0, one, &hour)].map(|(line, key, limit)| {
            let charge = Charge::new(key, limit, Cost::Take(UNITS_MAX));
            SettledCharge { line, charge }
        });
        let settled = redis.settle(record.expect("it is allowed"), &settled);
        let expected = vec![Settlement::new(30, 0), Settlement::new(90, 0)];
        assert_eq!(settled, Some(expected));
        // A request that met no limit has a reservation as well.
        let (_, record) = redis.reserve(&[], 9);
        let record = record.expect("it is allowed");
        assert_eq!(redis.settle(record, &[]), Some(vec![]));
        assert_eq!(redis.settle(record, &[]), None);
    }
}

#[test]
fn what_redis_cannot_keep_is_an_error_and_charges_nothing() {
    let mut apart = Driven::apart();
    apart.store.set_now(1_000_000_000_000);
    let limit = Limit::fixed_window(100, Span::HOUR).expect("a limit");
    let [one, other] = ["one", "other"].map(|name| apart.key(name));
    let one = Charge::new(one, &limit, Cost::Take(10));
    let other = Charge::new(other, &limit, Cost::Take(10));
    let written_back = one.shared(Sharing::in_mode(Mode::WriteBack));
    for charges in [&[one, other][..], &[written_back]] {
        let new = new(7);
        let reserved = apart.store.reserve_kept(charges, &new);
        let error = apart
            .runtime
            .block_on(reserved)
            .expect_err("cannot be kept");
        assert!(matches!(error, StoreError::Unfit { .. }), "{error:?}");
    }
    let peek = Charge::new(one.key, &limit, Cost::Peek(1));
    let now = Now::at(Taste::MICROSECONDS.start.utc);
    assert_eq!(apart.decide(now, &[peek]).decisions[0].remaining(), 100);
}

/// Names of counters are hashes without a secret, so anybody can find them.
#[test]
fn a_counter_is_no_reservation() {
    let mut redis = Driven::new(&Config::single(SINGLE.address()));
    let limit = Limit::fixed_window(100, Span::HOUR).expect("a limit");
    let key = redis.key("counter");
    let now = Taste::MICROSECONDS.start;
    let charge = Charge::new(key, &limit, Cost::Take(10));
    assert!(redis.decide(now, &[charge]).is_allowed());
    let found = redis.store.find_kept(key);
    assert_eq!(redis.runtime.block_on(found).expect("Redis answers"), None);
    assert_eq!(redis.settle(key, &[]), None);
    let peek = Charge::new(key, &limit, Cost::Peek(1));
    assert_eq!(redis.decide(now, &[peek]).decisions[0].remaining(), 90);
}

/// Leased units are charged already; the refund is of the reservation's own.
#[test]
fn a_leased_limit_is_reserved_and_settled() {
    let mut redis = Driven::new(&Config::single(SINGLE.address()));
    let limit = Limit::fixed_window(1_000, Span::HOUR).expect("a limit");
    let key = redis.key("leased");
    let leased = |cost| Charge::new(key, &limit, cost).shared(Sharing::in_mode(Mode::Leased));
    let now = Taste::MICROSECONDS.start;
    for _ in 0..6 {
        assert!(redis.decide(now, &[leased(Cost::ONE)]).is_allowed());
    }
    assert!(redis.store.counts().leases_held > 0);
    let (verdict, record) = redis.reserve(&[leased(Cost::Take(100))], 3);
    assert!(verdict.is_allowed());
    let charge = leased(Cost::Take(40));
    let settled = redis.settle(
        record.expect("it is allowed"),
        &[SettledCharge { line: 0, charge }],
    );
    assert_eq!(settled.expect("it was kept")[0].charged, 40);
    redis.runtime.block_on(redis.store.close());
    let other = Driven::new(&Config::single(SINGLE.address()));
    let mut other = other;
    let peek = Charge::new(key, &limit, Cost::Peek(1));
    assert_eq!(
        other.decide(now, &[peek]).decisions[0].remaining(),
        1_000 - 46
    );
}

/// A settlement whose caller goes away happens, or can be repeated; not both.
#[test]
fn a_settlement_that_is_cancelled_at_any_time_happens_at_most_once() {
    let mut redis = Driven::new(&Config {
        connections: 1,
        ..Config::single(SINGLE.address())
    });
    let limit = Limit::sliding_log(100, Span::HOUR).expect("a limit");
    let key = redis.key("cancelled");
    let now = Taste::MICROSECONDS.start;
    redis.store.set_now(now.utc.as_nanos() / 1_000);
    let (mut repeated, mut happened) = (0, 0);
    for polls in 0..200 {
        let charge = Charge::new(key, &limit, Cost::Take(40));
        let (_, record) = redis.reserve(&[charge], polls);
        let record = record.expect("it is allowed");
        let charge = Charge::new(key, &limit, Cost::Take(0));
        let lines = [SettledCharge { line: 0, charge }];
        let (store, lines) = (&redis.store, &lines);
        redis.runtime.block_on(async {
            let mut settling = Box::pin(store.settle_kept(record, lines));
            for _ in 0..polls % 5 {
                let poll = |context: &mut Context<'_>| Poll::Ready(settling.as_mut().poll(context));
                if std::future::poll_fn(poll).await.is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        });
        match redis.settle(record, lines) {
            Some(_) => repeated += 1,
            None => happened += 1,
        }
        let peek = Charge::new(key, &limit, Cost::Peek(1));
        let decision = redis.decide(now, &[peek]).decisions[0];
        assert_eq!(decision.remaining(), 100, "{polls}");
    }
    assert!(repeated > 0 && happened > 0, "{repeated}, {happened}");
}

#[test]
fn of_two_instances_that_settle_at_once_one_does() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let mut one = Driven::new(&config);
    let limit = Limit::fixed_window(100, Span::HOUR).expect("a limit");
    let key = one.key("raced");
    let now = Taste::MICROSECONDS.start;
    one.store.set_now(now.utc.as_nanos() / 1_000);
    for round in 0..100 {
        let charge = Charge::new(key, &limit, Cost::Take(40));
        let (_, record) = one.reserve(&[charge], round);
        let record = record.expect("it is allowed");
        let settled = std::thread::scope(|scope| {
            let settle = || {
                let config = &config;
                scope.spawn(move || {
                    let other = Driven::new(config);
                    other.store.set_now(now.utc.as_nanos() / 1_000);
                    let charge = Charge::new(key, &limit, Cost::Take(0));
                    let line = SettledCharge { line: 0, charge };
                    usize::from(other.settle(record, &[line]).is_some())
                })
            };
            let threads = [settle(), settle()];
            let settled = threads.map(|thread| thread.join().expect("it does not panic"));
            settled.iter().sum::<usize>()
        });
        assert_eq!(settled, 1);
    }
    let peek = Charge::new(key, &limit, Cost::Peek(1));
    assert_eq!(one.decide(now, &[peek]).decisions[0].remaining(), 100);
}
