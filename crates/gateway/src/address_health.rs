//! Whether an address of an upstream has answered lately, and whether it passes its health checks.
//!
//! An address that failed several times in a row is avoided for a while: requests go to the others
//! first. It is still used if all others fail. One that fails its health checks is not used at all.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// So many failures in a row make an address avoided.
const FAILURES_MAX: u32 = 3;
/// For how long. Then the next request tries it again, and one more failure suffices.
const AVOIDED_FOR: Duration = Duration::from_secs(10);

/// What is known about an address from its answers.
#[derive(Debug)]
pub(crate) struct AddressHealth {
    began: Instant,
    failures: AtomicU32,
    /// Milliseconds from `began`.
    avoided_until: AtomicU64,
    fails_checks: AtomicBool,
}

// === impl AddressHealth ===

impl AddressHealth {
    pub(crate) fn new() -> AddressHealth {
        AddressHealth {
            began: Instant::now(),
            failures: AtomicU32::new(0),
            avoided_until: AtomicU64::new(0),
            fails_checks: AtomicBool::new(false),
        }
    }

    /// It has answered.
    pub(crate) fn record_answer(&self) {
        // Relaxed everywhere: requests that see an older value only go elsewhere. Most find 0, and
        // reading does not take the cache line from other threads.
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.avoided_until.store(0, Ordering::Relaxed);
        }
    }

    /// It has not answered. Returns for how long it is avoided, if it was not before.
    pub(crate) fn record_failure(&self) -> Option<Duration> {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let was_avoided = self.is_avoided();
        if failures.saturating_add(1) < FAILURES_MAX {
            return None;
        }
        // As many as suffice, so that the count never wraps.
        self.failures.store(FAILURES_MAX, Ordering::Relaxed);
        let until = self.began.elapsed() + AVOIDED_FOR;
        let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.avoided_until.store(until, Ordering::Relaxed);
        (!was_avoided).then_some(AVOIDED_FOR)
    }

    /// It passes its health checks again, or does not any more. What its answers said before no
    /// longer matters if it does.
    pub(crate) fn set_passes_checks(&self, passes: bool) {
        if passes {
            self.record_answer();
        }
        self.fails_checks.store(!passes, Ordering::Relaxed);
    }

    /// Whether requests may go there: it passes its health checks, or has none.
    pub(crate) fn passes_checks(&self) -> bool {
        !self.fails_checks.load(Ordering::Relaxed)
    }

    /// Whether requests go to other addresses first.
    pub(crate) fn is_avoided(&self) -> bool {
        let until = self.avoided_until.load(Ordering::Relaxed);
        until > 0 && self.began.elapsed() < Duration::from_millis(until)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_that_fails_again_and_again_is_avoided_for_a_while() {
        let health = AddressHealth::new();
        for _ in 1..FAILURES_MAX {
            assert_eq!(health.record_failure(), None);
        }
        // An answer between them ends the row.
        health.record_answer();
        for _ in 1..FAILURES_MAX {
            assert_eq!(health.record_failure(), None);
        }
        assert!(!health.is_avoided());
        assert_eq!(health.record_failure(), Some(AVOIDED_FOR));
        assert_eq!(health.record_failure(), None);
        assert!(health.is_avoided());
        advance(AVOIDED_FOR).await;
        assert!(!health.is_avoided());
        // One more failure suffices now, and one answer ends it.
        assert_eq!(health.record_failure(), Some(AVOIDED_FOR));
        health.record_answer();
        assert!(!health.is_avoided());
        assert_eq!(health.record_failure(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_passes_its_checks_again_is_no_longer_avoided() {
        let health = AddressHealth::new();
        assert!(health.passes_checks());
        for _ in 0..FAILURES_MAX {
            health.record_failure();
        }
        health.set_passes_checks(false);
        assert!(!health.passes_checks() && health.is_avoided());
        health.set_passes_checks(true);
        assert!(health.passes_checks() && !health.is_avoided());
    }
}
