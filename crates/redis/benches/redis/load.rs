//! Callers that ask one after the other, as fast as they are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

/// Who asks for what, and for how long.
pub(crate) struct Load {
    pub(crate) mode: Mode,
    pub(crate) limit: Limit,
    pub(crate) keys: u32,
    pub(crate) popularity: Popularity,
    pub(crate) callers: u64,
    pub(crate) lasts: Duration,
}

/// How often each key is asked.
#[derive(Clone, Copy)]
pub(crate) enum Popularity {
    Uniform,
    /// The n-th key one n-th as often as the first.
    Zipf,
}

/// What came of it.
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    /// Processor time for a decision.
    pub(crate) redis_micros: f64,
    pub(crate) client_micros: f64,
    /// Decisions for each script call.
    pub(crate) per_call: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
}

impl Load {
    /// Runs on one thread.
    pub(crate) fn run(&self, config: &Config, redis: &testbed::Redis) -> Measured {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(self.ask(config, redis))
    }

    async fn ask(&self, config: &Config, redis: &testbed::Redis) -> Measured {
        let store = Arc::new(Redis::connect(config).unwrap());
        let key = |n: u32| store.key([&b"bench"[..], b"", &n.to_le_bytes()].into_iter());
        let keys: Arc<Vec<Key>> = Arc::new((0..self.keys).map(key).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let numbers = [
            redis.process_number().unwrap(),
            std::process::id().to_string(),
        ];
        let before = numbers.each_ref().map(|number| processor_seconds(number));
        let start = Instant::now();
        let mut callers = JoinSet::new();
        for caller in 0..self.callers {
            let (store, keys, stop) = (Arc::clone(&store), Arc::clone(&keys), Arc::clone(&stop));
            callers.spawn(call(
                store,
                keys,
                stop,
                (self.mode, self.limit, self.popularity),
                caller,
            ));
        }
        tokio::time::sleep(self.lasts).await;
        stop.store(true, Ordering::Relaxed);
        let told = callers.join_all().await;
        let seconds = start.elapsed().as_secs_f64();
        let spent = [0, 1].map(|at| processor_seconds(&numbers[at]) - before[at]);
        let total: u64 = told.iter().map(|(count, _)| count).sum();
        let mut took: Vec<u32> = told.into_iter().flat_map(|(_, took)| took).collect();
        took.sort_unstable();
        let part = |percent: usize| f64::from(took[(took.len() - 1) * percent / 100]) / 1e3;
        let counts = store.counts();
        Measured {
            per_second: total as f64 / seconds,
            redis_micros: spent[0] * 1e6 / total as f64,
            client_micros: spent[1] * 1e6 / total as f64,
            per_call: total as f64 / counts.calls.max(1) as f64,
            p50_micros: part(50),
            p99_micros: part(99),
        }
    }
}

impl Popularity {
    /// A place below `count`, from 53 random bits.
    fn draw(self, random: u64, count: usize) -> usize {
        let part = random as f64 / (1_u64 << 53) as f64;
        let place = match self {
            Popularity::Uniform => part * count as f64,
            Popularity::Zipf => (count as f64).powf(part) - 1.0,
        };
        (place as usize).min(count - 1)
    }
}

/// How often it was answered, and how long some of the answers took.
async fn call(
    store: Arc<Redis>,
    keys: Arc<Vec<Key>>,
    stop: Arc<AtomicBool>,
    (mode, limit, popularity): (Mode, Limit, Popularity),
    caller: u64,
) -> (u64, Vec<u32>) {
    let sharing = Sharing {
        mode,
        ..Sharing::default()
    };
    let mut random = caller * 7_919 + 1;
    let (mut count, mut took) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040);
        let key = keys[popularity.draw(random >> 11, keys.len())];
        // One in eight is timed, so that the clock costs little.
        let start = (count % 8 == 0).then(Instant::now);
        let charge = Charge {
            sharing,
            ..Charge::new(key, &limit, Cost::ONE)
        };
        let verdict = store.decide(&[charge]).await;
        assert!(verdict.is_ok(), "{verdict:?}");
        if let Some(start) = start {
            took.push(start.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
        }
        count += 1;
        // Decided here: let the others run.
        if count % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    (count, took)
}

/// Processor time that a process has used so far.
pub(crate) fn processor_seconds(number: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
    let (_, fields) = text.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    // A hundred ticks a second, on every Linux there is.
    (ticks(11) + ticks(12)) / 100.0
}
