//! The suite for every store, on real servers, in virtual time of whole microseconds.

mod at_once;

mod batch;

mod cached_denials;

mod cancelled;

mod charged_denials;

mod confirmed;

mod disagree;

mod expiry;

mod learned_late;

mod large_counts;

mod joint;

mod leased;

mod log_entries;

mod refunded;

mod renewals;

mod reservation;

mod rounds;

mod servers;

mod settled;

mod shadow;

mod shared_calls;

mod several_limits;

mod several_versions;

mod stepping;

mod unchanged;

mod undone;

mod versions;

use std::sync::LazyLock;
use std::task::Poll;

use tokio::runtime::Runtime;
use tollgate_behaviour::{
    Subject, Taste, a_wall_clock_that_steps_locks_no_key, check, store_behaves,
};
use tollgate_core::{Bill, Charge, Cost, Key, KeyHasher, Limit, Now, Span, Verdict, Wait};
use tollgate_testbed as testbed;

use crate::config::{Config, InvalidConfig};
use crate::fit::{FittedLimit, GRAIN};
use crate::names::reservation_name;
use crate::script_reply::{ScriptReply, Status};
use crate::script_request::{ScriptRequest, Step, StepLine};
use crate::store::under_test::TimedRedis;

/// A store under test, and the runtime that drives its connections.
struct Driven {
    runtime: Runtime,
    store: TimedRedis,
    /// Distinguishes the keys of this subject from those of others.
    number: u64,
    /// Whether each of its keys is in a different slot.
    crosses_slots: bool,
}

static SINGLE: LazyLock<testbed::Redis> = LazyLock::new(testbed::Redis::start);
static VALKEY: LazyLock<testbed::Redis> =
    LazyLock::new(|| testbed::Redis::start_with(&testbed::Setup::valkey()));
static CLUSTER: LazyLock<testbed::Cluster> = LazyLock::new(testbed::Cluster::start);
static SENTINELS: LazyLock<testbed::Sentinels> = LazyLock::new(testbed::Sentinels::start);
static ENCRYPTED: LazyLock<(testbed::Certificates, testbed::Redis)> = LazyLock::new(|| {
    let certificates = testbed::Certificates::new();
    let redis = certificates.start("limits:");
    (certificates, redis)
});
static ENCRYPTED_CLUSTER: LazyLock<testbed::Cluster> =
    LazyLock::new(testbed::Cluster::start_over_tls);

// === impl Driven ===

impl Driven {
    fn new(config: &Config) -> Driven {
        Driven::connect(config, TimedRedis::connect)
    }

    /// A store that `connect` connects, with a timeout that is long enough for tests.
    fn connect(
        config: &Config,
        connect: fn(&Config) -> Result<TimedRedis, InvalidConfig>,
    ) -> Driven {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime can be built");
        let config = Config {
            // Servers of tests share two processors with everything else.
            timeout: Span::from_secs(30),
            ..config.clone()
        };
        let store = runtime.block_on(async {
            let store = connect(&config).expect("the config is valid");
            servers::wait_for_connections(&store, &config).await;
            store
        });
        Driven {
            runtime,
            store,
            number: NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            crosses_slots: false,
        }
    }

    /// A store in a Cluster, with every key in a different slot.
    fn apart() -> Driven {
        Driven::apart_in(&Config::cluster(CLUSTER.addresses()))
    }

    /// The same in this Cluster.
    fn apart_in(config: &Config) -> Driven {
        Driven {
            crosses_slots: true,
            ..Driven::new(config)
        }
    }

    /// Reports all local counts.
    fn report(&self) {
        let deadline = tokio::time::Instant::now() + Span::from_secs(30).into();
        self.runtime.block_on(self.store.report_all(deadline));
    }

    /// Runs one step with one line, and returns its status.
    fn step(&self, now: Now, step: Step, charge: Charge<'_>) -> Status {
        self.run_step(now, step, charge, 1)
    }

    /// Releases the reservation of one line.
    fn release(&self, now: Now, name: u64, charge: Charge<'_>) -> Status {
        self.run_step(now, Step::Confirm { name }, charge, 0)
    }

    fn run_step(&self, now: Now, step: Step, charge: Charge<'_>, times: u32) -> Status {
        self.store.set_now(now.monotonic.as_nanos() / 1_000);
        let request = || on_one_line(charge, times, |line| ScriptRequest::of_step(step, &[line]));
        let since = tokio::time::Instant::now();
        match self.runtime.block_on(self.store.ask(request, since)) {
            Ok(ScriptReply::General(reply)) => reply.status,
            Ok(other) => panic!("{other:?}"),
            Err(asked) => panic!("{}", asked.into_error(Span::SECOND)),
        }
    }

