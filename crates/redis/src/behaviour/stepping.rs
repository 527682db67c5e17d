//! A clock of Redis that is set, back and forth, under instances that hold leased units or count
//! locally. Their own clocks never go back.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_behaviour::{Random, Rule, Subject, Taste, check};
use tollgate_core::{
    Algorithm, Charge, Cost, Key, Ledger, Limit, Mode, Moment, Now, Sharing, Span, Verdict, Wait,
};

use super::{Driven, SINGLE};
use crate::config::{Config, SYNC_INTERVAL_MAX};
use crate::fit::GRAIN;
use crate::leases::LASTS;
use crate::store::under_test::TimedRedis;

/// Steps of one trace: enough to lease, to renew and to run out.
const STEPS: usize = 80;
/// How often a step sets the clock, in percent.
const SETS: u64 = 5;

/// Instances, and two clocks.
struct Clocks {
    instances: Vec<Driven>,
    /// The time that has passed.
    passed: Moment,
    /// What Redis takes for it.
    redis: Moment,
}

// === impl Clocks ===

impl Clocks {
    fn new(instances: usize) -> Clocks {
        let start = Taste::MICROSECONDS.start.utc;
        Clocks {
            instances: (0..instances).map(|_| Clocks::instance()).collect(),
            passed: start,
            redis: start,
        }
    }

    /// An instance that reports local counts when the test says so.
    fn instance() -> Driven {
        let config = Config {
            sync_interval: SYNC_INTERVAL_MAX,
            ..Config::single(SINGLE.address())
        };
        Driven::connect(&config, TimedRedis::connect_without_count_time)
    }

    fn pass(&mut self, span: Span) {
        self.passed = self.passed + span;
        self.redis = self.redis + span;
        for instance in &self.instances {
            let [own, redis] = [self.passed, self.redis].map(|now| now.as_nanos() / 1_000);
            instance.store.set_clocks(own, redis);
        }
    }

    /// Sets the clock of Redis.
    fn set(&mut self, random: &mut Random, is_back: bool) {
        let unit = random.pick(&[GRAIN, Span::from_millis(1), Span::SECOND, Span::HOUR]);
        let step = unit.times(random.between(1, 50));
        self.redis = match is_back {
            true => self.redis - step,
            false => self.redis + step,
        };
        self.pass(Span::ZERO);
    }

    /// An instance renews and returns its leases, and reports its counts.
    fn synchronise(&self, index: usize) {
        let instance = &self.instances[index];
        instance.runtime.block_on(instance.store.renew_due_leases());
        instance.report();
    }

