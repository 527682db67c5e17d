//! The floor: the speed of memory accesses alone, and together with reading a clock.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{BYTES_PER_KEY, Clock, Moment, SystemClock, Timeline};

use crate::contender::{Contender, Outcome};

/// Memory of the size of Tollgate's table, in which a decision is one atomic addition.
pub(crate) struct Floor(Vec<AtomicU64>);

/// The same, after a reading of the clock that Tollgate reads: what is left to a decision that
/// reads it and writes.
pub(crate) struct FloorClock {
    floor: Floor,
    clock: SystemClock,
}

// === impl Floor ===

impl Contender<u64> for Floor {
    fn build(keys: u64, _outcome: Outcome) -> Floor {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let words = (keys * BYTES_PER_KEY / size_of::<AtomicU64>()).max(1);
        Floor((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline(always)]
    fn check(&self, key: &u64) -> bool {
        let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let words = u128::try_from(self.0.len()).unwrap_or(1);
        let place = usize::try_from((u128::from(mixed) * words) >> 64).unwrap_or(0);
        // Relaxed: the value is not read; only the cost of the operation matters.
        self.0[place].fetch_add(1, Ordering::Relaxed) != u64::MAX
    }
}

// === impl FloorClock ===

impl Contender<u64> for FloorClock {
    fn build(keys: u64, outcome: Outcome) -> FloorClock {
        FloorClock {
            floor: Floor::build(keys, outcome),
            clock: SystemClock::new(),
        }
    }

    #[inline(always)]
    fn check(&self, key: &u64) -> bool {
        self.clock.on(Timeline::Monotonic) != Moment::ZERO && self.floor.check(key)
    }
}
