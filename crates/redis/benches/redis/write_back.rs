//! Instances with local counts (write-back): how many messages they send, and by how much they
//! exceed a limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing, Span};
use tollgate_redis::{Config, Redis, SYNC_INTERVAL, TIMEOUT};
use tollgate_testbed as testbed;

use crate::load::processor_seconds;
use crate::{Figures, start_pinned_redis};

/// Keys that are charged in turn.
const KEYS: u32 = 1_000;
/// Decisions after which a task yields to others.
const TURN: usize = 64;

pub(crate) fn measure(figures: &mut Figures, lasts: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for (name, a_millisecond) in [("seldom", Some(10)), ("hot", None)] {
        messages(figures, &runtime, name, a_millisecond, lasts);
    }
    let units = 10_000_000 * u32::try_from(lasts.as_secs()).unwrap();
    for instances in [2, 4] {
        overshoot(figures, &runtime, instances, units);
    }
}

fn instance(redis: &testbed::Redis) -> Arc<Redis> {
    Arc::new(Redis::connect(&Config::single(redis.address())).unwrap())
}

fn key(store: &Redis, number: u32) -> Key {
    store.key([&b"write_back"[..], b"", &number.to_le_bytes()].into_iter())
}

fn charge(key: Key, limit: &Limit) -> Charge<'_> {
    Charge::new(key, limit, Cost::ONE).shared(Sharing::in_mode(Mode::WriteBack))
}

/// Until Redis has replied with its count.
async fn warm(store: &Redis, charge: Charge<'_>) {
    while store.decide(&[charge]).await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// One instance, with so many requests a millisecond, or as many as it answers.
fn messages(
    figures: &mut Figures,
    runtime: &Runtime,
    name: &str,
    a_millisecond: Option<u64>,
    lasts: Duration,
) {
    let redis = start_pinned_redis();
    let limit = Limit::fixed_window(u32::MAX, Span::DAY).unwrap();
    runtime.block_on(async {
        let config = Config {
            // Other load may delay this instance, and its lateness is not what is measured.
            timeout: Span::SECOND,
            ..Config::single(redis.address())
        };
        let store = Redis::connect(&config).unwrap();
        let keys: Vec<Key> = (0..KEYS).map(|number| key(&store, number)).collect();
        for key in &keys {
            warm(&store, charge(*key, &limit)).await;
        }
        let numbers = [
            redis.process_number().unwrap(),
            std::process::id().to_string(),
        ];
        let spent = || numbers.each_ref().map(|number| processor_seconds(number));
        let (before, counts, start) = (spent(), store.counts(), Instant::now());
        let (mut asked, mut failed) = (0, 0);
        let mut in_turn = keys.iter().cycle();
        while start.elapsed() < lasts {
            for key in in_turn.by_ref().take(TURN) {
                failed += u64::from(store.decide(&[charge(*key, &limit)]).await.is_err());
                asked += 1;
            }
            match a_millisecond {
                None => tokio::task::yield_now().await,
                Some(most) => {
                    let due = start + Duration::from_micros(asked * 1_000 / most);
                    tokio::time::sleep_until(due.into()).await;
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let (after, reply) = (spent(), store.counts());
        let per_second = |count: u64| count as f64 / seconds;
        let micros = |at: usize| (after[at] - before[at]) * 1e6 / asked as f64;
        let name = format!("write_back/{name}");
        figures.put(format!("{name}/decisions_per_s"), per_second(asked));
        figures.put(
            format!("{name}/messages_per_s"),
            per_second(reply.writes - counts.writes),
        );
        figures.put(
            format!("{name}/script_calls_per_s"),
            per_second(reply.calls - counts.calls),
        );
        figures.put(
            format!("{name}/keys_reported_per_s"),
            per_second(reply.keys_reported - counts.keys_reported),
        );
        figures.put(format!("{name}/redis_cpu_us"), micros(0));
        figures.put(format!("{name}/client_cpu_us"), micros(1));
        figures.put(format!("{name}/without_an_answer"), failed as f64);
    });
}

/// Several instances that exhaust one limit as fast as they can: their over-admission, beside its
/// bound.
fn overshoot(figures: &mut Figures, runtime: &Runtime, instances: u32, units: u32) {
    let redis = start_pinned_redis();
    let limit = Limit::fixed_window(units, Span::DAY).unwrap();
    let spent = runtime.block_on(async {
        let stores: Vec<_> = (0..instances).map(|_| instance(&redis)).collect();
        for store in &stores {
            warm(store, charge(key(store, 0), &limit)).await;
        }
        let mut tasks = JoinSet::new();
        for store in stores {
            tasks.spawn(spend(store, limit));
        }
        tasks.join_all().await
    });
    // Plus the unit with which each instance was warmed up.
    let allowed: u64 = spent.iter().map(|(allowed, _)| allowed + 1).sum();
    let within = spent.iter().map(|(_, within)| *within).max().unwrap_or(0);
    let bound = u64::from(instances - 1) * within.min(units.into());
    let over = allowed.saturating_sub(units.into());
    assert!(
        allowed >= units.into() && over <= bound,
        "{over} of {bound}"
    );
    let name = format!("write_back/{instances}_instances");
    figures.put(format!("{name}/units"), units.into());
    figures.put(format!("{name}/overshoot"), over as f64);
    figures.put(format!("{name}/bound"), bound as f64);
    let percent = |count: u64| count as f64 * 100.0 / f64::from(units);
    figures.put(format!("{name}/overshoot_percent"), percent(over));
    figures.put(format!("{name}/bound_percent"), percent(bound));
}

/// Requests units until the limit is exhausted; returns how many were allowed, and the most
/// requests within an interval and a timeout.
async fn spend(store: Arc<Redis>, limit: Limit) -> (u64, u64) {
    let unreported_max = Duration::from(SYNC_INTERVAL + TIMEOUT).as_millis() as usize + 1;
    let charge = charge(key(&store, 0), &limit);
    let start = Instant::now();
    // The number of requests in each millisecond.
    let mut asked: Vec<u64> = Vec::new();
    let (mut allowed, mut denied) = (0, 0);
    // By so many denials, the reports of all instances have arrived.
    while denied < 1_000 {
        let millisecond = start.elapsed().as_millis() as usize;
        asked.resize(asked.len().max(millisecond + 1), 0);
        for _ in 0..TURN {
            asked[millisecond] += 1;
            if let Ok(verdict) = store.decide(&[charge]).await {
                allowed += u64::from(verdict.is_allowed());
                denied += u32::from(!verdict.is_allowed());
            }
        }
        tokio::task::yield_now().await;
    }
    let within = asked
        .windows(unreported_max.min(asked.len()))
        .map(|part| part.iter().sum());
    (allowed, within.max().unwrap_or(0))
}
