//! Attack scenarios: an endless flood of new keys, and busy keys among them.

use std::sync::Barrier;
use std::time::Instant;

use tollgate::{Limit, Limiter};

use crate::contender::{Contender, Outcome};
use crate::contenders::{Governor, Quota};
use crate::record::{Measured, Record};
use tollgate_bench::machine::{pin, resident_bytes};

/// The size of the table under attack.
const MAX_KEYS: usize = 1_000_000;
const THREADS: u64 = 2;
/// Keys that hammer.
const HAMMERS: u64 = 10_000;
/// New keys between two requests of keys that hammer.
const NEW_PER_HAMMER: u64 = 10;
/// Of the flood, the part after which the table is full and memory is looked at first.
const FULL_AFTER: u64 = 10;

/// New keys, each asking once, while others hammer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flood {
    pub(crate) new_keys: u64,
    pub(crate) target: Target,
}

/// Who is flooded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Ours, with a limit of so many an hour.
    Tollgate(u32),
    /// Ours, with rules of four windows in one memory.
    MixedWindows,
    Governor,
    Quota,
}

/// How many units the busy keys got beyond their limits.
struct Excess {
    allowed: u64,
    beyond: u64,
}

// === impl Flood ===

impl Flood {
    pub(crate) fn name(&self) -> String {
        match self.target {
            Target::Tollgate(_) | Target::MixedWindows => self.scenario(),
            Target::Governor => format!("{}/governor", self.scenario()),
            Target::Quota => format!("{}/quota", self.scenario()),
        }
    }

    fn scenario(&self) -> String {
        let new = self.new_keys / 1_000_000;
        match self.target {
            Target::Tollgate(count) => format!("flood-{new}M-n{count}"),
            Target::MixedWindows => format!("flood-{new}M-mixed"),
            Target::Governor | Target::Quota => format!("flood-{new}M-n1"),
        }
    }

    /// Measures every contender.
    pub(crate) fn measure(&self) -> Vec<Measured> {
        let mut measured = match self.target {
            Target::Tollgate(count) => self.measure_ours(&[Limit::per_hour(count)]),
            Target::MixedWindows => self.measure_ours(&[
                Limit::per_second(1),
                Limit::per_minute(10),
                Limit::per_hour(100),
                Limit::per_day(100),
            ]),
            Target::Governor => self.measure_peer::<Governor<u64>>(),
            Target::Quota => self.measure_peer::<Quota<u64>>(),
        };
        measured.record = Record {
            scenario: self.scenario(),
            contender: match self.target {
                Target::Governor => "governor".to_owned(),
                Target::Quota => "quota".to_owned(),
                Target::Tollgate(_) | Target::MixedWindows => "tollgate".to_owned(),
            },
            keys: self.new_keys,
            key_kind: "u64".to_owned(),
            distribution: "each once".to_owned(),
            outcome: "new keys".to_owned(),
            threads: 2,
            ..measured.record
        };
        vec![measured]
    }

    /// Measures Tollgate with one limit for the hammered keys and others for the flood.
    fn measure_ours(&self, limits: &[Limit]) -> Measured {
        let [first, others @ ..] = limits else {
            return Measured::default();
        };
        let before = resident_bytes();
        let first = Limiter::builder(*first).max_keys(MAX_KEYS).build();
        let mut limiters = Vec::with_capacity(limits.len());
        limiters.extend(others.iter().map(|limit| first.sibling("other", *limit)));
        limiters.push(first);
        // Which limit a key meets depends on the key, so all are met by all kinds of keys.
        let kinds = u64::try_from(limiters.len()).unwrap_or(1);
        let limiter = |key: u64| &limiters[usize::try_from(key % kinds).unwrap_or(0)];
        let run = self.run(|key| limiter(key).check(&key).is_allowed());
        let excess = run.excess(|key| limiter(key).limit());
        let evicted = limiters[0].stats().evicted_keys;
        Measured {
            excess: Some(ratio(excess.beyond, excess.allowed)),
            note: format!(
                "{evicted} keys evicted, {} failures",
                limiters[0].failures()
            ),
            ..run.measurement(before, MAX_KEYS)
        }
    }

    fn measure_peer<C: Contender<u64>>(&self) -> Measured {
        let before = resident_bytes();
        let peer = C::build(1, Outcome::Denied);
        let run = self.run(|key| peer.check(&key));
        let keys = usize::try_from(self.new_keys).unwrap_or(1);
        let mut measured = run.measurement(before, keys);
        measured.note = format!("grows to {} MB", run.resident_after / 1_000_000);
        measured
    }

