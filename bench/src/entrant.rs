//! A warm contender with its keys, driven by any number of threads.

use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::contender::{BATCH, Contender, Outcome};
use crate::keys::{BenchKey, Sequences};
use tollgate_bench::latency::Histogram;
use tollgate_bench::machine::pin;

/// One decision in this many is timed; the others run without measurement.
const TIMED_ONE_IN: usize = 8;

/// The result of one measuring window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drive {
    /// Decisions of all threads a second.
    pub(crate) per_second: f64,
    /// Of these, how many were allowed.
    pub(crate) allowed_share: f64,
}

/// A contender as a trait object, so that all of them fit into one list.
pub(crate) trait Entrant: Sync {
    fn name(&self) -> &'static str;

    /// Decides once for every key.
    fn warm(&self);

    /// All threads decide for as long as `window`.
    fn drive(&self, window: Duration) -> Drive;

    /// As [`Entrant::drive`], timing single decisions.
    fn time(&self, window: Duration) -> Option<Histogram>;

    /// Decides so many times in this thread, in batches of [`BATCH`], to be
    /// counted.
    fn count(&self, decisions: usize);
}

/// How a contender is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    OneAtATime,
    Batches,
}

/// A contender, its keys and its threads.
pub(crate) struct Entry<'k, C, K> {
    name: &'static str,
    contender: C,
    manner: Manner,
    keys: u64,
    sequences: &'k Sequences<K>,
    kind: PhantomData<K>,
}

// === impl Entry ===

impl<'k, C: Contender<K>, K: BenchKey> Entry<'k, C, K> {
    pub(crate) fn new(
        name: &'static str,
        manner: Manner,
        (keys, outcome): (u64, Outcome),
        sequences: &'k Sequences<K>,
    ) -> Entry<'k, C, K> {
        Entry {
            name,
            contender: C::build(keys, outcome),
            manner,
            keys,
            sequences,
            kind: PhantomData,
        }
    }

    #[inline(always)]
    fn decide(&self, chunk: &[K]) -> u64 {
        match self.manner {
            Manner::Batches => self.contender.check_many(chunk),
            Manner::OneAtATime => {
                let one = |key| u64::from(self.contender.check(black_box(key)));
                chunk.iter().map(one).sum()
            }
        }
    }

    /// As [`Entry::decide`], in a stack frame of its own, by whose name it is found.
    #[inline(never)]
    fn decide_counted(&self, chunk: &[K]) -> u64 {
        self.decide(chunk)
    }

    /// Runs `work` on every thread with its sequence until the window is over.
    fn on_all_threads<T: Send>(
        &self,
        window: Duration,
        work: impl Fn(&[K], &AtomicBool) -> T + Sync,
    ) -> Vec<T> {
        let (start, over) = (
            Barrier::new(self.sequences.0.len() + 1),
            AtomicBool::new(false),
        );
        std::thread::scope(|scope| {
            let run = |(number, sequence): (usize, &'k Vec<K>)| {
                let (start, over, work) = (&start, &over, &work);
                scope.spawn(move || {
                    pin(number);
                    start.wait();
                    work(sequence, over)
                })
            };
            let threads: Vec<_> = self.sequences.0.iter().enumerate().map(run).collect();
            start.wait();
            std::thread::sleep(window);
            over.store(true, Ordering::Relaxed);
            let join = |thread: std::thread::ScopedJoinHandle<'_, T>| {
                thread.join().expect("no contender panics")
            };
            threads.into_iter().map(join).collect()
        })
    }
}

impl<C: Contender<K>, K: BenchKey> Entrant for Entry<'_, C, K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn warm(&self) {
        for id in 0..self.keys {
            black_box(self.contender.check(&K::of(id)));
        }
    }

    #[expect(
        clippy::as_conversions,
        reason = "a float is exact far beyond the decisions of a window"
    )]
    fn drive(&self, window: Duration) -> Drive {
        let allowed = AtomicU64::new(0);
        let decided = AtomicU64::new(0);
        let rates = self.on_all_threads(window, |sequence, over| {
            let began = Instant::now();
            let (mut done, mut passed) = (0_u64, 0_u64);
            'window: loop {
                for chunk in sequence.chunks_exact(BATCH) {
                    if over.load(Ordering::Relaxed) {
                        break 'window;
                    }
                    passed += self.decide(chunk);
                    done += 1;
                }
            }
            let done = done * u64::try_from(BATCH).unwrap_or(1);
            decided.fetch_add(done, Ordering::Relaxed);
            allowed.fetch_add(passed, Ordering::Relaxed);
            done as f64 / began.elapsed().as_secs_f64()
        });
        let decided = decided.into_inner().max(1);
        Drive {
            per_second: rates.iter().sum(),
            allowed_share: allowed.into_inner() as f64 / decided as f64,
        }
    }

    fn count(&self, decisions: usize) {
        let keys = self.sequences.0.iter().flatten().cloned();
        let keys: Vec<K> = keys.take(decisions).collect();
        for chunk in keys.chunks(BATCH) {
            black_box(self.decide_counted(chunk));
        }
    }

    fn time(&self, window: Duration) -> Option<Histogram> {
        if self.manner == Manner::Batches {
            return None;
        }
        let clock = quanta::Clock::new();
        let histograms = self.on_all_threads(window, |sequence, over| {
            let mut histogram = Histogram::default();
            'window: loop {
                for chunk in sequence.chunks_exact(TIMED_ONE_IN) {
                    if over.load(Ordering::Relaxed) {
                        break 'window;
                    }
                    let [timed, others @ ..] = chunk else { break };
                    let began = clock.raw();
                    black_box(self.contender.check(black_box(timed)));
                    let ended = clock.raw();
                    histogram.count(clock.delta_as_nanos(began, ended));
                    black_box(
                        others
                            .iter()
                            .filter(|key| self.contender.check(key))
                            .count(),
                    );
                }
            }
            histogram
        });
        histograms.into_iter().reduce(Histogram::and)
    }
}
