//! What callers see while Redis, its network or its Cluster fail under load.
//!
//! Every decision is recorded. `cargo test -p tollgate-redis --test faults -- --nocapture` prints
//! the rows of `docs/operating.md`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Span, StoreError};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

const TASKS: u64 = 16;
const KEYS: u64 = 256;
/// What the machine adds to a budget: two processors run all of this and other tests beside it.
const JITTER: Duration = Duration::from_millis(150);

/// One decision, as its caller saw it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Instant,
    took: Duration,
    key: usize,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Admitted,
    Refused,
    /// Nothing was charged.
    Unreachable,
    /// It may have been charged.
    Lost,
}

/// Callers that ask without a pause until they are told to stop.
struct Traffic {
    store: Arc<Redis>,
    keys: Arc<Vec<Key>>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Vec<Seen>>,
}

struct Record {
    seen: Vec<Seen>,
    store: Arc<Redis>,
    keys: Arc<Vec<Key>>,
}

/// A budget that no test empties.
fn wide() -> Limit {
    Limit::token_bucket(1_000_000, Span::MINUTE).unwrap()
}

/// A budget that never comes back within a test.
fn narrow() -> Limit {
    Limit::fixed_window(300, Span::DAY).unwrap()
}

// === impl Traffic ===

impl Traffic {
    fn start(config: &Config, limit: Limit) -> Traffic {
        let store = Arc::new(Redis::connect(config).unwrap());
        let key = |n: u64| store.key([&b"fault"[..], b"", &n.to_le_bytes()].into_iter());
        let keys: Arc<Vec<Key>> = Arc::new((0..KEYS).map(key).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (store, keys, stop) = (Arc::clone(&store), Arc::clone(&keys), Arc::clone(&stop));
            tasks.spawn(async move {
                let mut seen = Vec::new();
                let mut turn = usize::try_from(task).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    turn = (turn * 5 + 7) % keys.len();
                    let at = Instant::now();
                    let charge = Charge::new(keys[turn], &limit, Cost::ONE);
                    let outcome = Outcome::of(store.decide(&[charge]).await);
                    let took = at.elapsed();
                    seen.push(Seen {
                        at,
                        took,
                        key: turn,
                        outcome,
                    });
                    // Refused at once, a caller would otherwise spin.
                    tokio::time::sleep(Duration::from_micros(500)).await;
                }
                seen
            });
        }
        Traffic {
            store,
            keys,
            stop,
            tasks,
        }
    }

    /// Lets it run until so many decisions in a row were answered, or for too long.
    async fn settle(&self) {
        let start = Instant::now();
        let key = self.store.key([&b"fault"[..], b"", b"settled"].into_iter());
        let mut answered = 0;
        while answered < 50 {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "no service for 20 s"
            );
            let limit = wide();
            let outcome = Outcome::of(
                self.store
                    .decide(&[Charge::new(key, &limit, Cost::ONE)])
                    .await,
            );
            answered = match outcome {
                Outcome::Admitted | Outcome::Refused => answered + 1,
                Outcome::Unreachable | Outcome::Lost => 0,
            };
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn end(self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        let mut seen = self.tasks.join_all().await.concat();
        seen.sort_by_key(|seen| seen.at);
        Record {
            seen,
            store: self.store,
            keys: self.keys,
        }
    }
}

// === impl Outcome ===

impl Outcome {
    fn of(decided: Result<tollgate_core::Verdict, StoreError>) -> Outcome {
        match decided {
            Ok(verdict) if verdict.is_admitted() => Outcome::Admitted,
            Ok(_) => Outcome::Refused,
            Err(StoreError::TimedOut { .. }) => Outcome::Lost,
            Err(StoreError::Unreachable { .. }) => Outcome::Unreachable,
            Err(other) => panic!("{other}: {:?}", std::error::Error::source(&other)),
        }
    }

    const fn is_answer(self) -> bool {
        matches!(self, Outcome::Admitted | Outcome::Refused)
    }
}

// === impl Record ===

impl Record {
    fn count(&self, outcome: Outcome) -> usize {
        self.seen
            .iter()
            .filter(|seen| seen.outcome == outcome)
            .count()
    }

    /// How long after `from` the last decision without an answer was.
    fn outage(&self, from: Instant) -> Duration {
        let failed = self.seen.iter().rfind(|seen| !seen.outcome.is_answer());
        failed.map_or(Duration::ZERO, |seen| {
            seen.at.saturating_duration_since(from)
        })
    }

