//! Decisions in memory: one thread, a million keys, each as likely as the others.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tollgate::{Limit, Limiter, Span};
use tollgate_bench::latency::median;

use crate::constant::{Constants, Unit};

const KEYS: u64 = 1_000_000;
/// Decisions of a round.
const DECISIONS: u32 = 1_000_000;

/// The limits that are measured, which no run exhausts and whose keys do not expire within one, by
/// the last part of the names of their constants.
pub(crate) fn limits() -> [(&'static str, Limit); 7] {
    let first = "100 per 1h fixed_window from the first request";
    let parse = |text: &str| text.parse::<Limit>().expect("it is a limit");
    let hour = Span::HOUR;
    let valid = "an hour is a window";
    [
        ("token_bucket", parse("1000 per 1d token_bucket")),
        ("leaky_bucket", parse("1000 per 1d leaky_bucket")),
        ("fixed_window", parse("1000 per 1d fixed_window")),
        ("fixed_window_first", parse(first)),
        (
            "sliding_window",
            Limit::sliding_window(10_000, hour, 1).expect(valid),
        ),
        (
            "sliding_window_segments",
            Limit::sliding_window(10_000, hour, 60).expect(valid),
        ),
        ("sliding_log", parse("100 per 1h sliding_log")),
    ]
}

/// Measures a decision of each algorithm.
pub(crate) fn measure(rounds: u32, constants: &mut Constants) {
    for (name, limit) in limits() {
        let keys = usize::try_from(KEYS).expect("it fits");
        let limiter = Limiter::builder(limit).max_keys(keys).build();
        for key in 0..KEYS {
            black_box(limiter.check(&key).is_allowed());
        }
        let mut random = 1;
        let rounds = (0..rounds).map(|_round| measure_round(&limiter, &mut random));
        let nanos = median(rounds);
        let what = format!("processor time of a decision in memory, {limit}, {KEYS} keys");
        constants.put(&format!("library.{name}"), nanos, Unit::Nanos, &what);
    }
}

/// Nanoseconds of a decision.
fn measure_round(limiter: &Limiter, random: &mut u64) -> f64 {
    let before = thread_time();
    for _decision in 0..DECISIONS {
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let key = (*random >> 33) % KEYS;
        black_box(limiter.check(&key).is_allowed());
    }
    let took = thread_time() - before;
    took.as_secs_f64() * 1e9 / f64::from(DECISIONS)
}

/// The processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}
