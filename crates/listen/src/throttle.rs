//! Warnings that clients can cause as often as they like, logged at a bounded rate.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines of one kind.
const PAUSE: Duration = Duration::from_secs(10);

/// A kind of warning, written at most once in ten seconds.
#[derive(Debug, Default)]
pub struct Throttle {
    withheld: AtomicU64,
    written: Mutex<Option<Instant>>,
}

// === impl Throttle ===

impl Throttle {
    /// Whether to write a line now, and how many were withheld since the last one.
    pub fn allow(&self) -> Option<u64> {
        self.allow_at(Instant::now())
    }

    fn allow_at(&self, now: Instant) -> Option<u64> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_some_and(|written| now.saturating_duration_since(written) < PAUSE) {
            self.withheld.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *written = Some(now);
        Some(self.withheld.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_and_the_next_ones_are_counted() {
        let throttle = Throttle::default();
        let now = Instant::now();
        assert_eq!(throttle.allow_at(now), Some(0));
        for _ in 0..60_000 {
            assert_eq!(throttle.allow_at(now + PAUSE / 2), None);
        }
        assert_eq!(throttle.allow_at(now + PAUSE), Some(60_000));
        assert_eq!(throttle.allow_at(now + PAUSE), None);
    }
}
