//! Tokio's clock as ours, for tests in virtual time.

use tokio::time::Instant;
use tollgate_core::{Clock, Moment, Now, Span};

/// A clock that follows tokio's: where that is paused, so is this.
///
/// For tests: with `#[tokio::test(start_paused = true)]` everything that waits for its turn is
/// served without any real time passing. UTC begins at 1970-01-02, so windows that are aligned to
/// the epoch do not show the date of today.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
}

// === impl TokioClock ===

impl TokioClock {
    /// A clock that starts now.
    pub fn new() -> TokioClock {
        TokioClock {
            start: Instant::now(),
        }
    }
}

impl Default for TokioClock {
    fn default() -> TokioClock {
        TokioClock::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Now {
        Now::at(Moment::ZERO + Span::DAY + Span::from(self.start.elapsed()))
    }
}
