//! The machine's clocks, and one for tests.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::{Clock, Moment, Now, Span, Timeline};

use crate::monotonic::MonotonicClock;
use crate::sync::{AtomicU64, Ordering, fence};

/// How often the wall clock is read again.
const WALL_PERIOD: Span = Span::SECOND;
/// How much later than the correction a reader may still have used the old offset.
const SLACK: Span = Span::from_millis(1);
/// A wall clock that is set back by up to this holds UTC still until the clock has caught up.
const ABSORBED_MAX: Span = Span::SECOND;
/// How often a reader spins while UTC is being corrected, before it yields the processor.
const SPINS_MAX: u32 = 64;

/// This machine's clocks.
///
/// The monotonic clock is the processor's time stamp counter where there is one. UTC is the
/// monotonic clock plus an offset that is read again from the wall clock every second. A step
/// forward of the wall clock takes effect at once. A step back by up to a second holds UTC still
/// until the wall clock has caught up, so that corrections by NTP never repeat a moment; a larger
/// step back is followed.
#[derive(Debug)]
pub struct SystemClock {
    monotonic: MonotonicClock,
    /// The sequence number of a seqlock over the next two: odd while they are being changed.
    sequence: AtomicU64,
    /// UTC minus the monotonic clock.
    offset: AtomicU64,
    /// The lower bound of UTC: its latest moment before a step back that is absorbed.
    floor: AtomicU64,
    /// When the wall clock is read again, on the monotonic clock.
    next_reading: AtomicU64,
}

/// A clock that stands still until it is advanced: for tests in virtual time.
///
/// # Example
///
/// ```
/// use tollgate_core::{Clock, Moment, Span};
/// use tollgate_memory::ManualClock;
///
/// let clock = ManualClock::at(Moment::from_nanos(5));
/// clock.advance(Span::SECOND);
/// assert_eq!(clock.now().monotonic, Moment::from_nanos(1_000_000_005));
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    monotonic: AtomicU64,
    utc: AtomicU64,
}

// === impl SystemClock ===

impl SystemClock {
    /// Starts the clock. The first one in a process calibrates the processor's counter, which takes
    /// some milliseconds.
    pub fn new() -> SystemClock {
        let monotonic = MonotonicClock::new();
        let offset = wall().since(monotonic.now());
        SystemClock {
            monotonic,
            sequence: AtomicU64::new(0),
            offset: AtomicU64::new(offset.as_nanos()),
            floor: AtomicU64::new(0),
            next_reading: AtomicU64::new(0),
        }
    }

    #[cold]
    fn read_wall(&self, due: u64) {
        let next = (self.monotonic.now() + WALL_PERIOD).as_nanos();
        // Relaxed: it only chooses which thread reads the wall clock.
        let won =
            self.next_reading
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if won.is_err() {
            return;
        }
        self.correct(wall);
    }

    /// Makes UTC follow what `wall` reads from now on; only one thread at a time is here, by the
    /// period.
    ///
    /// The thread may be suspended between the readings of the clocks. So the counter is read
    /// before and after the wall clock, and UTC is corrected only as far as it differs from both.
    fn correct(&self, wall: impl FnOnce() -> Moment) {
        let before = self.monotonic.now();
        let wall = wall();
        let sequence = self.sequence.load(Ordering::Relaxed);
        let odd = self.sequence.compare_exchange(
            sequence,
            sequence | 1,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if odd.is_err() || sequence & 1 == 1 {
            return;
        }
        fence(Ordering::Release);
        let after = self.monotonic.now();
        let offset = Span::from_nanos(self.offset.load(Ordering::Relaxed));
        let floor = Moment::from_nanos(self.floor.load(Ordering::Relaxed));
        let utc_at = |monotonic: Moment| (monotonic + offset).max(floor);
        let ahead = utc_at(before).since(wall);
        if ahead > ABSORBED_MAX {
            self.floor.store(0, Ordering::Relaxed);
        } else if ahead > SLACK {
            // A reader that found the sequence even may not have read the counter yet: processors
            // reorder its reading by nanoseconds, never by as much as `SLACK`.
            let floor = (utc_at(after) + SLACK).as_nanos();
            self.floor.store(floor, Ordering::Relaxed);
        }
        // A wall clock that is behind by less is left alone until it catches up or falls back.
        let offset = match ahead > SLACK {
            true => Some(wall.since(before)),
            false => (wall >= utc_at(after)).then(|| wall.since(after)),
        };
        if let Some(offset) = offset {
            self.offset.store(offset.as_nanos(), Ordering::Relaxed);
        }
        self.sequence.store(sequence + 2, Ordering::Release);
    }
}

/// Waits a moment for the thread that corrects UTC, which may have been suspended: spins, and then
/// leaves it the processor.
#[cold]
fn wait_for_correction(spins: &mut u32) {
    if *spins < SPINS_MAX {
        *spins += 1;
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn on(&self, timeline: Timeline) -> Moment {
        match timeline {
            Timeline::Monotonic => self.monotonic.now(),
            Timeline::Utc => self.now().utc,
        }
    }

    #[inline]
    fn now(&self) -> Now {
        let mut spins = 0;
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            let (offset, floor) = (
                self.offset.load(Ordering::Relaxed),
                self.floor.load(Ordering::Relaxed),
            );
            let monotonic = self.monotonic.now();
            fence(Ordering::Acquire);
            if sequence & 1 == 1 || self.sequence.load(Ordering::Relaxed) != sequence {
                wait_for_correction(&mut spins);
                continue;
            }
            let due = self.next_reading.load(Ordering::Relaxed);
            if monotonic.as_nanos() >= due {
                self.read_wall(due);
                // The wall clock may not have been read for hours.
                continue;
            }
            let utc = monotonic.as_nanos().saturating_add(offset).max(floor);
            return Now {
                monotonic,
                utc: Moment::from_nanos(utc),
            };
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
fn wall() -> Moment {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Moment::ZERO + Span::from(since)
}

// === impl ManualClock ===

impl ManualClock {
    /// A clock that shows `moment` on both timelines.
    pub fn at(moment: Moment) -> ManualClock {
        ManualClock {
            monotonic: AtomicU64::new(moment.as_nanos()),
            utc: AtomicU64::new(moment.as_nanos()),
        }
    }

    /// Advances both clocks, to the last moment that there is at most.
    pub fn advance(&self, span: impl Into<Span>) {
        let nanos = span.into().as_nanos();
        for clock in [&self.monotonic, &self.utc] {
            let add = |now: u64| Some(now.saturating_add(nanos));
            // It never declines.
            let _advanced = clock.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
        }
    }

    /// Sets both clocks, also back. The debt of a bucket in memory stays as it is then, up to
    /// the moment at which it was to be refilled.
    pub fn set(&self, now: Now) {
        self.monotonic
            .store(now.monotonic.as_nanos(), Ordering::SeqCst);
        self.utc.store(now.utc.as_nanos(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        Now {
            monotonic: Moment::from_nanos(self.monotonic.load(Ordering::SeqCst)),
            utc: Moment::from_nanos(self.utc.load(Ordering::SeqCst)),
        }
    }
}

#[cfg(test)]
mod tests;
