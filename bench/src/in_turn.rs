//! Scenarios of waiting: `until_ready` and its like, on tokio.

use std::future::Future;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use governor::DefaultKeyedRateLimiter;
use leaky_bucket::RateLimiter;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tollgate::{Limit, Limiter};

use crate::load::Effort;
use crate::record::{Measured, Record};

const THREADS: usize = 2;

/// Tasks that wait for their turn at one key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InTurn {
    /// Two tasks, and always enough units: what asking costs.
    Ready,
    /// A hundred tasks at 10 000 a second with a burst of 100: what passes.
    Queued,
}

/// A rate limiter that can be waited for.
trait Waits: Send + Sync + 'static {
    fn build(pace: Pace) -> Self;
    fn turn(&self) -> impl Future<Output = ()> + Send;
}

/// So many a second, and so many at once.
#[derive(Clone, Copy)]
struct Pace {
    per_second: u32,
    burst: u32,
}

// === impl InTurn ===

impl InTurn {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            InTurn::Ready => "async-ready-2t",
            InTurn::Queued => "async-queued-10k-per-second",
        }
    }

    /// Measures every contender in turn, in rounds.
    pub(crate) fn measure(self, effort: &Effort) -> Vec<Measured> {
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..effort.rounds {
            let [ours, governor, leaky] = &mut rates;
            ours.push(self.rate::<Limiter>(effort.window));
            governor.push(self.rate::<DefaultKeyedRateLimiter<u64>>(effort.window));
            leaky.push(self.rate::<RateLimiter>(effort.window));
        }
        let names = ["tollgate", "governor", "leaky-bucket"];
        let median = |mut rates: Vec<f64>| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        };
        let able = names.into_iter().zip(rates.map(median));
        let mut measured: Vec<Measured> = able
            .map(|(name, rate)| self.measurement(name, Some(rate), ""))
            .collect();
        for name in ["quota", "ratelimit", "dashmap"] {
            measured.push(self.measurement(name, None, "cannot be waited for"));
        }
        measured
    }

    /// How many tasks a second get their turn.
    fn rate<W: Waits>(self, window: Duration) -> f64 {
        let (tasks, pace) = match self {
            InTurn::Ready => (
                2,
                Pace {
                    per_second: 10_000_000,
                    burst: u32::MAX,
                },
            ),
            InTurn::Queued => (
                100,
                Pace {
                    per_second: 10_000,
                    burst: 100,
                },
            ),
        };
        let runtime: Runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_time()
            .build()
            .expect("the system gives two threads");
        let (limiter, over) = (Arc::new(W::build(pace)), Arc::new(AtomicBool::new(false)));
        let served = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let mut set = JoinSet::new();
        for _ in 0..tasks {
            let (limiter, over) = (Arc::clone(&limiter), Arc::clone(&over));
            let served = Arc::clone(&served);
            let task = async move {
                let mut own = 0;
                while !over.load(Ordering::Relaxed) {
                    limiter.turn().await;
                    own += 1;
                }
                served.fetch_add(black_box(own), Ordering::Relaxed);
            };
            set.spawn_on(task, runtime.handle());
        }
        std::thread::sleep(window);
        over.store(true, Ordering::Relaxed);
        runtime.block_on(async { while set.join_next().await.is_some() {} });
        per_second(served.load(Ordering::Relaxed), began.elapsed())
    }

    fn measurement(self, contender: &str, rate: Option<f64>, note: &str) -> Measured {
        Measured {
            record: Record {
                scenario: self.name().to_owned(),
                contender: contender.to_owned(),
                keys: 1,
                key_kind: "u64".to_owned(),
                distribution: "uniform".to_owned(),
                outcome: "allowed".to_owned(),
                threads: THREADS,
                ops_per_second: rate,
                ..Record::default()
            },
            note: note.to_owned(),
            ..Measured::default()
        }
    }
}

#[expect(
    clippy::as_conversions,
    reason = "exact below 2^53, which no count here reaches"
)]
fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

// === impl Waits ===

impl Waits for Limiter {
    fn build(pace: Pace) -> Limiter {
        let limit = Limit::per_second(pace.per_second).burst(pace.burst);
        Limiter::builder(limit).max_keys(1_000).build()
    }

    async fn turn(&self) {
        self.until_ready(&1_u64).await.expect("one unit fits");
    }
}

impl Waits for DefaultKeyedRateLimiter<u64> {
    fn build(pace: Pace) -> DefaultKeyedRateLimiter<u64> {
        let positive = |units| NonZeroU32::new(units).expect("no pace is 0");
        let quota = governor::Quota::per_second(positive(pace.per_second));
        DefaultKeyedRateLimiter::keyed(quota.allow_burst(positive(pace.burst)))
    }

    async fn turn(&self) {
        self.until_key_ready(&1).await;
    }
}

impl Waits for RateLimiter {
    /// Refills every millisecond, the finest that tokio's timer has.
    fn build(pace: Pace) -> RateLimiter {
        let size = |units| usize::try_from(units).unwrap_or(usize::MAX);
        RateLimiter::builder()
            .initial(size(pace.burst))
            .max(size(pace.burst))
            .refill(size(pace.per_second / 1_000))
            .interval(Duration::from_millis(1))
            .build()
    }

    async fn turn(&self) {
        self.acquire_one().await;
    }
}
