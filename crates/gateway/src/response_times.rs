//! Response times in a fixed number of buckets, for quantiles in bounded memory.
//!
//! The buckets are log-linear, as in `HdrHistogram`: each power of two is divided into
//! [`PARTS`] equal parts, so a quantile is known to within a sixteenth of its value. Not that
//! crate, because requests count in atomics, and the first 4 ms share a bucket.

use tollgate_core::Span;

/// How many buckets there are.
pub(crate) const BUCKETS: usize = 1 + OCTAVES * PARTS;
/// How many powers of two have buckets of their own.
const OCTAVES: usize = 15;
/// Into how many buckets each of them is divided: [`PART_BITS`] bits.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 3;
/// Times below 2^22 ns, 4.2 ms, share one bucket: the network and the scheduler make such
/// differences without any load.
const FLOOR_BITS: u32 = 22;

/// The bucket of a response time. The last one has all from 2^37 ns, 137 s.
pub(crate) fn bucket_of(time: Span) -> usize {
    let nanos = time.as_nanos();
    let Some(octave) = nanos
        .checked_ilog2()
        .and_then(|bits| bits.checked_sub(FLOOR_BITS))
    else {
        return 0;
    };
    let part = nanos >> (octave + FLOOR_BITS - PART_BITS);
    let part = usize::try_from(part).unwrap_or(usize::MAX) % PARTS;
    let octave = usize::try_from(octave).unwrap_or(OCTAVES);
    (1 + octave * PARTS + part).min(BUCKETS - 1)
}

/// The middle of a bucket; of the first one, its end.
pub(crate) fn time_of(bucket: usize) -> Span {
    let floor = 1_u64 << FLOOR_BITS;
    let Some(above) = bucket.checked_sub(1) else {
        return Span::from_nanos(floor);
    };
    let whole = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let width = (floor >> PART_BITS) << (above / PARTS).min(OCTAVES);
    let start = width * (whole(PARTS) + whole(above % PARTS));
    Span::from_nanos(start + width / 2)
}

#[cfg(test)]
mod tests {
    use tollgate_behaviour::check;

    use super::*;

    #[test]
    fn ends_of_the_buckets() {
        let floor = 1_u64 << 22;
        for (nanos, bucket) in [
            (0, 0),
            (1, 0),
            (floor - 1, 0),
            (floor, 1),
            (floor * 9 / 8 - 1, 1),
            (floor * 9 / 8, 2),
            (2 * floor - 1, 8),
            (2 * floor, 9),
            ((1 << 37) - 1, BUCKETS - 1),
            (1 << 37, BUCKETS - 1),
            (u64::MAX, BUCKETS - 1),
        ] {
            assert_eq!(bucket_of(Span::from_nanos(nanos)), bucket, "{nanos}");
        }
        let times = (0..BUCKETS).map(time_of);
        assert!(times.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn a_bucket_is_within_a_sixteenth_of_its_times() {
        check("buckets", 20_000, |random| {
            let nanos = random.between(1 << 22, (1 << 37) - 1);
            let time = time_of(bucket_of(Span::from_nanos(nanos))).as_nanos();
            assert!(time.abs_diff(nanos) <= nanos / 16, "{nanos}: {time}");
        });
    }
}