    /// Floods from all threads; each hammers with keys of its own.
    fn run(&self, check: impl Fn(u64) -> bool + Sync) -> Run {
        let own = self.new_keys / THREADS;
        // Both threads pause while memory is measured.
        let [full, after_full, end, after_end] = [3; 4].map(Barrier::new);
        let began = Instant::now();
        let mut allowed: Vec<(u64, u64)> = Vec::new();
        let (mut resident_full, mut resident_after) = (0, 0);
        std::thread::scope(|scope| {
            let thread = |number: u64| {
                let (check, full, after_full) = (&check, &full, &after_full);
                let (end, after_end) = (&end, &after_end);
                scope.spawn(move || {
                    pin(usize::try_from(number).unwrap_or(0));
                    let mut hammers = Hammers::of(number);
                    for new in 0..own {
                        if new == own / FULL_AFTER {
                            full.wait();
                            after_full.wait();
                        }
                        std::hint::black_box(check(HAMMERS + new * THREADS + number));
                        if new.is_multiple_of(NEW_PER_HAMMER) {
                            hammers.strike(check);
                        }
                    }
                    end.wait();
                    after_end.wait();
                    hammers.allowed
                })
            };
            let threads: Vec<_> = (0..THREADS).map(thread).collect();
            full.wait();
            resident_full = resident_bytes();
            after_full.wait();
            end.wait();
            resident_after = resident_bytes();
            after_end.wait();
            for thread in threads {
                allowed.extend(thread.join().expect("no contender panics"));
            }
        });
        Run {
            seconds: began.elapsed().as_secs_f64(),
            decisions: self.new_keys + self.new_keys / NEW_PER_HAMMER,
            allowed,
            resident_full,
            resident_after,
        }
    }
}

/// The keys with which one thread hammers, and how often each was allowed.
struct Hammers {
    allowed: Vec<(u64, u64)>,
    next: usize,
}

// === impl Hammers ===

impl Hammers {
    fn of(thread: u64) -> Hammers {
        // By fours, so that both threads meet all of up to four limits.
        let own = (0..HAMMERS).filter(|key| key / 4 % THREADS == thread);
        let allowed = own.map(|key| (key, 0)).collect();
        Hammers { allowed, next: 0 }
    }

    fn strike(&mut self, check: impl Fn(u64) -> bool) {
        let (key, allowed) = &mut self.allowed[self.next];
        *allowed += u64::from(check(*key));
        self.next = (self.next + 1) % self.allowed.len();
    }
}

/// The result of a flood.
struct Run {
    seconds: f64,
    decisions: u64,
    allowed: Vec<(u64, u64)>,
    resident_full: u64,
    resident_after: u64,
}

// === impl Run ===

impl Run {
    /// Compares with the most that each key's bucket allows in the duration of the flood.
    fn excess(&self, limit_of: impl Fn(u64) -> Limit) -> Excess {
        let mut excess = Excess {
            allowed: 0,
            beyond: 0,
        };
        for (key, used) in &self.allowed {
            let limit = limit_of(*key);
            let interval = limit.interval().map_or(f64::INFINITY, seconds);
            let refilled = (self.seconds / interval).floor();
            let allowed = u64::from(limit.capacity()) + whole(refilled);
            excess.allowed += allowed;
            excess.beyond += used.saturating_sub(allowed);
        }
        excess
    }

    fn measurement(&self, before: u64, keys: usize) -> Measured {
        let keys = u64::try_from(keys).unwrap_or(1);
        let resident = self.resident_after.saturating_sub(before);
        Measured {
            record: Record {
                ops_per_second: Some(float(self.decisions) / self.seconds),
                bytes_per_key: Some(ratio(resident, keys)),
                ..Record::default()
            },
            growth: Some(ratio(self.resident_after, self.resident_full)),
            ..Measured::default()
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    float(part) / float(whole.max(1))
}

fn seconds(span: tollgate::Span) -> f64 {
    std::time::Duration::from(span).as_secs_f64()
}

#[expect(
    clippy::as_conversions,
    reason = "exact below 2^53, which no count here reaches"
)]
const fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::as_conversions,
    clippy::cast_sign_loss,
    reason = "whole, positive and small"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}
