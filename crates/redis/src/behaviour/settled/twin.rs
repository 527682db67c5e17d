//! The same random requests and settlements in Redis and in memory.

use std::sync::Arc;

use tollgate_behaviour::{Random, Subject, Taste, check, with_grain};
use tollgate_core::{Charge, Clock, Cost, Decision, Key, Limit, Now, Reserved, SettledCharge};
use tollgate_memory::{ManualClock, Memory};

use super::MEMO;
use crate::behaviour::{CLUSTER, Driven, SINGLE, VALKEY};
use crate::config::Config;
use crate::fit::{FittedLimit, GRAIN};

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
    /// The key in either store.
    keys: (Key, Key),
    open: Vec<Twin>,
}

// === impl Pair ===

impl Pair {
    fn new(mut redis: Driven, random: &mut Random) -> Pair {
        let taste = Taste::MICROSECONDS;
        let limit = taste.rule(random).limit;
        let limit = FittedLimit::new(&limit)
            .expect("the taste's limits fit")
            .limit;
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
        self.clock.now()
    }

    fn act(&mut self, random: &mut Random) {
        // Up to half a window: some of the charged units have left it, and some have not.
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

    /// Reserves up to all of the limit in both stores, and finds the reservation again in Redis.
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
