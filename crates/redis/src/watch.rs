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
pub(crate) struct Watch {
    clock: quanta::Clock,
    start: u64,
    /// In place of the processor's clock, in a simulation.
    simulated: Option<Monotonic>,
    /// Microseconds that a test tells.
    #[cfg(test)]
    told: Option<Arc<AtomicU64>>,
}

// === impl Watch ===

impl Watch {
    pub(crate) fn new() -> Watch {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        Watch {
            clock,
            start,
            simulated: None,
            #[cfg(test)]
            told: None,
        }
    }

    /// A watch that shows another clock's time, if there is one.
    #[cfg(not(test))]
    pub(crate) fn of(simulated: Option<Monotonic>) -> Watch {
        Watch {
            simulated,
            ..Watch::new()
        }
    }

    /// A watch that a test sets.
    #[cfg(test)]
    pub(crate) fn told(told: Option<Arc<AtomicU64>>) -> Watch {
        Watch {
            told,
            ..Watch::new()
        }
    }

    /// How late it is, since some moment before the watch was made.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        #[cfg(test)]
        if let Some(told) = &self.told {
            return Moment::from_nanos(told.load(Ordering::SeqCst) * 1_000);
        }
        if let Some(simulated) = &self.simulated {
            return simulated();
        }
        Moment::from_nanos(self.clock.delta_as_nanos(self.start, self.clock.raw()))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