    /// A decision at the time that was set.
    fn decide(&self, index: usize, charge: &Charge<'_>) -> Verdict {
        let Driven { runtime, store, .. } = &self.instances[index];
        let decided = runtime.block_on(store.decide(std::slice::from_ref(charge)));
        decided.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A limit that suits the mode, large enough for leases.
fn limit(random: &mut Random, mode: Mode) -> Limit {
    let count = u32::try_from(random.between(16, 80)).expect("at most 80");
    let window = Span::from_millis(random.pick(&[300, 2_000, 9_000, 30_000]));
    let interval = GRAIN.times(window.as_nanos() / 1_000 / u64::from(count));
    let limits = [
        Limit::fixed_window(count, window),
        Limit::sliding_window(count, window, 1),
        Limit::sliding_window(count, window, 10),
        Limit::token_bucket(1, interval).and_then(|bucket| bucket.with_burst(count)),
        Limit::sliding_log(count, window),
    ];
    let limits = limits.map(|limit| limit.expect("windows are whole microseconds"));
    let suits = limits.into_iter().filter(|limit| mode.suits(limit));
    random.pick(&suits.collect::<Vec<_>>())
}

/// For how long a limit and what is shared of it are remembered.
fn memory(limit: &Limit, mode: Mode) -> Span {
    let of_limit = match limit.interval() {
        Some(interval) => interval.times(u64::from(limit.capacity())),
        None => limit.window() + limit.window(),
    };
    match mode {
        // A clock that is set back by less looks like one whose replies are late.
        Mode::WriteBack => of_limit + Span::SECOND,
        _ => of_limit + LASTS,
    }
}

/// Runs a trace in which the clock of Redis is set back, or also ahead. No denial waits for longer
/// than is remembered, and that long after Redis has seen its clock, everything is there again. Set
/// back, a clock gains a bucket nothing. Returns how many decisions were made without Redis, and
/// how many were denials.
fn trace(random: &mut Random, mode: Mode, goes_ahead: bool) -> [u64; 2] {
    // Several that count locally may over-admit.
    let mut clocks = Clocks::new(if mode == Mode::WriteBack { 1 } else { 2 });
    let limit = limit(random, mode);
    let rule = Rule {
        sharing: Sharing::in_mode(mode),
        ..Rule::new(limit)
    };
    let key = clocks.instances[0].key("only");
    // Refills by the time that has passed; a bucket in Redis by less, if its clock goes back.
    let mut ledger = Ledger::default();
    let mut denied = 0;
    let is_bucket = matches!(limit.algorithm(), Algorithm::TokenBucket);
    for step in 0..STEPS {
        let most = random.pick(&[1, 1, 50_000, 500_000]);
        clocks.pass(GRAIN.times(random.between(0, most)));
        if random.chance(SETS) {
            let is_back = !goes_ahead || random.chance(50);
            clocks.set(random, is_back);
        }
        let index = usize::from(random.chance(50)) % clocks.instances.len();
        if random.chance(20) {
            clocks.synchronise(index);
        }
        let charge = rule.charge(key, Cost::Take(random.pick(&[1, 1, 2, 5])));
        let verdict = clocks.decide(index, &charge);
        denied += u64::from(!verdict.is_allowed());
        let wait = verdict.denial.and_then(|denial| denial.wait.to_duration());
        let most = memory(&limit, mode);
        assert!(
            wait <= Some(most.into()),
            "step {step}: {wait:?} of {most}: {charge:#?}"
        );
        if is_bucket && !goes_ahead && verdict.is_allowed() {
            let strict = ledger.decide(Now::at(clocks.passed), &[charge]);
            assert!(
                strict.expect("one charge").is_allowed(),
                "step {step}: {charge:#?}"
            );
        }
    }
    let mut decided = 0;
    for Driven { runtime, store, .. } in &clocks.instances {
        runtime.block_on(store.close());
        let counts = store.counts();
        decided += counts.lease_decisions + counts.write_back_decisions;
    }
    // An instance that holds nothing.
    clocks.instances[0] = Clocks::instance();
    let peek = Rule::new(limit);
    let peek = peek.charge(key, Cost::Peek(1));
    clocks.pass(Span::ZERO);
    let _seen = clocks.decide(0, &peek);
    clocks.pass(memory(&limit, mode));
    let remaining = clocks.decide(0, &peek).decisions[0].remaining();
    assert_eq!(remaining, limit.capacity(), "{rule:#?}");
    [decided, denied]
}

fn locks_no_key(name: &'static str, mode: Mode) {
    let counts = [(); 2].map(|()| AtomicU64::new(0));
    check(name, 60, |random| {
        let goes_ahead = random.chance(50);
        for (count, more) in counts.iter().zip(trace(random, mode, goes_ahead)) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    });
    let [decided, denied] = counts.map(AtomicU64::into_inner);
    assert!(
        decided > 500 && denied > 500,
        "{decided} without Redis, {denied} denied"
    );
}

#[test]
fn a_clock_of_redis_that_steps_locks_no_leased_key() {
    locks_no_key("a_clock_that_steps_locks_no_leased_key", Mode::Leased);
}

#[test]
fn a_clock_of_redis_that_steps_locks_no_key_with_a_local_count() {
    locks_no_key("a_clock_that_steps_locks_no_local_count", Mode::WriteBack);
}

/// Up to 40 units, one of which refills in a second.
fn bucket(mode: Mode) -> Rule {
    let limit = Limit::token_bucket(1, Span::SECOND).and_then(|bucket| bucket.with_burst(40));
    Rule {
        sharing: Sharing::in_mode(mode),
        ..Rule::new(limit.expect("a limit"))
    }
}

/// What an instance counts alone is dated by its report, as if the clock had not been set.
#[test]
fn a_bucket_s_report_is_charged_exactly_after_the_clock_was_set_back() {
    let rule = bucket(Mode::WriteBack);
    for (reported, step) in [(10, Span::HOUR), (0, Span::HOUR), (10, Span::from_secs(5))] {
        let mut clocks = Clocks::new(1);
        let key = clocks.instances[0].key("only");
        let remaining = |clocks: &Clocks, cost| {
            let verdict = clocks.decide(0, &rule.charge(key, cost));
            verdict.decisions[0].remaining()
        };
        clocks.pass(Span::ZERO);
        if reported > 0 {
            remaining(&clocks, Cost::Take(reported));
            clocks.synchronise(0);
        }
        clocks.pass(Span::SECOND);
        remaining(&clocks, Cost::Take(1));
        clocks.pass(Span::SECOND);
        remaining(&clocks, Cost::Take(20));
        clocks.redis = clocks.redis - step;
        clocks.pass(Span::from_millis(500));
        clocks.synchronise(0);
        let own = remaining(&clocks, Cost::Peek(1));
        clocks.instances[0] = Clocks::instance();
        clocks.pass(Span::ZERO);
        let left = if reported > 0 { 11 } else { 20 };
        let all = [own, remaining(&clocks, Cost::Peek(1))];
        assert_eq!(all, [left; 2], "{reported} {step}");
    }
}

/// If others have charged the bucket as well, it is full of them until it has refilled, and nothing
/// is owed.
#[test]
fn a_bucket_owes_nothing_for_a_clock_that_was_set_back() {
    let mut clocks = Clocks::new(2);
    let key = clocks.instances[0].key("only");
    let decide = |clocks: &Clocks, index, mode, cost| {
        let verdict = clocks.decide(index, &bucket(mode).charge(key, cost));
        verdict.decisions[0]
    };
    clocks.pass(Span::ZERO);
    for (index, mode) in [
        (0, Mode::WriteBack),
        (1, Mode::Strict),
        (0, Mode::WriteBack),
    ] {
        let decision = decide(&clocks, index, mode, Cost::Take(10));
        assert!(decision.is_allowed());
    }
    clocks.redis = clocks.redis - Span::HOUR;
    clocks.pass(Span::from_millis(500));
    clocks.synchronise(0);
    clocks.pass(Span::from_millis(500));
    for mode in [Mode::WriteBack, Mode::Strict] {
        let denied = decide(&clocks, 0, mode, Cost::Take(1));
        let wait = denied.wait().and_then(Wait::to_duration);
        assert_eq!(wait, Some(Span::from_millis(500).into()), "{mode:?}");
    }
}

/// A bucket with 10 units of debt becomes larger, and the clock of Redis is set back: the debt is
/// no larger than the former limit allowed, for one request in a call and for several.
#[test]
fn a_larger_bucket_owes_no_more_than_the_former_one() {
    let of = |count| Limit::token_bucket(count, Span::from_secs(count.into()));
    let (small, large) = (of(10).expect("valid"), of(100).expect("valid"));
    for count in [1, 3] {
        let mut redis = Driven::new(&Config::single(SINGLE.address()));
        let keys: Vec<Key> = (0..count).map(|key| redis.key(&key.to_string())).collect();
        let requests = |limit, cost| -> Vec<Vec<Charge<'_>>> {
            let charge = |key: &Key| vec![Charge::new(*key, limit, cost)];
            keys.iter().map(charge).collect()
        };
        let now = Taste::MICROSECONDS.start;
        let allowed = redis.decide_together(now, &requests(&small, Cost::Take(10)));
        assert!(allowed.iter().all(Verdict::is_allowed));
        let before = Now::at(now.utc - Span::from_secs(5));
        for verdict in redis.decide_together(before, &requests(&large, Cost::Peek(1))) {
            assert_eq!(verdict.decisions[0].remaining(), 90, "{count} in a call");
        }
    }
}