    /// Decides all requests concurrently, so that they share calls.
    fn decide_together(&self, now: Now, requests: &[Vec<Charge<'_>>]) -> Vec<Verdict> {
        self.store.set_now(now.monotonic.as_nanos() / 1_000);
        let decide = |charges| async move {
            let verdict = self.store.decide(charges).await;
            verdict.unwrap_or_else(|error| panic!("{error}"))
        };
        let mut waiting: Vec<_> = requests.iter().map(|one| Box::pin(decide(one))).collect();
        let mut verdicts: Vec<Option<Verdict>> = requests.iter().map(|_| None).collect();
        self.runtime.block_on(std::future::poll_fn(|context| {
            for (future, verdict) in waiting.iter_mut().zip(&mut verdicts) {
                if verdict.is_none()
                    && let Poll::Ready(ready) = future.as_mut().poll(context)
                {
                    *verdict = Some(ready);
                }
            }
            match verdicts.iter().all(Option::is_some) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        verdicts.into_iter().flatten().collect()
    }
}

/// Uses a charge as the only line of a step, for this many requests.
fn on_one_line<T>(charge: Charge<'_>, times: u32, with: impl FnOnce(StepLine<'_, '_>) -> T) -> T {
    let bill = Bill::new(&[charge]).expect("one charge");
    let fitted = FittedLimit::new(charge.limit).expect("the limit is whole");
    with(StepLine {
        line: &bill.lines()[0],
        fitted: &fitted,
        times,
        denied: 0,
    })
}

impl Subject for Driven {
    fn key(&mut self, name: &str) -> Key {
        let number = self.number.to_le_bytes();
        let parts = match self.crosses_slots {
            // One identity: its keys share a slot.
            false => [b"test", name.as_bytes(), &number[..]],
            true => [b"test", &number[..], name.as_bytes()],
        };
        self.store.key(parts.into_iter())
    }

    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        self.store.set_now(now.monotonic.as_nanos() / 1_000);
        let verdict = self.runtime.block_on(self.store.decide(charges));
        verdict.unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
    }
}

store_behaves!(
    single,
    Taste::MICROSECONDS,
    Driven::new(&Config::single(SINGLE.address()))
);
store_behaves!(
    valkey,
    Taste::MICROSECONDS,
    Driven::new(&Config::single(VALKEY.address()))
);
store_behaves!(
    cluster,
    Taste::MICROSECONDS,
    Driven::new(&Config::cluster(CLUSTER.addresses()))
);
store_behaves!(cluster_apart, Taste::MICROSECONDS, Driven::apart());
store_behaves!(
    sentinel,
    Taste::MICROSECONDS,
    Driven::new(&servers::sentinel())
);
store_behaves!(
    tls_and_acl,
    Taste::MICROSECONDS,
    Driven::new(&servers::tls())
);

/// Redis's own clock is a wall clock: if it is set back, it locks no key either.
#[test]
fn a_clock_of_redis_that_steps_locks_nothing() {
    a_wall_clock_that_steps_locks_no_key(&Taste::MICROSECONDS, Driven::apart);
}

/// The reservation of an instance that crashed expires, and confirming it later charges nothing.
#[test]
fn a_reservation_ends_by_itself() {
    let limits = [
        Limit::fixed_window(1, Span::HOUR),
        Limit::sliding_log(1, Span::HOUR),
        Limit::sliding_window(1, Span::HOUR, 6),
        Limit::token_bucket(1, Span::HOUR),
    ];
    for limit in limits {
        let limit = limit.expect("an hour is a window");
        let mut subject = Driven::new(&Config::cluster(CLUSTER.addresses()));
        let charge = Charge::new(subject.key("only"), &limit, Cost::ONE);
        let at = |micros| Now::at(Taste::MICROSECONDS.start.utc + GRAIN.times(micros));
        let [name, rival] = [(); 2].map(|()| reservation_name(1_000));
        let reserve = Step::Reserve { name, lasts: 1_000 };
        let confirm = Step::Confirm { name };
        assert_eq!(subject.step(at(0), reserve, charge), Status::Allowed);
        // Another request neither takes the unit nor is denied for good.
        let other = Step::Reserve {
            name: rival,
            lasts: 1_000,
        };
        assert_eq!(subject.step(at(999), other, charge), Status::Blocked);
        assert_eq!(subject.step(at(999), Step::Decide, charge), Status::Blocked);
        assert_eq!(subject.step(at(1_000), confirm, charge), Status::Denied);
        assert!(subject.decide(at(1_000), &[charge]).is_allowed());
        assert!(!subject.decide(at(1_000), &[charge]).is_allowed());
    }
}

/// If the clock is set back, a reservation lasts no longer than its lifetime from then on, rounded
/// up to a power of two, and stays valid.
#[test]
fn a_reservation_of_a_clock_that_went_back_ends_in_its_time() {
    let limit = Limit::fixed_window(2, Span::HOUR).expect("an hour is a window");
    let mut subject = Driven::new(&Config::cluster(CLUSTER.addresses()));
    let charge = Charge::new(subject.key("only"), &limit, Cost::ONE);
    let at = |micros| Now::at(Taste::MICROSECONDS.start.utc + GRAIN.times(micros));
    let (before, after) = (1_000_000_000, 7);
    let [dead, alive] = [(); 2].map(|()| reservation_name(100_000));
    for name in [dead, alive] {
        let lasts = 100_000;
        let reserve = Step::Reserve { name, lasts };
        assert_eq!(subject.step(at(before), reserve, charge), Status::Allowed);
    }
    assert_eq!(
        subject.step(at(after), Step::Decide, charge),
        Status::Blocked
    );
    // A live instance confirms in time: within the lifetime, by any clock.
    assert_eq!(
        subject.step(at(after + 99_999), Step::Confirm { name: alive }, charge),
        Status::Allowed
    );
    let until = after + 128_000;
    assert_eq!(
        subject.step(at(until - 1), Step::Decide, charge),
        Status::Blocked
    );
    assert_eq!(
        subject.step(at(until), Step::Decide, charge),
        Status::Allowed
    );
    assert_eq!(
        subject.step(at(until), Step::Confirm { name: dead }, charge),
        Status::Denied
    );
}

/// A reservation that is confirmed in time is charged once; one that is released is not charged.
#[test]
fn a_reservation_is_charged_once_or_not_at_all() {
    let limit = Limit::fixed_window(2, Span::HOUR).expect("an hour is a window");
    let mut subject = Driven::new(&Config::cluster(CLUSTER.addresses()));
    let charge = Charge::new(subject.key("only"), &limit, Cost::ONE);
    let now = Taste::MICROSECONDS.start;
    let [one, other] = [(); 2].map(|()| reservation_name(1_000_000));
    for name in [one, other] {
        let reserve = Step::Reserve {
            name,
            lasts: 1_000_000,
        };
        assert_eq!(subject.step(now, reserve, charge), Status::Allowed);
    }
    assert_eq!(
        subject.step(now, Step::Confirm { name: one }, charge),
        Status::Allowed
    );
    assert_eq!(
        subject.step(now, Step::Confirm { name: one }, charge),
        Status::Denied
    );
    assert_eq!(subject.release(now, other, charge), Status::Allowed);
    assert!(subject.decide(now, &[charge]).is_allowed());
    assert!(!subject.decide(now, &[charge]).is_allowed());
}

/// A clock that was set back neither gains time nor locks a key for longer than its limit's memory.
#[test]
fn time_that_goes_back_counts_as_none() {
    check("time_that_goes_back_counts_as_none", 200, |random| {
        let taste = Taste::MICROSECONDS;
        let mut subject = Driven::new(&Config::single(SINGLE.address()));
        let rule = taste.rule(random);
        let key = subject.key("only");
        let mut now = taste.start;
        for _ in 0..10 {
            now = Now::at(now.utc + GRAIN.times(random.between(0, 8)));
            let charge = rule.charge(key, taste.cost(&rule.limit, random));
            let _whatever = subject.decide(now, &[charge]);
        }
        let back = Span::from_secs(random.between(1, 1_000_000));
        now = Now::at(now.utc - back);
        let peek = rule.charge(key, Cost::Peek(1));
        let before = subject.decide(now, &[peek]).decisions[0];
        let locked = match before.wait() {
            Some(Wait::For(wait)) => wait,
            Some(Wait::Never) | None => Span::ZERO,
        };
        // The segments of a window: the one that is leaving counts in full again.
        let memory = match rule.limit.interval() {
            Some(interval) => interval.times(u64::from(rule.limit.capacity())),
            None => rule.limit.window() + rule.limit.window(),
        };
        assert!(locked <= memory, "{locked} for {rule:?}");
        let later = Now::at(now.utc + locked);
        let fits = subject.decide(later, &[peek]).decisions[0].is_allowed();
        assert!(fits || rule.limit.available() == 0, "{rule:?}");
    });
}
