//! More keys and more requests than `write_back` can report: the rest is decided by Redis, as in
//! `strict`, and nothing is denied for that reason.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing, Span};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

/// How soon after an overload decisions are local again. The interval of reports is 100 ms.
const RECOVERS_WITHIN: Duration = Duration::from_secs(10);

/// How long Redis may take to be found, or to get what was decided.
const PATIENT: Duration = Duration::from_secs(60);

/// How many turns may pass until decisions have moved to Redis, or back.
const TURNS_MAX: usize = 30;

/// Callers that send one request after the other.
struct Load {
    mode: Mode,
    keys: u64,
    callers: u64,
    /// Decisions of each caller.
    decisions: u64,
}

/// The outcomes of the decisions.
#[derive(Debug)]
struct Outcome {
    decisions: u64,
    denied: u64,
    unanswered: u64,
}

fn key(store: &Redis, number: u64) -> Key {
    store.key([&b"overload"[..], &number.to_le_bytes()].into_iter())
}

fn instance(redis: &testbed::Redis) -> Arc<Redis> {
    let config = Config {
        timeout: Span::from_millis(50),
        ..Config::single(redis.address())
    };
    Arc::new(Redis::connect(&config).unwrap())
}

// === impl Load ===

impl Load {
    /// A limit that is never reached.
    async fn ask(&self, store: &Arc<Redis>) -> Outcome {
        let limit = Limit::token_bucket(500, Span::HOUR).unwrap();
        let sharing = Sharing::in_mode(self.mode);
        let mut tasks = JoinSet::new();
        for caller in 0..self.callers {
            let (store, keys, decisions) = (Arc::clone(store), self.keys, self.decisions);
            tasks.spawn(async move {
                let mut random = caller.wrapping_mul(7_919) + 1;
                let (mut allowed, mut denied) = (0, 0);
                for _ in 0..decisions {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040);
                    let key = key(&store, (random >> 33) % keys);
                    let charge = Charge::new(key, &limit, Cost::ONE).shared(sharing);
                    match store.decide(&[charge]).await {
                        Ok(verdict) if verdict.is_allowed() => allowed += 1,
                        Ok(_) => denied += 1,
                        Err(_) => {}
                    }
                    // A local decision does not yield to other tasks.
                    tokio::task::yield_now().await;
                }
                (allowed, denied)
            });
        }
        let reply = tasks.join_all().await;
        let decisions = self.callers * self.decisions;
        let allowed: u64 = reply.iter().map(|(allowed, _)| allowed).sum();
        let denied = reply.iter().map(|(_, denied)| denied).sum();
        Outcome {
            decisions,
            denied,
            unanswered: decisions - allowed - denied,
        }
    }
}

/// Decides on some keys again and again, until nearly all decisions are local.
async fn recovers(store: &Arc<Redis>) {
    let load = Load {
        mode: Mode::WriteBack,
        keys: 500,
        callers: 1,
        decisions: 10_000,
    };
    let latest = Instant::now() + RECOVERS_WITHIN;
    loop {
        let before = store.counts().requests;
        let outcome = load.ask(store).await;
        let asked = store.counts().requests - before;
        println!("afterwards: {outcome:?}; {asked} questions");
        assert_eq!(outcome.denied, 0, "nobody is near a limit");
        if outcome.unanswered == 0 && asked * 50 <= outcome.decisions {
            return;
        }
        assert!(Instant::now() < latest, "{asked} of {outcome:?}");
    }
}

