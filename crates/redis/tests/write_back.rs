//! Instances with local counts (write-back): how far they exceed a limit together, how few messages
//! they send, and what happens at their end.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing, Span, StoreError};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

const INSTANCES: usize = 4;
const SYNC_INTERVAL: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_millis(100);
/// How long an instance may decide on its local count without a reply from Redis.
const UNREPORTED_MAX: Duration = Duration::from_millis(150);

fn instance(config: Config) -> Arc<Redis> {
    with_interval(config, SYNC_INTERVAL)
}

fn with_interval(config: Config, sync_interval: Duration) -> Arc<Redis> {
    let config = Config {
        timeout: TIMEOUT.into(),
        sync_interval: sync_interval.into(),
        ..config
    };
    Arc::new(Redis::connect(&config).unwrap())
}

/// An instance with a timeout that is never exceeded, for tests of something else: on a busy
/// machine a reply may take longer than [`TIMEOUT`], and the outcome of a report is then unknown,
/// as intended.
fn patient(config: Config) -> Arc<Redis> {
    let config = Config {
        timeout: Span::from_secs(20),
        sync_interval: SYNC_INTERVAL.into(),
        ..config
    };
    Arc::new(Redis::connect(&config).unwrap())
}

fn key(store: &Redis, number: usize) -> Key {
    store.key([&b"write_back"[..], b"", &number.to_le_bytes()].into_iter())
}

fn charge(key: Key, limit: &Limit) -> Charge<'_> {
    Charge::new(key, limit, Cost::ONE).shared(Sharing::in_mode(Mode::WriteBack))
}

