//! How long single decisions take: counts in buckets, and the percentiles read from them.

/// Buckets for each power of two: a percentile is at most 1/64 too large.
const PARTS: usize = 64;
/// log2 of [`PARTS`].
const PART_BITS: u32 = 6;
/// Powers of two above the exact part: up to 2^40 ns, which is eighteen minutes.
const POWERS: usize = 34;
const BUCKETS: usize = PARTS * (POWERS + 1);

/// Decisions by how long they took.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
}

/// A share of decisions in parts of 10 000.
#[derive(Clone, Copy, Debug)]
pub struct BasisPoints(
    /// How many parts.
    pub u64,
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
        Histogram {
            counts: Box::new([0; BUCKETS]),
            total: 0,
        }
    }
}

impl Histogram {
    /// Adds a decision that took `nanos`.
    #[inline]
    pub fn count(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Histogram) -> Histogram {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count += more;
        }
        self.total += other.total;
        self
    }

    /// The nanoseconds within which that share of the decisions was made; `None` without any.
    pub fn within(&self, share: BasisPoints) -> Option<u64> {
        let wanted = self.total.saturating_mul(share.0).div_ceil(10_000).max(1);
        let mut reached = 0;
        let found = self.counts.iter().position(|count| {
            reached += count;
            reached >= wanted
        });
        found.map(upper_end)
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let place = usize::try_from(nanos).unwrap_or(usize::MAX);
    if place < PARTS {
        return place;
    }
    let power = nanos.ilog2() - PART_BITS;
    let power_place = usize::try_from(power).unwrap_or(0);
    let part = (place >> power) - PARTS;
    (PARTS * (power_place + 1) + part).min(BUCKETS - 1)
}

/// The largest number of nanoseconds in a bucket.
fn upper_end(bucket: usize) -> u64 {
    let (power, part) = (bucket / PARTS, bucket % PARTS);
    let end = match power.checked_sub(1) {
        None => part,
        Some(power) => ((PARTS + part + 1) << power) - 1,
    };
    u64::try_from(end).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_never_too_small_and_at_most_a_part_too_large() {
        for nanos in (0..200_000).chain([1 << 30, (1 << 39) + 12_345]) {
            let end = upper_end(bucket(nanos));
            assert!(end >= nanos, "{nanos} in a bucket up to {end}");
            assert!(end - nanos <= nanos / 64, "{nanos} in a bucket up to {end}");
        }
    }

    #[test]
    fn percentiles_of_ten_thousand_numbers() {
        let mut histogram = Histogram::default();
        (1..=10_000).for_each(|nanos| histogram.count(nanos % 50));
        assert_eq!(histogram.within(BasisPoints(5_000)), Some(24));
        assert_eq!(histogram.within(BasisPoints(9_999)), Some(49));
        assert_eq!(Histogram::default().within(BasisPoints(5_000)), None);
    }
}