async fn warm(store: &Redis) {
    let limit = Limit::token_bucket(500, Span::HOUR).unwrap();
    let charge = Charge::new(key(store, u64::MAX), &limit, Cost::ONE);
    let latest = Instant::now() + PATIENT;
    while let Err(error) = store.decide(&[charge]).await {
        assert!(Instant::now() < latest, "Redis does not decide: {error}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// How many decisions failed, in each mode.
async fn compare(redis: &testbed::Redis, keys: u64) -> [u64; 2] {
    let mut unanswered = [0; 2];
    for (mode, unanswered) in [Mode::Strict, Mode::WriteBack]
        .into_iter()
        .zip(&mut unanswered)
    {
        let store = instance(redis);
        warm(&store).await;
        let load = Load {
            mode,
            keys,
            callers: 32,
            decisions: 1_000,
        };
        let outcome = load.ask(&store).await;
        let counts = store.counts();
        println!(
            "{mode:?}, {keys} keys: {outcome:?}; {} questions, {} keys reported, {} reports lost",
            counts.requests, counts.keys_reported, counts.reports_lost
        );
        assert_eq!(outcome.denied, 0, "nobody is near a limit");
        // A decision is at most one line of a report, and a line is sent again only if it was
        // certainly not sent before.
        let most = outcome.decisions + outcome.unanswered;
        assert!(counts.keys_reported <= most, "{counts:?}");
        *unanswered = outcome.unanswered;
        if mode == Mode::WriteBack {
            recovers(&store).await;
        }
    }
    unanswered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_are_served_as_strict_serves_them() {
    let redis = testbed::Redis::start();
    for keys in [100_000, 10_000] {
        // The machine may be too busy for either mode, or for one of them for some time.
        let mut snapshot = Vec::new();
        let is_served = |[strict, write_back]: [u64; 2]| write_back <= strict + 1_600;
        while !snapshot.last().copied().is_some_and(is_served) {
            assert!(
                snapshot.len() < 3,
                "without an answer, of 32 000: {snapshot:?}"
            );
            snapshot.push(compare(&redis, keys).await);
        }
    }
}

/// Sets of keys that are charged in turns, so that no key was charged lately if a turn takes long.
struct Turns {
    store: Arc<Redis>,
    turn: u64,
}

// === impl Turns ===

impl Turns {
    const SETS: u64 = 4;
    const KEYS: u64 = 2_000;

    /// Decides once on each key of the next set, all at once. Returns how many decisions were
    /// local, once all that they charged was sent to Redis: each is one line.
    async fn next(&mut self) -> u64 {
        let (store, set) = (&self.store, self.turn % Turns::SETS);
        self.turn += 1;
        let before = store.counts().write_back_decisions;
        let mut tasks = JoinSet::new();
        for number in 0..Turns::KEYS {
            let (store, key) = (Arc::clone(store), key(store, set * Turns::KEYS + number));
            tasks.spawn(async move {
                let limit = Limit::token_bucket(500, Span::HOUR).unwrap();
                let charge = Charge::new(key, &limit, Cost::ONE);
                let charge = charge.shared(Sharing::in_mode(Mode::WriteBack));
                if let Ok(verdict) = store.decide(&[charge]).await {
                    assert!(verdict.is_allowed(), "nobody is near a limit");
                }
            });
        }
        tasks.join_all().await;
        let decisions = store.counts().write_back_decisions;
        let latest = Instant::now() + PATIENT;
        while store.counts().keys_reported < decisions {
            assert!(Instant::now() < latest, "{:?}", store.counts());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        decisions - before
    }

    /// Takes turns until the number of local decisions of one is as expected.
    async fn until(&mut self, is_reached: impl Fn(u64) -> bool) {
        let mut local = Vec::new();
        while !local.last().copied().is_some_and(&is_reached) {
            assert!(local.len() < TURNS_MAX, "local decisions: {local:?}");
            local.push(self.next().await);
        }
        println!("local decisions: {local:?}");
    }
}

/// A round of reports takes longer than half an interval, because the server is far away: then
/// Redis decides on most keys that are seldom charged, until the server is near again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_decides_on_cold_keys_while_reports_take_too_long() {
    let redis = testbed::Redis::start();
    let proxy = testbed::Proxy::to(&redis.address());
    let config = Config {
        // Keys are cold when they were not charged for an interval and a timeout.
        timeout: Span::from_millis(500),
        ..Config::single(proxy.address())
    };
    let store = Arc::new(Redis::connect(&config).unwrap());
    warm(&store).await;
    let (many, few) = (Turns::KEYS / 2, Turns::KEYS / 4);
    let mut turns = Turns { store, turn: 0 };
    turns.until(|local| local >= many).await;
    proxy.set(testbed::Faults {
        // The interval is 100 ms.
        delay: Duration::from_millis(80),
        ..testbed::Faults::default()
    });
    turns.until(|local| local <= few).await;
    proxy.set(testbed::Faults::default());
    turns.until(|local| local >= many).await;
}
