//! Fixed windows: the end of one window and the units consumed in it.

use crate::limit::{Algorithm, Anchor, Limit};
use crate::moment::Moment;
use crate::span::Span;
use crate::usage::Usage;

/// One window, which ends at `end`, and the units consumed in it; zero is "never seen".
///
/// # Example
///
/// Three per minute allow six within a few seconds around the end of a window: the known flaw of
/// this algorithm.
///
/// ```
/// use tollgate_core::{Cost, FixedWindow, Limit, Moment, OnDenial, Span, step};
///
/// let limit = Limit::fixed_window(3, Span::MINUTE)?;
/// let mut usage = FixedWindow::default();
/// for second in [57, 58, 59, 60, 61, 62] {
///     let now = Moment::ZERO + Span::from_secs(second);
///     assert!(step(&mut usage, &limit, now, Cost::ONE, OnDenial::Keep).is_allowed());
/// }
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedWindow {
    end: Moment,
    used: u32,
}

// === impl FixedWindow ===

impl FixedWindow {
    /// The state with `used` units in the window that ends at `end`.
    pub const fn new(end: Moment, used: u32) -> FixedWindow {
        FixedWindow { end, used }
    }

    /// The end of the window; the origin if there was none.
    pub const fn end(self) -> Moment {
        self.end
    }

    /// The units consumed in the window.
    pub const fn used(self) -> u32 {
        self.used
    }

    /// Whether every state of `limit` fits one word ([`FixedWindow::word`]).
    pub fn fits_word(limit: &Limit) -> bool {
        limit.algorithm() == Algorithm::FixedWindow(Anchor::Clock)
            && u64::from(limit.capacity()) < limit.window().as_nanos()
    }

    /// A window aligned to the epoch as one word: its end plus the consumed units, which are fewer
    /// than the window has nanoseconds. Read as a moment, the word is not before the end of the
    /// window, so the state has expired once that moment has passed, as with a bucket's word. Zero
    /// is the state of a key never seen.
    #[inline]
    pub fn word(self) -> u64 {
        if self.used == 0 {
            0
        } else {
            self.end.as_nanos().saturating_add(u64::from(self.used))
        }
    }

    /// The inverse of [`FixedWindow::word`].
    #[inline]
    pub fn from_word(limit: &Limit, word: u64) -> FixedWindow {
        let used = word % limit.window().as_nanos();
        FixedWindow {
            end: Moment::from_nanos(word - used),
            used: u32::try_from(used).unwrap_or(u32::MAX),
        }
    }

    /// Refunds up to `units` of the window that ends at `end`, if it is this one; returns how many.
    pub(crate) fn refund_of(&mut self, end: Moment, limit: &Limit, now: Moment, units: u64) -> u64 {
        if self.end != end {
            return 0;
        }
        let units = units.min(u64::from(self.used));
        self.refund(limit, now, units);
        units
    }

    /// The end of the window that `now` lies in if the key is fresh.
    #[inline]
    fn fresh_end(limit: &Limit, now: Moment) -> Moment {
        match limit.algorithm() {
            Algorithm::FixedWindow(Anchor::Clock) => {
                let into = now.as_nanos() % limit.window().as_nanos();
                now + limit.window().minus(Span::from_nanos(into))
            }
            _ => now + limit.window(),
        }
    }
}

impl Usage for FixedWindow {
    #[inline]
    fn settle(&mut self, limit: &Limit, now: Moment) {
        let fresh_end = FixedWindow::fresh_end(limit, now);
        if self.end <= now || self.used == 0 {
            *self = FixedWindow {
                end: fresh_end,
                used: 0,
            };
        }
        self.end = self.end.min(fresh_end);
    }

    #[inline]
    fn not_before(&self, limit: &Limit) -> Moment {
        self.end - limit.window()
    }

    #[inline]
    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span {
        if limit.available() - units >= self.used {
            Span::ZERO
        } else {
            self.end.since(now)
        }
    }

    #[inline]
    fn remaining(&self, limit: &Limit, _now: Moment) -> u32 {
        limit.available().saturating_sub(self.used)
    }

    #[inline]
    fn reset(&self, _limit: &Limit, now: Moment) -> Span {
        self.end.since(now)
    }

    #[inline]
    fn take(&mut self, _limit: &Limit, _now: Moment, units: u32) {
        self.used = self.used.saturating_add(units);
    }

    fn refund(&mut self, limit: &Limit, now: Moment, units: u64) {
        self.used -= self.used.min(u32::try_from(units).unwrap_or(u32::MAX));
        // A window that starts at the first request has not started if that request was refunded.
        self.settle(limit, now);
    }

    fn expires_at(&self, _limit: &Limit) -> Moment {
        if self.used == 0 {
            Moment::ZERO
        } else {
            self.end
        }
    }
}
