//! Scenarios of memory: how many resident bytes each key takes, and how many keys were evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate::{Algorithm, Anchor, Limit, Limiter, ManualClock, Segments, Span};

use crate::contender::{Contender, Outcome};
use crate::contenders::{ByHand, Governor, Quota};
use crate::keys::{BenchKey, KeyKind, Random};
use crate::record::{Measured, Record};
use tollgate_bench::machine::resident_bytes;

/// Room for each key, and for each number that its state consists of: of both only what is used
/// becomes resident.
const BYTES_PER_KEY: usize = 256;
const BYTES_PER_NUMBER: usize = 8;
/// Of so many keys every allowed moment is written down beside, to hold the store to it.
const WITNESSES: usize = 16;

/// Whose memory is measured, in a process of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    pub(crate) holder: Holder,
    pub(crate) keys: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder {
    /// One of Tollgate's algorithms with N per hour, all of them allowed and remembered.
    Tollgate(Algorithm, u32),
    Governor,
    Quota,
    ByHand,
}

type TestLimiter = Limiter<Arc<ManualClock>>;

// === impl Resident ===

impl Resident {
    /// `memory-1M-token_bucket/tollgate`: what is measured, and in whom.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.scenario(), self.holder.contender())
    }

    fn scenario(&self) -> String {
        let keys = match self.keys {
            keys if keys.is_multiple_of(1_000_000) => format!("{}M", keys / 1_000_000),
            keys => format!("{}k", keys / 1_000),
        };
        format!("memory-{keys}-{}", self.holder.algorithm_name())
    }

    /// Measures how much resident memory grows for each key.
    pub(crate) fn measure(&self) -> Vec<Measured> {
        // Made before memory is looked at: the requests' own, no contender's.
        let names: Vec<String> = (0..self.keys).map(String::of).collect();
        let before = resident_bytes();
        let mut measured = match self.holder {
            Holder::Tollgate(algorithm, count) => self.measure_ours(
                &Limit::per_hour(count).counted_by(algorithm),
                &names,
                before,
            ),
            Holder::Governor => self.measure_peer::<Governor<String>>(&names, before),
            Holder::Quota => self.measure_peer::<Quota<String>>(&names, before),
            Holder::ByHand => self.measure_peer::<ByHand<String>>(&names, before),
        };
        measured.record = Record {
            scenario: self.scenario(),
            contender: self.holder.contender().to_owned(),
            keys: self.keys,
            key_kind: KeyKind::String.name().to_owned(),
            distribution: "each once".to_owned(),
            outcome: Outcome::Allowed.name().to_owned(),
            threads: 1,
            ..measured.record
        };
        vec![measured]
    }

    fn measure_peer<C: Contender<String>>(&self, names: &[String], before: u64) -> Measured {
        let peer = C::build(self.keys, Outcome::Allowed);
        for name in names {
            std::hint::black_box(peer.check(name));
        }
        let measured = self.bytes(resident_bytes().saturating_sub(before));
        drop(peer);
        measured
    }

    fn measure_ours(&self, limit: &Limit, names: &[String], before: u64) -> Measured {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Span::DAY);
        let limiter = build(*limit, self.keys, Arc::clone(&clock));
        let witness = self.fill(&limiter, &clock, names);
        let resident = resident_bytes().saturating_sub(before);
        let stats = limiter.stats();
        let exact = match limit.algorithm() {
            Algorithm::SlidingLog => witness.confirm(&limiter, &clock),
            _ => String::new(),
        };
        let missing = self.keys.saturating_sub(stats.live_keys);
        Measured {
            lost_keys: Some(missing.max(stats.evicted_keys)),
            note: exact,
            ..self.bytes(resident)
        }
    }

    /// Allows all N units of every key over less than the hour, so that everything is remembered:
    /// every stamp of a log, every counter of a window.
    fn fill(&self, limiter: &TestLimiter, clock: &ManualClock, names: &[String]) -> Witness {
        let limit = limiter.limit();
        let rounds = match limit.algorithm() {
            Algorithm::SlidingLog => u64::from(limit.count()),
            Algorithm::SlidingWindow(segments) => u64::from(segments.get()),
            _ => 1,
        };
        let units = if rounds == 1 {
            u64::from(limit.count())
        } else {
            1
        };
        // Anywhere within twice the step, on average just below it: no two keys are in step.
        let step = limit.window().as_nanos() / (rounds * self.keys).max(1);
        let twice = step.max(1) * 2 * 99 / 100;
        let (mut random, mut witness) = (Random::new(7), Witness::default());
        for _ in 0..rounds {
            for (id, name) in names.iter().enumerate() {
                clock.advance(Span::from_nanos(random.below(twice)));
                let decision = limiter.check_n(name, units);
                if id < WITNESSES && decision.is_allowed() {
                    witness.saw(id, clock);
                }
            }
        }
        witness
    }

    #[expect(
        clippy::as_conversions,
        reason = "bytes and keys are far below 2^53, where `as` is exact"
    )]
    fn bytes(&self, resident: u64) -> Measured {
        Measured {
            record: Record {
                bytes_per_key: Some(resident as f64 / self.keys as f64),
                ..Record::default()
            },
            ..Measured::default()
        }
    }
}