/// Decides until it succeeds: the connection may not be open yet.
async fn warm(store: &Redis, charge: Charge<'_>) {
    while store.decide(&[charge]).await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The units that Redis has counted.
async fn counted(store: &Redis, key: Key, limit: &Limit) -> u32 {
    let peek = Charge::new(key, limit, Cost::Peek(1));
    let verdict = store.decide(&[peek]).await.unwrap();
    limit.capacity() - verdict.decisions[0].remaining()
}

/// The requests to one instance by time, and how many of them were allowed.
struct Spent {
    asked_at: Vec<Instant>,
    allowed: u64,
}

impl Spent {
    /// The most requests within [`UNREPORTED_MAX`].
    fn within(&self) -> u64 {
        let from = |end: usize| {
            let is_before = |at: &Instant| *at + UNREPORTED_MAX < self.asked_at[end];
            self.asked_at.partition_point(is_before)
        };
        let most = (0..self.asked_at.len()).map(|end| end + 1 - from(end));
        u64::try_from(most.max().unwrap_or(0)).unwrap()
    }
}

/// Redis is busy for longer than a decision may wait. What was counted here is more than what can
/// be on its way at once.
#[tokio::test]
async fn a_graceful_end_reports_everything_though_redis_is_slow() {
    const KEYS: usize = 1_000;
    let redis = testbed::Redis::start();
    let store = with_interval(Config::single(redis.address()), Duration::from_secs(10));
    let limit = Limit::token_bucket(5, Span::HOUR.times(24)).unwrap();
    let charges: Vec<_> = (0..KEYS).map(|n| charge(key(&store, n), &limit)).collect();
    for one in &charges {
        warm(&store, *one).await;
        assert!(store.decide(&[*one]).await.unwrap().is_allowed());
    }
    assert!(store.counts().write_back_keys > 900);
    redis.ask(&["CLIENT", "PAUSE", "400", "WRITE"]);
    store.close().await;
    let watcher = patient(Config::single(redis.address()));
    let mut units = 0;
    for one in &charges {
        units += counted(&watcher, one.key, &limit).await;
    }
    assert_eq!(units, 2 * 1_000);
}

/// Sends `a_time` requests to every instance each millisecond.
async fn spend(instances: &[Arc<Redis>], limit: Limit, a_time: u32, lasts: Duration) -> Vec<Spent> {
    let end = Instant::now() + lasts;
    let mut tasks = JoinSet::new();
    for store in instances {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let charge = charge(key(&store, 0), &limit);
            let mut spent = Spent {
                asked_at: Vec::new(),
                allowed: 0,
            };
            while Instant::now() < end {
                for _ in 0..a_time {
                    spent.asked_at.push(Instant::now());
                    // A decision that fails allows nothing.
                    let verdict = store.decide(&[charge]).await;
                    let is_allowed = verdict.is_ok_and(|verdict| verdict.is_allowed());
                    spent.allowed += u64::from(is_allowed);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            spent
        });
    }
    tasks.join_all().await
}

/// How many units all instances allowed, and the bound of their over-admission.
fn summed(spent: &[Spent], limit: &Limit) -> (u64, u64) {
    let within = spent.iter().map(Spent::within).max().unwrap();
    let others = u64::try_from(spent.len()).unwrap() - 1;
    let bound = others * within.min(limit.capacity().into());
    (spent.iter().map(|spent| spent.allowed).sum(), bound)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_is_exceeded_by_less_than_the_bound() {
    let redis = testbed::Redis::start();
    let instances: Vec<_> = (0..INSTANCES)
        .map(|_| instance(Config::single(redis.address())))
        .collect();
    let limit = Limit::fixed_window(5_000, Span::HOUR.times(testbed::window_hours())).unwrap();
    for store in &instances {
        warm(store, charge(key(store, 0), &limit)).await;
    }
    let warmed = u64::try_from(INSTANCES).unwrap();
    let spent = spend(&instances, limit, 3, Duration::from_secs(2)).await;
    let (allowed, bound) = summed(&spent, &limit);
    let allowed = allowed + warmed;
    println!("{allowed} of 5000, at most {bound} too much");
    assert!(allowed >= 5_000, "{allowed}");
    assert!(allowed <= 5_000 + bound, "{allowed} of 5000, and {bound}");
    assert!(bound < 5_000, "{bound} is no bound worth the name");
    // By now every instance knows that the limit is exhausted.
    let again = spend(&instances, limit, 3, Duration::from_millis(200)).await;
    assert_eq!(summed(&again, &limit).0, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_pays_back_and_keeps_its_rate() {
    let redis = testbed::Redis::start();
    let instances: Vec<_> = (0..INSTANCES)
        .map(|_| instance(Config::single(redis.address())))
        .collect();
    let limit = Limit::token_bucket(500, Span::SECOND).unwrap();
    for store in &instances {
        warm(store, charge(key(store, 0), &limit)).await;
    }
    let start = Instant::now();
    let (mut allowed, mut bounds) = (0, 0);
    for seconds in 1..=4 {
        let spent = spend(&instances, limit, 2, Duration::from_secs(1)).await;
        let (more, bound) = summed(&spent, &limit);
        (allowed, bounds) = (allowed + more, bounds.max(bound));
        // Measured from the start: over-admission does not accumulate.
        let fair = 500 + u64::try_from(start.elapsed().as_millis()).unwrap() / 2 + 1;
        println!("{allowed} in {seconds} s, {fair} are fair, at most {bounds} too much");
        assert!(allowed <= fair + bounds, "{allowed} of {fair} and {bounds}");
    }
    assert!(allowed >= 1_800, "{allowed}");
}

/// 200 times as many decisions of one instance send no more messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_do_not_follow_requests() {
    const KEYS: usize = 300;
    let redis = testbed::Redis::start();
    let store = patient(Config::single(redis.address()));
    let limit = Limit::fixed_window(u32::MAX, Span::HOUR.times(testbed::window_hours())).unwrap();
    for number in 0..KEYS {
        warm(&store, charge(key(&store, number), &limit)).await;
    }
    let mut snapshot = Vec::new();
    for rounds in [1, 200] {
        let (before, start) = (store.counts(), Instant::now());
        while start.elapsed() < Duration::from_secs(1) {
            for _ in 0..rounds {
                for number in 0..KEYS / 10 {
                    let charge = charge(key(&store, number * 10), &limit);
                    let verdict = store.decide(&[charge]).await;
                    assert!(verdict.is_ok_and(|verdict| verdict.is_allowed()));
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (after, passed) = (store.counts(), start.elapsed());
        // Those at both ends, and a few more: after a late report, the next ones come early.
        let intervals = passed.as_millis() / SYNC_INTERVAL.as_millis() + 5;
        let reports = after.reports - before.reports;
        assert!(
            u128::from(reports) <= intervals,
            "{reports} in {intervals} intervals"
        );
        let writes = after.writes - before.writes;
        assert!(
            u128::from(writes) <= intervals,
            "{writes} in {intervals} intervals"
        );
        assert_eq!(after.reports_lost, 0);
        snapshot.push(after.write_back_decisions - before.write_back_decisions);
    }
    // A busy machine limits how many more it decides.
    assert!(snapshot[1] > 3 * snapshot[0], "{snapshot:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_one_message_for_each_master() {
    const KEYS: usize = 60;
    let cluster = testbed::Cluster::start();
    let config = Config::cluster(cluster.addresses());
    let instances = [patient(config.clone()), patient(config.clone())];
    let watcher = patient(config);
    let limit = Limit::fixed_window(1_000, Span::HOUR.times(testbed::window_hours())).unwrap();
    for store in &instances {
        for number in 0..KEYS {
            warm(store, charge(key(store, number), &limit)).await;
        }
    }
    let before: Vec<_> = instances
        .iter()
        .map(|store| store.counts().reports)
        .collect();
    let start = Instant::now();
    for _ in 0..10 {
        for store in &instances {
            for number in 0..KEYS {
                let verdict = store.decide(&[charge(key(store, number), &limit)]).await;
                assert!(verdict.unwrap().is_allowed());
            }
        }
        tokio::time::sleep(SYNC_INTERVAL / 2).await;
    }
    let intervals = start.elapsed().as_millis() / SYNC_INTERVAL.as_millis() + 2;
    for (store, before) in instances.iter().zip(before) {
        let reports = u128::from(store.counts().reports - before);
        let masters = u128::try_from(testbed::MASTERS).unwrap();
        assert!(
            reports <= masters * intervals,
            "{reports} in {intervals} intervals"
        );
        store.close().await;
    }
    for number in 0..KEYS {
        let key = key(&watcher, number);
        assert_eq!(counted(&watcher, key, &limit).await, 22, "{number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_is_reported_at_the_end() {
    let redis = testbed::Redis::start();
    let limits = [
        Limit::fixed_window(1_000, Span::HOUR.times(testbed::window_hours())).unwrap(),
        Limit::token_bucket(1_000, Span::DAY).unwrap(),
        Limit::sliding_window(1_000, Span::HOUR.times(testbed::window_hours()), 4).unwrap(),
    ];
    let watcher = patient(Config::single(redis.address()));
    for (number, limit) in limits.iter().enumerate() {
        let instances = [(); 2].map(|()| patient(Config::single(redis.address())));
        for store in &instances {
            warm(store, charge(key(store, number), limit)).await;
            for _ in 0..40 {
                let verdict = store.decide(&[charge(key(store, number), limit)]).await;
                assert!(verdict.unwrap().is_allowed());
            }
            store.close().await;
        }
        let counted = counted(&watcher, key(&watcher, number), limit).await;
        assert_eq!(counted, 82, "{limit:?}");
    }
}

/// A request with a second limit, which is decided strictly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_other_limits_redis_decides_on_everything() {
    let redis = testbed::Redis::start();
    let store = patient(Config::single(redis.address()));
    let limit = Limit::token_bucket(10, Span::DAY).unwrap();
    let own = charge(key(&store, 0), &limit);
    let strict = Charge::new(key(&store, 1), &limit, Cost::ONE);
    let mut allowed = 0;
    for turn in 0..30 {
        let charges = [own, strict];
        let charges = if turn % 3 == 0 {
            &charges[..]
        } else {
            &charges[..1]
        };
        let verdict = store.decide(charges).await.unwrap();
        allowed += u32::from(verdict.is_allowed());
    }
    // A single instance is exact.
    assert_eq!(allowed, 10);
    let refund = Charge {
        cost: Cost::Refund(3),
        ..own
    };
    assert!(store.decide(&[refund]).await.unwrap().is_allowed());
    let mut allowed = 0;
    for _ in 0..10 {
        allowed += u32::from(store.decide(&[own]).await.unwrap().is_allowed());
    }
    assert_eq!(allowed, 3);
}

/// Decides until that fails; returns how long it took, and the error.
async fn ended(store: &Redis, charge: Charge<'_>) -> (Duration, StoreError) {
    let start = Instant::now();
    loop {
        if let Err(error) = store.decide(&[charge]).await {
            return (start.elapsed(), error);
        }
        assert!(start.elapsed() < Duration::from_secs(10), "it goes on");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_nobody_goes_on_for_long() {
    let redis = testbed::Redis::start();
    let proxy = testbed::Proxy::to(&redis.address());
    let store = instance(Config::single(proxy.address()));
    let limit = Limit::fixed_window(1_000_000, Span::HOUR.times(testbed::window_hours())).unwrap();
    let charge = charge(key(&store, 0), &limit);
    for faults in [
        testbed::Faults {
            stalled: true,
            ..testbed::Faults::default()
        },
        testbed::Faults {
            closes_new_connections: true,
            cut_after: Some(0),
            ..testbed::Faults::default()
        },
    ] {
        warm(&store, charge).await;
        proxy.set(faults);
        let (after, error) = ended(&store, charge).await;
        // Plus the time that the last decision waited for its reply, on a busy machine.
        let most = UNREPORTED_MAX + 2 * TIMEOUT + Duration::from_secs(1);
        assert!(after < most, "{faults:?}: {after:?}");
        assert!(
            matches!(
                error,
                StoreError::TimedOut { .. }
                    | StoreError::Unreachable { .. }
                    | StoreError::Rejected { .. }
                    | StoreError::Contended
            ),
            "{error:?}"
        );
        // All further decisions fail as well.
        for _ in 0..20 {
            assert!(store.decide(&[charge]).await.is_err());
        }
        proxy.set(testbed::Faults::default());
        warm(&store, charge).await;
    }
}

/// A key lives until its over-admission is paid back, and at most a second longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_live_until_everything_is_paid() {
    let redis = testbed::Redis::start();
    let first = tollgate_core::Algorithm::FixedWindow(tollgate_core::Anchor::FirstRequest);
    // With each limit, and the milliseconds in which three times its units are paid back.
    let limits = [
        (Limit::token_bucket(10, Span::MINUTE).unwrap(), 180_000),
        (Limit::new(first, 10, Span::MINUTE).unwrap(), 180_000),
    ];
    for (number, (limit, paid)) in limits.iter().enumerate() {
        let instances = [(); 3].map(|()| patient(Config::single(redis.address())));
        for store in &instances {
            warm(store, charge(key(store, number), limit)).await;
        }
        let start = Instant::now();
        let mut allowed = 3;
        for store in &instances {
            for _ in 0..20 {
                let verdict = store.decide(&[charge(key(store, number), limit)]).await;
                allowed += u32::from(verdict.unwrap().is_allowed());
            }
        }
        for store in &instances {
            store.close().await;
        }
        let lives = redis.ask(&["PTTL", &instances[0].name_of(key(&instances[0], number))]);
        let lives: u128 = lives.trim().parse().unwrap();
        // An instance that had received a report of the others would have allowed fewer.
        let most = u128::from(allowed.div_ceil(10)) * 60_000;
        assert!(allowed >= 10 && most <= *paid, "{allowed}");
        assert!(lives <= most + 1_000, "{limit:?}: {lives} of {most}");
        let passed = start.elapsed().as_millis() + 1_000;
        let least = u128::from(allowed - 10) * 6_000;
        assert!(lives + passed >= least, "{limit:?}: {lives} of {least}");
    }
}
