//! Whether requests of several slots share a call.

use tokio::time::{Duration, Instant};

/// How long requests of several slots are sent apart after a call for them failed, at first and at
/// most. It doubles with each failure in a row.
const APART_FIRST: Duration = Duration::from_millis(100);
const APART_MAX: Duration = Duration::from_secs(10);

/// Whether requests of several slots share a call on this connection.
///
/// A call fails as a whole if the node does not serve one of its slots, or no longer has one of the
/// keys of a slot that migrates: nothing was charged. The requests are then sent again, in a call
/// for each slot, so that each is redirected as its own slot is.
pub(super) struct SlotSharing {
    /// Whether the node rejects keys of slots that it does not serve.
    is_possible: bool,
    /// Until when requests of several slots are sent apart.
    apart_until: Instant,
    apart_next: Duration,
}

// === impl SlotSharing ===

impl SlotSharing {
    pub(super) fn new(is_possible: bool) -> SlotSharing {
        SlotSharing {
            is_possible,
            apart_until: Instant::now(),
            apart_next: APART_FIRST,
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_possible && Instant::now() >= self.apart_until
    }

    /// Notes that a call for several slots was executed.
    pub(super) const fn note_success(&mut self) {
        self.apart_next = APART_FIRST;
    }

    /// Notes that a call for several slots failed. Of calls that were in flight together, the first
    /// one counts.
    pub(super) fn note_failure(&mut self) {
        if !self.is_on() {
            return;
        }
        self.apart_until = Instant::now() + self.apart_next;
        self.apart_next = (2 * self.apart_next).min(APART_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_that_fail_together_part_slots_once() {
        let mut sharing = SlotSharing::new(true);
        let mut apart = APART_FIRST;
        for _ in 0..10 {
            (0..8).for_each(|_| sharing.note_failure());
            tokio::time::advance(apart - Duration::from_millis(1)).await;
            assert!(!sharing.is_on());
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(sharing.is_on());
            apart = (2 * apart).min(APART_MAX);
        }
        sharing.note_success();
        sharing.note_failure();
        tokio::time::advance(APART_FIRST).await;
        assert!(sharing.is_on());
        assert!(!SlotSharing::new(false).is_on());
    }
}
