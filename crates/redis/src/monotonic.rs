//! The monotonic clock of this instance, by which leases and local counts end.

use std::fmt;

use tollgate_core::Moment;

use crate::environment::Monotonic;

/// A monotonic clock: the processor's time stamp counter where there is one.
///
/// Its rate may be wrong by less than a lease's margin, which is one in a hundred. It stands still
/// while the machine is suspended, as every monotonic clock does: an instance that is suspended and
/// wakes later spends its leases later.
pub(crate) struct MonotonicClock {
    clock: quanta::Clock,
    start: u64,
    /// In place of the processor's clock.
    replacement: Option<Monotonic>,
}

// === impl MonotonicClock ===

impl MonotonicClock {
    /// The processor's clock, or its replacement.
    pub(crate) fn new(replacement: Option<Monotonic>) -> MonotonicClock {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        MonotonicClock {
            clock,
            start,
            replacement,
        }
    }

    /// The time since some moment before the clock was made.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        if let Some(replacement) = &self.replacement {
            return replacement();
        }
        Moment::from_nanos(self.clock.delta_as_nanos(self.start, self.clock.raw()))
    }
}

impl fmt::Debug for MonotonicClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonotonicClock").finish_non_exhaustive()
    }
}
