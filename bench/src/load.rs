//! Load scenarios: decisions per second for a fixed set of keys.

use std::net::IpAddr;
use std::time::Duration;

use crate::contender::Outcome;
use crate::entrant::Drive;
use crate::keys::{BenchKey, Distribution, KeyKind, Sequences};
use crate::lineup::{Course, Lineup};
use crate::record::{Measured, Record};
use tollgate_bench::latency::{BasisPoints, Histogram};

/// The decisions of a process whose instructions are counted.
pub(crate) const COUNTED: usize = 1 << 13;
/// Its keys at most: more only take longer.
const COUNTED_KEYS_MAX: u64 = 20_000;

/// The keys, the distribution of requests, and the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) lineup: Lineup,
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
    /// The scenario's name: `1M-u64-uniform-allowed-2t`, or `algorithms-1M-u64-...`.
    pub(crate) fn name(&self) -> String {
        let keys = match self.keys {
            1 => "hot".to_owned(),
            keys if keys.is_multiple_of(1_000_000) => format!("{}M", keys / 1_000_000),
            keys if keys.is_multiple_of(1_000) => format!("{}k", keys / 1_000),
            keys => keys.to_string(),
        };
        let (kind, outcome, threads) = (self.kind.name(), self.outcome.name(), self.threads);
        let name = match (self.keys, self.distribution) {
            (1, _) => format!("{keys}-{kind}-{outcome}-{threads}t"),
            (_, Distribution::Uniform) => format!("{keys}-{kind}-uniform-{outcome}-{threads}t"),
            (_, Distribution::Zipf) => format!("{keys}-{kind}-zipf-{outcome}-{threads}t"),
        };
        match self.lineup {
            Lineup::Peers => name,
            Lineup::Algorithms => format!("algorithms-{name}"),
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

    /// Lets one contender decide in one thread, whose instructions are counted; `false` if
    /// it does not take part.
    pub(crate) fn count(&self, contender: &str) -> bool {
        let of_one_thread = Load {
            keys: self.keys.min(COUNTED_KEYS_MAX),
            threads: 1,
            ..*self
        };
        match self.kind {
            KeyKind::U64 => of_one_thread.count_with::<u64>(contender),
            KeyKind::String => of_one_thread.count_with::<String>(contender),
            KeyKind::Ip => of_one_thread.count_with::<IpAddr>(contender),
        }
    }

    fn count_with<K: BenchKey>(&self, contender: &str) -> bool {
        let sequences = Sequences::<K>::draw(self.keys, self.distribution, self.threads);
        let numbers = Sequences::<u64>::draw(self.keys, self.distribution, self.threads);
        let entrants = self.lineup.entrants(&self.course(&sequences, &numbers));
        let found = entrants.iter().find(|entrant| entrant.name() == contender);
        if let Some(entrant) = found {
            entrant.warm();
            entrant.count(COUNTED);
        }
        found.is_some()
    }

    const fn course<'k, K>(
        &self,
        sequences: &'k Sequences<K>,
        numbers: &'k Sequences<u64>,
    ) -> Course<'k, K> {
        Course {
            keys: self.keys,
            outcome: self.outcome,
            sequences,
            numbers,
        }
    }

    /// Measures every contender with one type of keys.
    fn measure_with<K: BenchKey>(&self, effort: &Effort) -> Vec<Measured> {
        let sequences = Sequences::<K>::draw(self.keys, self.distribution, self.threads);
        let numbers = Sequences::<u64>::draw(self.keys, self.distribution, self.threads);
        let entrants = self.lineup.entrants(&self.course(&sequences, &numbers));
        entrants.iter().for_each(|entrant| entrant.warm());
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
        let absent = self.lineup.absent(self.keys).into_iter();
        measured.extend(absent.map(|(contender, note)| self.cannot(contender, note)));
        measured
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
        let note = self.note(median.allowed_share);
        // A fast wrong answer is no result; the floors decide nothing.
        let is_right = note.is_empty() || contender.starts_with("floor");
        Measured {
            record: Record {
                ops_per_second: is_right.then_some(median.per_second),
                p50_ns: within(5_000),
                p99_ns: within(9_900),
                p9999_ns: within(9_999),
                ..self.record(contender)
            },
            note,
            allowed_share: Some(median.allowed_share),
            ..Measured::default()
        }
    }

    /// What share was allowed, if that is not what the scenario is about.
    fn note(&self, allowed: f64) -> String {
        match self.outcome {
            Outcome::Allowed if allowed < 0.999 => format!("{:.1} % allowed", allowed * 100.0),
            Outcome::Denied if allowed > 0.001 => format!("{:.1} % allowed", allowed * 100.0),
            _ => String::new(),
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
