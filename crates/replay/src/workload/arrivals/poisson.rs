//! Requests that are independent of each other.

use tollgate_core::Span;

use crate::random::Random;
use crate::workload::kind::{Arrival, Rate};

/// Exponential distances between requests, each with one of the keys at random.
#[derive(Debug)]
pub(super) struct Poisson {
    rate: Rate,
    keys: u64,
    random: Random,
    /// Since the start, in units of 2^-32 ns: distances may be shorter than a nanosecond is long.
    now: u128,
}

// === impl Poisson ===

impl Poisson {
    pub(super) const fn new(rate: Rate, keys: u64, random: Random) -> Poisson {
        Poisson {
            rate,
            keys,
            random,
            now: 0,
        }
    }

    pub(super) fn next(&mut self) -> Arrival {
        let per = u128::from(self.rate.per.as_nanos());
        let distance = u128::from(self.random.exponential()) * per;
        self.now += distance / u128::from(self.rate.count.max(1));
        // What is later than the longest span is later than any workload lasts.
        let at = Span::from_nanos(u64::try_from(self.now >> 32).unwrap_or(u64::MAX));
        let key = self.random.below(self.keys);
        Arrival { at, key }
    }
}