fn build(limit: Limit, keys: u64, clock: Arc<ManualClock>) -> TestLimiter {
    let keys = usize::try_from(keys).unwrap_or(usize::MAX);
    let builder = Limiter::builder(limit).max_keys(keys).clock(clock);
    match limit.algorithm() {
        Algorithm::SlidingLog => builder.max_bytes(keys * room(limit.count())).build(),
        Algorithm::SlidingWindow(segments) => {
            let counters = u32::from(segments.get()) + 1;
            builder.max_bytes(keys * room(counters)).build()
        }
        _ => builder.build(),
    }
}

fn room(numbers: u32) -> usize {
    BYTES_PER_KEY + BYTES_PER_NUMBER * usize::try_from(numbers).unwrap_or(0)
}

// === impl Holder ===

impl Holder {
    const fn contender(self) -> &'static str {
        match self {
            Holder::Tollgate(..) => "tollgate",
            Holder::Governor => "governor",
            Holder::Quota => "quota",
            Holder::ByHand => "dashmap",
        }
    }

    /// The algorithm, as far as its memory depends on it.
    fn algorithm_name(self) -> String {
        match self {
            Holder::Tollgate(Algorithm::SlidingWindow(segments), _) => {
                format!("sliding_window-{}", segments.get())
            }
            Holder::Tollgate(Algorithm::FixedWindow(Anchor::FirstRequest), _) => {
                "fixed_window-first_request".to_owned()
            }
            Holder::Tollgate(Algorithm::SlidingLog, count) => format!("sliding_log-{count}"),
            Holder::Tollgate(algorithm, _) => algorithm.to_string(),
            Holder::Governor | Holder::Quota => Algorithm::TokenBucket.to_string(),
            Holder::ByHand => "fixed_window-first_request".to_owned(),
        }
    }

    /// Every contender, and of ours every algorithm.
    pub(crate) fn all() -> Vec<Holder> {
        let segments = |count| Segments::new(count).expect("1 to 60 are allowed");
        let ours = [
            Algorithm::TokenBucket,
            Algorithm::LeakyBucket,
            Algorithm::FixedWindow(Anchor::Clock),
            Algorithm::FixedWindow(Anchor::FirstRequest),
            Algorithm::SlidingWindow(segments(1)),
            Algorithm::SlidingWindow(segments(6)),
            Algorithm::SlidingWindow(segments(60)),
            Algorithm::SlidingLog,
        ];
        let mut all = vec![Holder::Governor, Holder::Quota, Holder::ByHand];
        all.extend(ours.map(|algorithm| match algorithm {
            Algorithm::SlidingLog => Holder::Tollgate(algorithm, 10),
            _ => Holder::Tollgate(algorithm, 100),
        }));
        all
    }
}

/// What a few keys were granted, written down beside the store.
#[derive(Default)]
struct Witness {
    granted: BTreeMap<usize, Vec<u64>>,
}

// === impl Witness ===

impl Witness {
    fn saw(&mut self, id: usize, clock: &ManualClock) {
        self.granted.entry(id).or_default().push(now(clock));
    }

    /// Whether each key's oldest units leave at their own nanosecond: one earlier denies.
    fn confirm(&self, limiter: &TestLimiter, clock: &ManualClock) -> String {
        let window = limiter.limit().window().as_nanos();
        let mut leaving: Vec<(u64, usize)> = Vec::new();
        for (id, granted) in &self.granted {
            leaving.extend(granted.iter().take(3).map(|at| (at + window, *id)));
        }
        leaving.sort_unstable();
        let mut wrong = 0_u32;
        for (at, id) in &leaving {
            let key = String::of(u64::try_from(*id).unwrap_or(u64::MAX));
            clock.advance(Span::from_nanos((at - 1).saturating_sub(now(clock))));
            wrong += u32::from(limiter.check(&key).is_allowed());
            clock.advance(Span::NANOSECOND);
            wrong += u32::from(!limiter.check(&key).is_allowed());
        }
        match wrong {
            0 => format!("exact to the nanosecond at {} moments", leaving.len()),
            wrong => format!("WRONG at {wrong} of {} moments", leaving.len()),
        }
    }
}

fn now(clock: &ManualClock) -> u64 {
    tollgate::Clock::now(clock).monotonic.as_nanos()
}
