//! Who takes part in a load scenario.

use crate::contender::Outcome;
use crate::contenders::{
    ByHand, FixedWindow, Floor, FloorClock, Governor, OfAlgorithm, Quota, Ratelimit, SlidingLog,
    SlidingWindow, TokenBucket, Tollgate, TollgateBatch, TwoBuckets,
};
use crate::entrant::{Entrant, Entry, Manner};
use crate::keys::{BenchKey, Sequences};

/// The contenders of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lineup {
    /// Tollgate's token bucket and other rate limiters.
    Peers,
    /// Tollgate's algorithms, and two limits on each request, beside the token bucket.
    Algorithms,
}

/// What all contenders of a scenario have in common.
pub(crate) struct Course<'k, K> {
    pub(crate) keys: u64,
    pub(crate) outcome: Outcome,
    pub(crate) sequences: &'k Sequences<K>,
    /// For contenders that take numbers only.
    pub(crate) numbers: &'k Sequences<u64>,
}

// === impl Lineup ===

impl Lineup {
    /// Every contender that can do this.
    pub(crate) fn entrants<'k, K: BenchKey>(
        self,
        course: &Course<'k, K>,
    ) -> Vec<Box<dyn Entrant + 'k>> {
        match self {
            Lineup::Peers => course.peers(),
            Lineup::Algorithms => course.algorithms(),
        }
    }

    /// The others: what stands in their row.
    pub(crate) fn absent(self, keys: u64) -> Vec<(&'static str, &'static str)> {
        match self {
            Lineup::Peers if keys > 1 => vec![
                ("ratelimit", "no keys"),
                ("leaky-bucket", "only waits: see async"),
            ],
            Lineup::Peers => vec![("leaky-bucket", "only waits: see async")],
            Lineup::Algorithms => Vec::new(),
        }
    }
}

// === impl Course ===

impl<'k, K: BenchKey> Course<'k, K> {
    /// Tollgate, the other rate limiters, and the floors.
    fn peers(&self) -> Vec<Box<dyn Entrant + 'k>> {
        let load = (self.keys, self.outcome);
        let mut entrants = vec![
            self.one::<Tollgate>("tollgate"),
            Box::new(Entry::<TollgateBatch, K>::new(
                "tollgate-batch",
                Manner::Batches,
                load,
                self.sequences,
            )),
            self.one::<Governor<K>>("governor"),
            self.one::<Quota<K>>("quota"),
            self.one::<ByHand<K>>("dashmap"),
        ];
        if self.keys == 1 {
            entrants.push(self.one::<Ratelimit>("ratelimit"));
        }
        let numbers = self.with_numbers();
        entrants.push(numbers.one::<Floor>("floor"));
        entrants.push(numbers.one::<FloorClock>("floor-clock"));
        entrants
    }

    /// A hot key is requested more often than the limits of sliding windows and logs allow.
    fn algorithms(&self) -> Vec<Box<dyn Entrant + 'k>> {
        let mut entrants = vec![
            self.one::<OfAlgorithm<TokenBucket>>("token_bucket"),
            self.one::<OfAlgorithm<FixedWindow>>("fixed_window"),
        ];
        if self.keys > 1 || self.outcome == Outcome::Denied {
            entrants.push(self.one::<OfAlgorithm<SlidingWindow<1>>>("sliding, 1"));
            entrants.push(self.one::<OfAlgorithm<SlidingWindow<10>>>("sliding, 10"));
            entrants.push(self.one::<OfAlgorithm<SlidingLog>>("sliding_log"));
        }
        entrants.push(self.one::<TwoBuckets>("two buckets"));
        entrants.push(self.one::<Governor<K>>("governor"));
        entrants
    }

    const fn with_numbers(&self) -> Course<'k, u64> {
        Course {
            keys: self.keys,
            outcome: self.outcome,
            sequences: self.numbers,
            numbers: self.numbers,
        }
    }

    /// A contender that decides one request at a time.
    fn one<C>(&self, name: &'static str) -> Box<dyn Entrant + 'k>
    where
        C: crate::contender::Contender<K> + 'k,
    {
        let load = (self.keys, self.outcome);
        let entry = Entry::<C, K>::new(name, Manner::OneAtATime, load, self.sequences);
        Box::new(entry)
    }
}
