//! How long single decisions take: counts in buckets, and the percentiles read from them.

use hdrhistogram::Histogram as Counts;

/// The decimal digits to which a percentile is exact: it is at most 1 % too large.
const DIGITS: u8 = 2;
/// The longest time that percentiles tell apart: eighteen minutes.
const NANOS_MAX: u64 = 1 << 40;

/// Decisions by how long they took.
#[derive(Clone, Debug)]
pub struct Histogram(Counts<u64>);

/// A share of decisions in parts of 10 000.
#[derive(Clone, Copy, Debug)]
pub struct BasisPoints(
    /// How many parts.
    pub u32,
);

/// The median; of two in the middle, the larger one.
///
/// # Panics
///
/// If there are no figures.
pub fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = figures.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

// === impl Histogram ===

impl Default for Histogram {
    fn default() -> Histogram {
        let counts = Counts::new_with_bounds(1, NANOS_MAX, DIGITS);
        Histogram(counts.expect("the bounds are constants, and valid"))
    }
}

impl Histogram {
    /// Adds a decision that took `nanos`.
    #[inline]
    pub fn count(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Histogram) -> Histogram {
        self.0 += other.0;
        self
    }

    /// The nanoseconds within which that share of the decisions was made; `None` without any.
    pub fn within(&self, share: BasisPoints) -> Option<u64> {
        let found = self.0.value_at_quantile(f64::from(share.0) / 10_000.0);
        (!self.0.is_empty()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_never_too_small_and_at_most_a_hundredth_too_large() {
        for nanos in (0..20_000).chain([1 << 30, (1 << 39) + 12_345]) {
            let mut histogram = Histogram::default();
            histogram.count(nanos);
            let found = histogram.within(BasisPoints(10_000)).expect("it has one");
            assert!(found >= nanos, "{nanos}: {found}");
            assert!(found - nanos <= nanos / 100, "{nanos}: {found}");
        }
    }

    #[test]
    fn percentiles_of_ten_thousand_numbers() {
        let mut histogram = Histogram::default();
        (1..=10_000).for_each(|nanos| histogram.count(nanos % 50));
        let both = histogram.clone().and(histogram);
        assert_eq!(both.within(BasisPoints(5_000)), Some(24));
        assert_eq!(both.within(BasisPoints(9_999)), Some(49));
        assert_eq!(Histogram::default().within(BasisPoints(5_000)), None);
    }
}
