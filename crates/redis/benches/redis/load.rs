//! Callers that send one request after the other, as fast as they are answered.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing};
use tollgate_redis::{Config, Counts, Redis};
use tollgate_testbed as testbed;

/// A load: its callers, keys and duration.
pub(crate) struct Load {
    pub(crate) mode: Mode,
    pub(crate) limit: Limit,
    pub(crate) keys: u32,
    pub(crate) popularity: Popularity,
    pub(crate) callers: u64,
    /// How long the load runs before it is measured, and while it is.
    pub(crate) warms_up: Duration,
    pub(crate) lasts: Duration,
}

/// How often each key is requested.
#[derive(Clone, Copy)]
pub(crate) enum Popularity {
    Uniform,
    /// The n-th key one n-th as often as the first.
    Zipf,
}

/// The results of a load.
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    /// Processor time for a decision.
    pub(crate) redis_micros: f64,
    pub(crate) client_micros: f64,
    /// Decisions for each script call.
    pub(crate) per_call: f64,
    /// The shares of decisions on leased units, and of those by Redis.
    pub(crate) on_lease: f64,
    pub(crate) asked: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
}

/// Draws keys by popularity with a table: a logarithm would cost more than a decision.
struct Draw {
    keys: Arc<Vec<Key>>,
    popularity: Popularity,
    /// The powers of two from 0 to 1, and the logarithm of the number of keys.
    powers: Vec<f64>,
    log: f64,
}

const STEPS: usize = 1024;
const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

impl Load {
    /// Runs on one thread.
    pub(crate) fn run(&self, config: &Config, redis: &testbed::Redis) -> Measured {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(self.ask(config, redis))
    }

    /// Runs the load against a Redis server: starts the callers, lets them warm up, then measures
    /// rate, latency, processor time and messages until the load ends.
    async fn ask(&self, config: &Config, redis: &testbed::Redis) -> Measured {
        let store = Arc::new(Redis::connect(config).unwrap());
        let key = |n: u32| store.key([&b"bench"[..], b"", &n.to_le_bytes()].into_iter());
        let keys: Arc<Vec<Key>> = Arc::new((0..self.keys).map(key).collect());
        let draw = Arc::new(Draw::new(keys, self.popularity));
        let phase = Arc::new(AtomicU8::new(WARMING_UP));
        let numbers = [
            redis.process_number().unwrap(),
            std::process::id().to_string(),
        ];
        let mut callers = JoinSet::new();
        for caller in 0..self.callers {
            callers.spawn(call(
                Arc::clone(&store),
                Arc::clone(&draw),
                Arc::clone(&phase),
                (self.mode, self.limit),
                caller,
            ));
        }
        tokio::time::sleep(self.warms_up).await;
        let before = numbers.each_ref().map(|number| processor_seconds(number));
        let counts_before = store.counts();
        let start = Instant::now();
        phase.store(MEASURING, Ordering::Relaxed);
        tokio::time::sleep(self.lasts).await;
        phase.store(OVER, Ordering::Relaxed);
        let seconds = start.elapsed().as_secs_f64();
        let spent = [0, 1].map(|at| processor_seconds(&numbers[at]) - before[at]);
        let counts = store.counts();
        let reply = callers.join_all().await;
        store.close().await;
        let total: u64 = reply.iter().map(|(count, _)| count).sum();
        let total = total as f64;
        let mut took: Vec<u32> = reply.into_iter().flat_map(|(_, took)| took).collect();
        took.sort_unstable();
        let part = |percent: usize| f64::from(took[(took.len() - 1) * percent / 100]) / 1e3;
        let more = |of: fn(&Counts) -> u64| (of(&counts) - of(&counts_before)) as f64;
        Measured {
            per_second: total / seconds,
            redis_micros: spent[0] * 1e6 / total,
            client_micros: spent[1] * 1e6 / total,
            per_call: total / more(|counts| counts.calls).max(1.0),
            on_lease: more(|counts| counts.lease_decisions) / total,
            asked: more(|counts| counts.requests) / total,
            p50_micros: part(50),
            p99_micros: part(99),
        }
    }
}

impl Draw {
    fn new(keys: Arc<Vec<Key>>, popularity: Popularity) -> Draw {
        let step = |step: usize| (step as f64 / STEPS as f64).exp2();
        Draw {
            log: (keys.len() as f64).log2(),
            powers: (0..=STEPS).map(step).collect(),
            popularity,
            keys,
        }
    }

    /// A key, from 53 random bits.
    fn key(&self, random: u64) -> Key {
        let part = random as f64 / (1_u64 << 53) as f64;
        let count = self.keys.len();
        let place = match self.popularity {
            Popularity::Uniform => part * count as f64,
            Popularity::Zipf => self.power(part * self.log) - 1.0,
        };
        self.keys[(place as usize).min(count - 1)]
    }

    /// Two to the power of `exponent`, to six digits.
    fn power(&self, exponent: f64) -> f64 {
        let whole = exponent as u32;
        let steps = (exponent - f64::from(whole)) * STEPS as f64;
        let step = steps as usize;
        let (low, high) = (self.powers[step], self.powers[step + 1]);
        (low + (high - low) * (steps - step as f64)) * f64::from(1_u32 << whole)
    }
}

/// How many decisions a caller got while the load was measured, and how long some of them took.
async fn call(
    store: Arc<Redis>,
    draw: Arc<Draw>,
    phase: Arc<AtomicU8>,
    (mode, limit): (Mode, Limit),
    caller: u64,
) -> (u64, Vec<u32>) {
    let sharing = Sharing::in_mode(mode);
    let mut random = caller * 7_919 + 1;
    let (mut asked, mut count, mut took) = (0_u64, 0, Vec::new());
    loop {
        let phase = phase.load(Ordering::Relaxed);
        if phase == OVER {
            return (count, took);
        }
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040);
        // One in 32 is timed, so that the clock costs little.
        let start = (phase == MEASURING && asked % 32 == 0).then(Instant::now);
        let charge = Charge::new(draw.key(random >> 11), &limit, Cost::ONE).shared(sharing);
        match store.check(&charge).await {
            Ok(decision) => drop(black_box(decision.is_allowed())),
            Err(error) => panic!("{error}"),
        }
        if let Some(start) = start {
            took.push(start.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
        }
        count += u64::from(phase == MEASURING);
        asked += 1;
        // A local decision does not yield to other tasks.
        if asked % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// The processor time that a process has used so far.
pub(crate) fn processor_seconds(number: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
    let (_, fields) = text.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    // Linux counts a hundred ticks a second.
    (ticks(11) + ticks(12)) / 100.0
}