    /// Prints the row, and holds every decision to the budget.
    fn tell(&self, what: &str, budget: Span, from: Instant) {
        let mut took: Vec<Duration> = self.seen.iter().map(|seen| seen.took).collect();
        took.sort();
        let part = |per_mille: usize| took[(took.len() - 1) * per_mille / 1_000];
        println!(
            "{what}: {} decisions, {} admitted, {} refused, {} unreachable, {} lost; p50 {:?}, \
             p99.9 {:?}, longest {:?}; last without an answer {:?} after the fault",
            took.len(),
            self.count(Outcome::Admitted),
            self.count(Outcome::Refused),
            self.count(Outcome::Unreachable),
            self.count(Outcome::Lost),
            part(500),
            part(999),
            took[took.len() - 1],
            self.outage(from),
        );
        let budget = Duration::from(budget);
        assert!(part(999) <= budget + JITTER, "{what}: {:?}", part(999));
    }

    /// Never more than the limit was admitted, and what Redis counted beyond that was lost answers.
    async fn is_exact(&self, limit: Limit) {
        for (index, key) in self.keys.iter().enumerate() {
            let of_key = self.seen.iter().filter(|seen| seen.key == index);
            let count = |outcome| {
                let same = of_key.clone().filter(|seen| seen.outcome == outcome);
                u32::try_from(same.count()).unwrap()
            };
            let (admitted, lost) = (count(Outcome::Admitted), count(Outcome::Lost));
            let peek = Charge::new(*key, &limit, Cost::Peek(1));
            let verdict = self.store.decide(&[peek]).await.unwrap();
            let counted = limit.capacity() - verdict.decisions[0].remaining();
            assert!(
                counted >= admitted,
                "{counted} counted, {admitted} admitted"
            );
            assert!(
                counted <= admitted + lost,
                "{counted} counted, {admitted} + {lost}"
            );
        }
    }
}

