//! Times and their percentiles, in bounded memory.

use std::time::Duration;

/// Each doubling has so many places, so a percentile is at most 1/32 too high.
const PLACES: u64 = 32;
/// The places of all numbers below 2^64: twice [`PLACES`] for the small ones, which are exact, and
/// [`PLACES`] for each of the 58 doublings above them.
const PLACES_MAX: usize = 60 * 32;

/// How often times occurred.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    most: u64,
}

// === impl Histogram ===

impl Histogram {
    pub(super) fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[place(nanos)] += 1;
        self.total += 1;
        self.most = self.most.max(nanos);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The longest time.
    pub(super) const fn most(&self) -> Duration {
        Duration::from_nanos(self.most)
    }

    /// The time that this many of 1000 do not exceed, rounded up; zero if there is none.
    pub(super) fn percentile(&self, per_mille: u64) -> Duration {
        let rank = u128::from(self.total) * u128::from(per_mille);
        let rank = rank.div_ceil(1000).max(1);
        let mut seen: u128 = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return Duration::from_nanos(upper(place).min(self.most));
            }
        }
        self.most()
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: vec![0; PLACES_MAX],
            total: 0,
            most: 0,
        }
    }
}

/// The place of a number.
fn place(nanos: u64) -> usize {
    let log = u64::from(nanos.max(1).ilog2());
    let shift = log.saturating_sub(u64::from(PLACES.ilog2()));
    let place = shift * PLACES + (nanos >> shift);
    usize::try_from(place)
        .unwrap_or(usize::MAX)
        .min(PLACES_MAX - 1)
}

/// The largest number of a place.
fn upper(place: usize) -> u64 {
    let place = u64::try_from(place).unwrap_or(u64::MAX);
    let shift = (place / PLACES).saturating_sub(1);
    let first = u128::from(place - shift * PLACES) << shift;
    let last = first + (1_u128 << shift) - 1;
    u64::try_from(last).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_a_place_that_is_at_most_a_32nd_too_high() {
        let mut numbers = vec![0, 1, 31, 32, 63, 64, 65, 1000, u64::MAX - 1, u64::MAX];
        numbers.extend((0..64).map(|bit| 1_u64 << bit));
        numbers.extend((1..64).map(|bit| (1_u64 << bit) - 1));
        for number in numbers {
            let upper = upper(place(number));
            assert!(upper >= number, "{number}");
            assert!(upper - number <= number / 32, "{number} {upper}");
            assert_eq!(place(upper), place(number), "{number}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let mut histogram = Histogram::default();
        assert!(histogram.is_empty());
        assert_eq!(histogram.percentile(500), Duration::ZERO);
        for millis in (1..=1000).rev() {
            histogram.add(Duration::from_millis(millis));
        }
        for (per_mille, millis) in [(500, 500), (900, 900), (990, 990), (999, 999), (1000, 1000)] {
            let (found, exact) = (
                histogram.percentile(per_mille),
                Duration::from_millis(millis),
            );
            assert!(found >= exact && found <= exact + exact / 32, "{found:?}");
        }
        assert_eq!(histogram.most(), Duration::from_secs(1));
        assert_eq!(histogram.percentile(1000), Duration::from_secs(1));
    }
}
