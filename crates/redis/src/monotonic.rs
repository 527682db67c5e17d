//! The local monotonic clock, for the expiry of leases and local counts.

use std::fmt;

use tollgate_core::Moment;

use crate::environment::Monotonic;

/// A monotonic clock: the processor's time stamp counter where there is one.
///
/// Its rate may be off by less than a lease's margin, which is one per cent. It stands still
/// while the machine is suspended, like every monotonic clock: an instance that wakes up
/// later may still spend its expired leases.
pub(crate) struct MonotonicClock {
    clock: quanta::Clock,
    start: u64,
    /// Replaces the processor's clock.
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

    /// The time since the clock was created; a replacement's time is what it says.
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