fn patient(config: Config) -> Config {
    Config {
        timeout: Span::from_secs(10),
        ..config
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_and_data_are_no_fault() {
    let redis = testbed::Redis::start();
    let config = patient(Config::single(redis.address()));
    let traffic = Traffic::start(&config, wide());
    traffic.settle().await;
    let fault = Instant::now();
    for _ in 0..3 {
        redis.ask(&["SCRIPT", "FLUSH"]);
        redis.ask(&["FLUSHALL"]);
        traffic.settle().await;
    }
    let record = traffic.end().await;
    record.tell("SCRIPT FLUSH and FLUSHALL", config.timeout, fault);
    assert_eq!(
        record.count(Outcome::Lost) + record.count(Outcome::Unreachable),
        0
    );
    assert!(record.store.counts().scripts_loaded >= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_within_replies_over_admits_nothing() {
    let redis = testbed::Redis::start();
    let proxy = testbed::Proxy::to(&redis.address());
    let config = patient(Config::single(proxy.address()));
    let traffic = Traffic::start(&config, narrow());
    traffic.settle().await;
    let fault = Instant::now();
    for bytes in [1, 100, 1_003, 2_017, 5_051] {
        proxy.set(testbed::Faults {
            cut_after: Some(bytes),
            ..testbed::Faults::default()
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.set(testbed::Faults::default());
        traffic.settle().await;
    }
    let record = traffic.end().await;
    record.tell(
        "connection cut within replies, 5 times",
        config.timeout,
        fault,
    );
    assert!(record.store.counts().connections >= 5);
    record.is_exact(narrow()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_stands_still_delays_nobody() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let traffic = Traffic::start(&config, wide());
    traffic.settle().await;
    let fault = Instant::now();
    redis.pause();
    tokio::time::sleep(Duration::from_secs(5)).await;
    redis.go_on();
    let back = Instant::now();
    traffic.settle().await;
    assert!(
        back.elapsed() < Duration::from_secs(3),
        "{:?}",
        back.elapsed()
    );
    let record = traffic.end().await;
    record.tell("Redis stands still for 5 s", config.timeout, fault);
    assert!(record.store.counts().breaker_openings >= 1);
    // Only those who asked before the breaker opened waited for their whole budget.
    let waited = record
        .seen
        .iter()
        .filter(|seen| seen.at > fault && seen.at < back && seen.took > Duration::from_millis(5));
    assert!(waited.count() < 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_back_is_found() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let traffic = Traffic::start(&config, wide());
    traffic.settle().await;
    let fault = Instant::now();
    redis.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    redis.restart();
    let back = Instant::now();
    traffic.settle().await;
    assert!(
        back.elapsed() < Duration::from_secs(3),
        "{:?}",
        back.elapsed()
    );
    traffic
        .end()
        .await
        .tell("Redis killed, back after 1 s", config.timeout, fault);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_waits_for_a_redis_that_is_not_there_yet() {
    let proxy = {
        let redis = testbed::Redis::start();
        testbed::Proxy::to(&redis.address())
    };
    let store = Redis::connect(&Config::single(proxy.address())).unwrap();
    let limit = wide();
    let key = store.key([&b"fault"[..]].into_iter());
    let start = Instant::now();
    let decided = store.decide(&[Charge::new(key, &limit, Cost::ONE)]).await;
    assert!(
        matches!(decided, Err(StoreError::Unreachable { .. })),
        "{decided:?}"
    );
    assert!(start.elapsed() < Duration::from_millis(10) + JITTER);
    assert!(!store.is_up());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_refuses_what_it_cannot_remember() {
    let setup = testbed::Setup::with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    let redis = testbed::Redis::start_with(&setup);
    let config = patient(Config::single(redis.address()));
    let store = Redis::connect(&config).unwrap();
    let limit = wide();
    let key = store.key([&b"fault"[..]].into_iter());
    let ask = |cost| {
        let (store, limit) = (&store, &limit);
        async move { store.decide(&[Charge::new(key, limit, cost)]).await }
    };
    let taken = ask(Cost::ONE).await;
    assert!(
        matches!(taken, Err(StoreError::Unreachable { .. })),
        "{taken:?}"
    );
    assert!(ask(Cost::Peek(1)).await.unwrap().is_admitted());
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(ask(Cost::ONE).await.unwrap().is_admitted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over_from_a_dead_master() {
    let cluster = testbed::Cluster::start();
    let config = Config::cluster(cluster.addresses());
    let traffic = Traffic::start(&config, wide());
    traffic.settle().await;
    let dead = cluster.master_of(0);
    let fault = Instant::now();
    dead.kill();
    let former = dead.port();
    tokio::task::block_in_place(|| {
        cluster.wait_until("a replica serves the slots", |cluster| {
            cluster.serving(0).is_some_and(|node| node.port() != former)
        });
    });
    let failed_over = Instant::now();
    // Every key's slot, not only the one that `settle` asks for.
    tokio::time::sleep(Duration::from_secs(2)).await;
    traffic.settle().await;
    let record = traffic.end().await;
    record.tell("a Cluster's master is killed", config.timeout, fault);
    let late = record.outage(failed_over);
    assert!(late < Duration::from_secs(2), "{late:?} after the failover");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_while_they_are_asked() {
    let cluster = testbed::Cluster::start();
    let config = patient(Config::cluster(cluster.addresses()));
    let traffic = Traffic::start(&config, narrow());
    traffic.settle().await;
    let fault = Instant::now();
    let masters = [0, 8_191, 16_383].map(|slot| cluster.master_of(slot));
    for (from, to) in [(0, 2), (2, 1), (1, 0)] {
        let [from, to] = [from, to].map(|place: usize| masters[place]);
        tokio::task::block_in_place(|| cluster.move_slots(500, from, to));
    }
    traffic.settle().await;
    let record = traffic.end().await;
    record.tell("1500 slots move", config.timeout, fault);
    assert!(record.store.counts().redirections > 0);
    assert_eq!(
        record.count(Outcome::Lost) + record.count(Outcome::Unreachable),
        0
    );
    record.is_exact(narrow()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sentinels_new_master_is_followed() {
    let sentinels = testbed::Sentinels::start();
    let config = Config::new(tollgate_redis::Servers::Sentinel {
        addresses: sentinels.addresses(),
        master: testbed::Sentinels::MASTER.to_owned(),
    });
    let traffic = Traffic::start(&config, wide());
    traffic.settle().await;
    let fault = Instant::now();
    let former = sentinels.master().port();
    sentinels.master().kill();
    tokio::task::block_in_place(|| sentinels.wait_for_failover(former));
    traffic.settle().await;
    traffic
        .end()
        .await
        .tell("Sentinel changes the master", config.timeout, fault);
}
