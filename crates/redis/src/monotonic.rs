//! This node's own time, by which leases end here.

use std::fmt;
#[cfg(test)]
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::Moment;

use crate::simulated::Monotonic;

/// A monotonic clock: the processor's time stamp counter where there is one.
///
/// Its rate may be wrong by less than a lease's margin, which is one in a hundred. It stands still
/// while the machine is suspended, as every monotonic clock does: a node that is put to sleep and
/// wakes later spends its leases later.
pub(crate) struct MonotonicClock {
    clock: quanta::Clock,
    start: u64,
    /// In place of the processor's clock, in a simulation.
    simulated: Option<Monotonic>,
    /// Microseconds that a test tells.
    #[cfg(test)]
    given: Option<Arc<AtomicU64>>,
}

// === impl Watch ===

impl MonotonicClock {
    pub(crate) fn new() -> MonotonicClock {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        MonotonicClock {
            clock,
            start,
            simulated: None,
            #[cfg(test)]
            given: None,
        }
    }

    /// A watch that shows another clock's time, if there is one.
    #[cfg(not(test))]
    pub(crate) fn of(simulated: Option<Monotonic>) -> MonotonicClock {
        MonotonicClock {
            simulated,
            ..MonotonicClock::new()
        }
    }

    /// A watch that a test sets.
    #[cfg(test)]
    pub(crate) fn given(given: Option<Arc<AtomicU64>>) -> MonotonicClock {
        MonotonicClock {
            given,
            ..MonotonicClock::new()
        }
    }

    /// How late it is, since some moment before the watch was made.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        #[cfg(test)]
        if let Some(given) = &self.given {
            return Moment::from_nanos(given.load(Ordering::SeqCst) * 1_000);
        }
        if let Some(simulated) = &self.simulated {
            return simulated();
        }
        Moment::from_nanos(self.clock.delta_as_nanos(self.start, self.clock.raw()))
    }
}

impl fmt::Debug for MonotonicClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
