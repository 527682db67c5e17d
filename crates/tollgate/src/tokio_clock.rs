//! A clock that follows tokio's, for tests in virtual time.

use tokio::time::Instant;
use tollgate_core::{Clock, Moment, Now, Span};

/// A clock that follows tokio's: it is paused whenever tokio's is.
///
/// For tests: with `#[tokio::test(start_paused = true)]`, waiting takes no real time. UTC starts at
/// 1970-01-02, so windows that are aligned to the epoch do not depend on today's date.
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
