//! Times and their percentiles, in bounded memory.

use std::time::Duration;

use hdrhistogram::Histogram as Counts;

/// The decimal digits to which a percentile is exact: it is at most 1 % too high.
const DIGITS: u8 = 2;
/// The longest time that percentiles tell apart: an hour.
const NANOS_MAX: u64 = 3_600_000_000_000;

/// How often times occurred.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Counts<u64>,
    most: Duration,
}

// === impl Histogram ===

impl Histogram {
    pub(super) fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts.saturating_record(nanos);
        self.most = self.most.max(time);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The longest time, exactly.
    pub(super) const fn most(&self) -> Duration {
        self.most
    }

    /// The time that this share of all times does not exceed, rounded up; zero if there is none.
    pub(super) fn percentile(&self, share: f64) -> Duration {
        let nanos = self.counts.value_at_quantile(share);
        Duration::from_nanos(nanos).min(self.most)
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        let counts = Counts::new_with_bounds(1, NANOS_MAX, DIGITS);
        Histogram {
            counts: counts.expect("the bounds are constants, and valid"),
            most: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let mut histogram = Histogram::default();
        assert!(histogram.is_empty());
        assert_eq!(histogram.percentile(0.5), Duration::ZERO);
        for millis in (1..=1000).rev() {
            histogram.add(Duration::from_millis(millis));
        }
        for (share, millis) in [
            (0.5, 500),
            (0.9, 900),
            (0.99, 990),
            (0.999, 999),
            (1.0, 1000),
        ] {
            let (found, exact) = (histogram.percentile(share), Duration::from_millis(millis));
            assert!(found >= exact && found <= exact + exact / 100, "{found:?}");
        }
        assert_eq!(histogram.most(), Duration::from_secs(1));
        assert_eq!(histogram.percentile(1.0), Duration::from_secs(1));
    }

    #[test]
    fn a_time_beyond_the_bounds_is_counted() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::ZERO);
        histogram.add(Duration::MAX);
        assert_eq!(histogram.most(), Duration::MAX);
        let hour = Duration::from_nanos(NANOS_MAX);
        assert!(histogram.percentile(1.0) >= hour);
    }
}
