//! A clock of Redis that is set, back and forth, under instances that hold leased units. Their own
//! clocks never go back.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_behaviour::{Random, Rule, Subject, Taste, check};
use tollgate_core::{
    Algorithm, Charge, Cost, Ledger, Limit, Mode, Moment, Now, Sharing, Span, Verdict,
};

use super::{Driven, SINGLE};
use crate::config::Config;
use crate::fit::GRAIN;
use crate::leases::LASTS;

/// Steps of one trace: enough to lease, to renew and to run out.
const STEPS: usize = 80;
/// How often a step sets the clock, in percent.
const SETS: u64 = 5;

/// Two instances, and two clocks.
struct Clocks {
    instances: [Driven; 2],
    /// The time that has passed.
    passed: Moment,
    /// What Redis takes for it.
    redis: Moment,
}

// === impl Clocks ===

impl Clocks {
    fn new() -> Clocks {
        let start = Taste::MICROSECONDS.start.utc;
        Clocks {
            instances: [(); 2].map(|()| Driven::new(&Config::single(SINGLE.address()))),
            passed: start,
            redis: start,
        }
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
        let unit = random.pick(&[Span::from_millis(1), Span::SECOND, Span::HOUR]);
        let step = unit.times(random.between(1, 50));
        self.redis = match is_back {
            true => self.redis - step,
            false => self.redis + step,
        };
        self.pass(Span::ZERO);
    }

    /// An instance renews and returns its leases.
    fn renew_due(&self, index: usize) {
        let Driven { runtime, store, .. } = &self.instances[index];
        runtime.block_on(store.renew_due_leases());
    }

    /// A decision at the time that was set.
    fn decide(&self, index: usize, charge: &Charge<'_>) -> Verdict {
        let Driven { runtime, store, .. } = &self.instances[index];
        let decided = runtime.block_on(store.decide(std::slice::from_ref(charge)));
        decided.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A limit of an algorithm that can be leased, large enough for it.
fn limit(random: &mut Random) -> Limit {
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
    random.pick(&limits)
}

/// For how long a limit remembers.
fn memory(limit: &Limit) -> Span {
    match limit.interval() {
        Some(interval) => interval.times(u64::from(limit.capacity())),
        None => limit.window() + limit.window(),
    }
}

/// Runs a trace in which the clock of Redis is set back, or also ahead. No denial waits for longer
/// than the limit and a lease remember, and after that time everything is there again. Set back, a
/// clock gains a bucket nothing. Returns how many decisions were made on leases, and how
/// many were denials.
fn trace(random: &mut Random, goes_ahead: bool) -> [u64; 2] {
    let mut clocks = Clocks::new();
    let limit = limit(random);
    let rule = Rule {
        sharing: Sharing::in_mode(Mode::Leased),
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
        let index = usize::from(random.chance(50));
        if random.chance(20) {
            clocks.renew_due(index);
        }
        let charge = rule.charge(key, Cost::Take(random.pick(&[1, 1, 2, 5])));
        let verdict = clocks.decide(index, &charge);
        denied += u64::from(!verdict.is_allowed());
        let wait = verdict.denial.and_then(|denial| denial.wait.to_duration());
        let most = memory(&limit) + LASTS;
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
        decided += store.counts().lease_decisions;
    }
    clocks.pass(memory(&limit) + LASTS);
    let peek = Rule::new(limit);
    let peek = peek.charge(key, Cost::Peek(1));
    // An instance that holds nothing.
    clocks.instances[0] = Driven::new(&Config::single(SINGLE.address()));
    clocks.pass(Span::ZERO);
    let remaining = clocks.decide(0, &peek).decisions[0].remaining();
    assert_eq!(remaining, limit.capacity(), "{rule:#?}");
    [decided, denied]
}

#[test]
fn a_clock_of_redis_that_steps_locks_no_leased_key() {
    let counts = [(); 2].map(|()| AtomicU64::new(0));
    check("a_clock_that_steps_locks_no_leased_key", 60, |random| {
        let goes_ahead = random.chance(50);
        for (count, more) in counts.iter().zip(trace(random, goes_ahead)) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    });
    let [decided, denied] = counts.map(AtomicU64::into_inner);
    assert!(
        decided > 500 && denied > 500,
        "{decided} on leases, {denied} denied"
    );
}
