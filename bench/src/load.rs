//! Load scenarios: decisions per second for a fixed set of keys.

use std::net::IpAddr;
use std::time::Duration;

use crate::contender::Outcome;
use crate::contenders::{
    ByHand, Floor, FloorClock, Governor, Quota, Ratelimit, Tollgate, TollgateBatch,
};
use crate::entrant::{Drive, Entrant, Entry, Manner};
use crate::keys::{BenchKey, Distribution, KeyKind, Sequences};
use crate::record::{Measured, Record};
use tollgate_bench::latency::{BasisPoints, Histogram};

/// The keys, the distribution of requests, and the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) keys: u64,
    pub(crate) kind: KeyKind,
    pub(crate) distribution: Distribution,
    pub(crate) outcome: Outcome,
    pub(crate) threads: usize,
}

/// The duration and the number of measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) window: Duration,
    /// Odd, so that there is a median.
    pub(crate) rounds: usize,
    pub(crate) timed_rounds: usize,
}

// === impl Effort ===

impl Effort {
    /// So that the figures take three minutes, and a hundred scenarios less than an hour.
    pub(crate) const USUAL: Effort = Effort {
        window: Duration::from_millis(200),
        rounds: 5,
        timed_rounds: 3,
    };
}

// === impl Load ===

impl Load {
    /// The scenario's name: `1M-u64-uniform-allowed-2t`.
    pub(crate) fn name(&self) -> String {
        let keys = match self.keys {
            1 => "hot".to_owned(),
            keys if keys.is_multiple_of(1_000_000) => format!("{}M", keys / 1_000_000),
            keys if keys.is_multiple_of(1_000) => format!("{}k", keys / 1_000),
            keys => keys.to_string(),
        };
        let (kind, outcome, threads) = (self.kind.name(), self.outcome.name(), self.threads);
        match (self.keys, self.distribution) {
            (1, _) => format!("{keys}-{kind}-{outcome}-{threads}t"),
            (_, Distribution::Uniform) => format!("{keys}-{kind}-uniform-{outcome}-{threads}t"),
            (_, Distribution::Zipf) => format!("{keys}-{kind}-zipf-{outcome}-{threads}t"),
        }
    }

    /// Measures every contender, one after the other in each round.
    pub(crate) fn measure(&self, effort: &Effort) -> Vec<Measured> {
        match self.kind {
            KeyKind::U64 => self.measure_with::<u64>(effort),
            KeyKind::String => self.measure_with::<String>(effort),
            KeyKind::Ip => self.measure_with::<IpAddr>(effort),
        }
    }

    /// Measures every contender with one type of keys.
    fn measure_with<K: BenchKey>(&self, effort: &Effort) -> Vec<Measured> {
        let sequences = Sequences::<K>::draw(self.keys, self.distribution, self.threads);
        let numbers = Sequences::<u64>::draw(self.keys, self.distribution, self.threads);
        let entrants = self.entrants(&sequences, &numbers);
        let mut drives: Vec<Vec<Drive>> = vec![Vec::new(); entrants.len()];
        for _ in 0..effort.rounds {
            for (entrant, drives) in entrants.iter().zip(&mut drives) {
                drives.push(entrant.drive(effort.window));
            }
        }
        let mut times: Vec<Option<Histogram>> = vec![None; entrants.len()];
        for _ in 0..effort.timed_rounds {
            for (entrant, times) in entrants.iter().zip(&mut times) {
                let more = entrant.time(effort.window);
                *times = match (times.take(), more) {
                    (Some(times), Some(more)) => Some(times.and(more)),
                    (times, more) => times.or(more),
                };
            }
        }
        let measured = entrants.iter().zip(drives).zip(times);
        let mut measured: Vec<Measured> = measured
            .map(|((entrant, drives), times)| {
                self.measurement(entrant.name(), drives, times.as_ref())
            })
            .collect();
        if self.keys > 1 {
            measured.push(self.cannot("ratelimit", "no keys"));
        }
        measured.push(self.cannot("leaky-bucket", "only waits: see async"));
        measured
    }

    /// Every contender that can do this, warmed up.
    fn entrants<'k, K: BenchKey>(
        &self,
        sequences: &'k Sequences<K>,
        numbers: &'k Sequences<u64>,
    ) -> Vec<Box<dyn Entrant + 'k>> {
        use Manner::{Batches, OneAtATime};
        let load = (self.keys, self.outcome);
        let mut entrants: Vec<Box<dyn Entrant + 'k>> = vec![
            Box::new(Entry::<Tollgate, K>::new(
                "tollgate", OneAtATime, load, sequences,
            )),
            Box::new(Entry::<TollgateBatch, K>::new(
                "tollgate-batch",
                Batches,
                load,
                sequences,
            )),
            Box::new(Entry::<Governor<K>, K>::new(
                "governor", OneAtATime, load, sequences,
            )),
            Box::new(Entry::<Quota<K>, K>::new(
                "quota", OneAtATime, load, sequences,
            )),
            Box::new(Entry::<ByHand<K>, K>::new(
                "dashmap", OneAtATime, load, sequences,
            )),
        ];
        if self.keys == 1 {
            let ratelimit = Entry::<Ratelimit, K>::new("ratelimit", OneAtATime, load, sequences);
            entrants.push(Box::new(ratelimit));
        }
        entrants.push(Box::new(Entry::<Floor, u64>::new(
            "floor", OneAtATime, load, numbers,
        )));
        entrants.push(Box::new(Entry::<FloorClock, u64>::new(
            "floor-clock",
            OneAtATime,
            load,
            numbers,
        )));
        entrants.iter().for_each(|entrant| entrant.warm());
        entrants
    }

    /// The record of one contender: the median of its drives, and its latencies.
    fn measurement(
        &self,
        contender: &str,
        drives: Vec<Drive>,
        times: Option<&Histogram>,
    ) -> Measured {
        let within = |share| times.and_then(|times| times.within(BasisPoints(share)));
        let median = median(drives);
        Measured {
            record: Record {
                ops_per_second: Some(median.per_second),
                p50_ns: within(5_000),
                p99_ns: within(9_900),
                p9999_ns: within(9_999),
                ..self.record(contender)
            },
            allowed_share: Some(median.allowed_share),
            ..Measured::default()
        }
    }

    fn cannot(&self, contender: &str, note: &str) -> Measured {
        Measured {
            record: self.record(contender),
            note: note.to_owned(),
            ..Measured::default()
        }
    }

    fn record(&self, contender: &str) -> Record {
        Record {
            scenario: self.name(),
            contender: contender.to_owned(),
            keys: self.keys,
            key_kind: self.kind.name().to_owned(),
            distribution: self.distribution.name().to_owned(),
            outcome: self.outcome.name().to_owned(),
            threads: self.threads,
            ..Record::default()
        }
    }
}

fn median(mut drives: Vec<Drive>) -> Drive {
    drives.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    drives[drives.len() / 2]
}
