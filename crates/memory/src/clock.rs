//! Where the time comes from.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::{Clock, Moment, Now, Span, Timeline};

use crate::steady::Steady;
use crate::sync::{AtomicU64, Ordering, fence};

/// How often the wall clock is read again.
const WALL_PERIOD: Span = Span::SECOND;
/// How much later than at the correction a reader may still have told the time by the old offset.
const SLACK: Span = Span::from_millis(1);
/// By how much UTC may be ahead of the wall clock: a step back up to this is waited out.
const ABSORBED_MAX: Span = Span::SECOND;

/// This machine's clocks.
///
/// The steady clock is the processor's time stamp counter where there is one. UTC is the steady
/// clock plus an offset that is read again from the wall clock every second. A wall clock that was
/// set forward counts at once. One that was set back by up to a second holds UTC still until it has
/// caught up, so that corrections by NTP never repeat a moment; a larger step back is followed.
#[derive(Debug)]
pub struct SystemClock {
    steady: Steady,
    /// Odd while the two below are being changed.
    turn: AtomicU64,
    /// UTC less the steady clock.
    offset: AtomicU64,
    /// UTC does not show less: the latest moment that was told before a step back that is absorbed.
    floor: AtomicU64,
    /// When the wall clock is read again, on the steady clock.
    next_reading: AtomicU64,
}

/// A clock that stands still until it is told to go on: for tests in virtual time.
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
    steady: AtomicU64,
    utc: AtomicU64,
}

// === impl SystemClock ===

impl SystemClock {
    /// Starts the clock. The first one in a process calibrates the processor's counter, which takes
    /// some milliseconds.
    pub fn new() -> SystemClock {
        let steady = Steady::new();
        let offset = wall().since(steady.now());
        SystemClock {
            steady,
            turn: AtomicU64::new(0),
            offset: AtomicU64::new(offset.as_nanos()),
            floor: AtomicU64::new(0),
            next_reading: AtomicU64::new(0),
        }
    }

    #[cold]
    fn read_wall(&self, due: u64) {
        let next = (self.steady.now() + WALL_PERIOD).as_nanos();
        // Relaxed: it only chooses which thread reads the wall clock.
        let won =
            self.next_reading
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if won.is_err() {
            return;
        }
        self.correct(wall());
    }

    /// Makes UTC follow `wall` from now on; only one thread at a time is here, by the period.
    fn correct(&self, wall: Moment) {
        let turn = self.turn.load(Ordering::Relaxed);
        let odd = self
            .turn
            .compare_exchange(turn, turn | 1, Ordering::Acquire, Ordering::Relaxed);
        if odd.is_err() || turn & 1 == 1 {
            return;
        }
        fence(Ordering::Release);
        let steady = self.steady.now();
        let offset = Span::from_nanos(self.offset.load(Ordering::Relaxed));
        let floor = Moment::from_nanos(self.floor.load(Ordering::Relaxed));
        let told = (steady + offset).max(floor);
        let ahead = told.since(wall);
        if ahead > ABSORBED_MAX {
            self.floor.store(0, Ordering::Relaxed);
        } else if ahead > SLACK {
            // A reader that found the turn even may still be about to read the counter: processors
            // reorder a counter's reading by nanoseconds, never by as much as this.
            let floor = (told + SLACK).as_nanos();
            self.floor.store(floor, Ordering::Relaxed);
        }
        // A wall clock that is behind by no more than that is left to catch up or to fall back.
        if ahead.is_zero() || ahead > SLACK {
            let offset = wall.since(steady).as_nanos();
            self.offset.store(offset, Ordering::Relaxed);
        }
        self.turn.store(turn + 2, Ordering::Release);
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
            Timeline::Monotonic => self.steady.now(),
            Timeline::Utc => self.now().utc,
        }
    }

    #[inline]
    fn now(&self) -> Now {
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            let (offset, floor) = (
                self.offset.load(Ordering::Relaxed),
                self.floor.load(Ordering::Relaxed),
            );
            let steady = self.steady.now();
            fence(Ordering::Acquire);
            if turn & 1 == 1 || self.turn.load(Ordering::Relaxed) != turn {
                std::hint::spin_loop();
                continue;
            }
            let due = self.next_reading.load(Ordering::Relaxed);
            if steady.as_nanos() >= due {
                self.read_wall(due);
                // Nobody may have asked for UTC for hours.
                continue;
            }
            let utc = steady.as_nanos().saturating_add(offset).max(floor);
            return Now {
                monotonic: steady,
                utc: Moment::from_nanos(utc),
            };
        }
    }
}

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
            steady: AtomicU64::new(moment.as_nanos()),
            utc: AtomicU64::new(moment.as_nanos()),
        }
    }

    /// Moves both clocks on.
    pub fn advance(&self, span: impl Into<Span>) {
        let span = span.into();
        self.steady.fetch_add(span.as_nanos(), Ordering::SeqCst);
        self.utc.fetch_add(span.as_nanos(), Ordering::SeqCst);
    }

    /// Sets both clocks, also back: what a store does then is a promise of its own.
    pub fn set(&self, now: Now) {
        self.steady
            .store(now.monotonic.as_nanos(), Ordering::SeqCst);
        self.utc.store(now.utc.as_nanos(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        Now {
            monotonic: Moment::from_nanos(self.steady.load(Ordering::SeqCst)),
            utc: Moment::from_nanos(self.utc.load(Ordering::SeqCst)),
        }
    }
}

#[cfg(test)]
mod tests;
