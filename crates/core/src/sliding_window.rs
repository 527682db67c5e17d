//! Sliding windows: a counter per segment, the oldest weighted by its part inside the window.
//!
//! With one segment this is the two-counter estimate that Cloudflare described in 2017. All
//! arithmetic is in integers; the estimate rounds down, as docs/semantics.md defines it.

use crate::limit::{Algorithm, Limit, SEGMENTS_MAX};
use crate::moment::Moment;
use crate::span::Span;
use crate::usage::Usage;

mod word;

/// The maximum number of counters of a key: one per segment, and the segment that is leaving.
pub const COUNTERS_MAX: usize = 61;
const _: () = assert!(COUNTERS_MAX == whole(SEGMENTS_MAX) + 1);

/// The units consumed in each segment, newest first.
///
/// # Example
///
/// Ten per minute, with nine units in the previous minute and five in this one, of which 15 s have
/// passed: one more would be floor(9 * 45/60) + 5 + 1 = 12.
///
/// ```
/// use tollgate_core::{Cost, Limit, Moment, OnDenial, SlidingWindow, Span, step};
///
/// let limit = Limit::sliding_window(10, Span::MINUTE, 1)?;
/// let mut usage: SlidingWindow = SlidingWindow::new(1, &[5, 9]);
/// let now = Moment::ZERO + Span::from_secs(75);
/// assert!(!step(&mut usage, &limit, now, Cost::ONE, OnDenial::Keep).is_allowed());
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
///
/// `COUNTERS` is at least one more than the limit has segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow<const COUNTERS: usize = COUNTERS_MAX> {
    /// The number of the newest segment since the epoch.
    newest: u64,
    counters: [u32; COUNTERS],
}

/// The whole part of the estimate and the counter that is leaving.
struct Sum {
    inside: u64,
    leaving: u64,
}

// === impl SlidingWindow ===

impl<const COUNTERS: usize> Default for SlidingWindow<COUNTERS> {
    #[inline]
    fn default() -> Self {
        SlidingWindow {
            newest: 0,
            counters: [0; COUNTERS],
        }
    }
}

impl<const COUNTERS: usize> SlidingWindow<COUNTERS> {
    /// The state whose newest segment has the number `newest` since the epoch. `counters` are
    /// newest first; those beyond `COUNTERS` are ignored.
    #[inline]
    pub fn new(newest: u64, counters: &[u32]) -> Self {
        let mut usage = SlidingWindow {
            newest,
            ..SlidingWindow::default()
        };
        for (slot, counter) in usage.counters.iter_mut().zip(counters) {
            *slot = *counter;
        }
        usage
    }

    /// The number of the newest segment since the epoch.
    pub const fn newest(&self) -> u64 {
        self.newest
    }

    /// The counters that `limit` uses, newest first: one more than it has segments.
    pub fn counters(&self, limit: &Limit) -> &[u32] {
        &self.counters[..=segments(limit)]
    }

    /// The segments of `limit`. Two counters are those of one segment: known when it is compiled.
    #[inline]
    fn segments(limit: &Limit) -> usize {
        if COUNTERS == 2 { 1 } else { segments(limit) }
    }

    /// How much of the newest segment has passed at `now`, which is in it in a settled state.
    #[inline]
    fn elapsed_part(&self, limit: &Limit, now: Moment) -> u64 {
        let start = self.not_before(limit).as_nanos();
        now.as_nanos().saturating_sub(start)
    }

    /// What counts, of a limit with so many segments.
    #[inline]
    fn sum(&self, segments: usize) -> Sum {
        let inside = &self.counters[..segments];
        Sum {
            inside: inside.iter().copied().map(u64::from).sum(),
            leaving: u64::from(self.counters[segments]),
        }
    }

    /// The time until the offset `at` in the segment that is `ahead` segments after the newest.
    #[inline]
    fn until(&self, limit: &Limit, now: Moment, ahead: usize, at: u64) -> Span {
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        let start = ahead.saturating_mul(limit.segment().as_nanos());
        let moment = start.saturating_add(at);
        Span::from_nanos(moment.saturating_sub(self.elapsed_part(limit, now)))
    }

    /// Refunds up to `units` of those consumed at `at`; returns how many.
    pub(crate) fn refund_at(&mut self, limit: &Limit, at: Moment, units: u64) -> u64 {
        let segment = at.as_nanos() / limit.segment().as_nanos();
        // After a step back of the clock, the segment may be a future one: its units have moved.
        let age = self.newest.checked_sub(segment).map(usize::try_from);
        let Some(Ok(age)) = age else {
            return 0;
        };
        if age >= COUNTERS {
            return 0;
        }
        let refunded = u32::try_from(units)
            .unwrap_or(u32::MAX)
            .min(self.counters[age]);
        self.counters[age] -= refunded;
        u64::from(refunded)
    }

    #[inline]
    pub(crate) fn estimate(&self, limit: &Limit, now: Moment) -> u64 {
        let sum = self.sum(Self::segments(limit));
        if sum.leaving == 0 {
            return sum.inside;
        }
        let length = limit.segment().as_nanos();
        let rest = length.saturating_sub(self.elapsed_part(limit, now));
        sum.inside + multiply_divide(sum.leaving, rest, length)
    }
}

impl<const COUNTERS: usize> Usage for SlidingWindow<COUNTERS> {
    #[inline]
    fn settle(&mut self, limit: &Limit, now: Moment) {
        let current = now.as_nanos() / limit.segment().as_nanos();
        if self.newest > current {
            // How much of its segment had passed is unknown, so the leaving counter counts in full.
            let (inside, leaving) = self.counters.split_at_mut(Self::segments(limit));
            let oldest = &mut inside[inside.len() - 1];
            *oldest = oldest.saturating_add(std::mem::take(&mut leaving[0]));
        }
        let passed = current.saturating_sub(self.newest);
        let shift = usize::try_from(passed).unwrap_or(COUNTERS).min(COUNTERS);
        if shift > 0 {
            self.counters.copy_within(..COUNTERS - shift, shift);
            self.counters[..shift].fill(0);
        }
        self.counters[Self::segments(limit) + 1..].fill(0);
        self.newest = current;
    }

    #[inline]
    fn not_before(&self, limit: &Limit) -> Moment {
        Moment::from_nanos(self.newest.saturating_mul(limit.segment().as_nanos()))
    }

    #[inline]
    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span {
        let segments = Self::segments(limit);
        let length = limit.segment().as_nanos();
        let room = u64::from(limit.available() - units);
        let mut inside = self.sum(segments).inside;
        for ahead in 0..=segments {
            // As if `ahead` more segments had passed since the newest.
            let leaving = segments - ahead;
            if let Some(room) = room.checked_sub(inside) {
                let at = first_fit(u64::from(self.counters[leaving]), room, length);
                return self.until(limit, now, ahead, at);
            }
            let next = leaving.checked_sub(1).map_or(0, |next| self.counters[next]);
            inside -= u64::from(next);
        }
        // Once every segment has left, nothing counts, and `units` do not exceed the capacity.
        Span::ZERO
    }

    #[inline]
    fn remaining(&self, limit: &Limit, now: Moment) -> u32 {
        let free = u64::from(limit.available()).saturating_sub(self.estimate(limit, now));
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    #[inline]
    fn reset(&self, limit: &Limit, now: Moment) -> Span {
        let segments = Self::segments(limit);
        let newest_used = self.counters[..=segments]
            .iter()
            .position(|counter| *counter != 0);
        let Some(age) = newest_used else {
            return Span::ZERO;
        };
        // All before it have left when it begins to leave.
        let at = first_fit(u64::from(self.counters[age]), 0, limit.segment().as_nanos());
        self.until(limit, now, segments - age, at)
    }

    #[inline]
    fn take(&mut self, _limit: &Limit, _now: Moment, units: u32) {
        self.counters[0] = self.counters[0].saturating_add(units);
    }

    fn refund(&mut self, _limit: &Limit, _now: Moment, units: u64) {
        let mut units = units;
        for counter in &mut self.counters {
            let back = u32::try_from(units).unwrap_or(u32::MAX).min(*counter);
            *counter -= back;
            units -= u64::from(back);
        }
    }

    #[inline]
    fn expires_at(&self, limit: &Limit) -> Moment {
        let Some(newest_used) = self.counters.iter().position(|counter| *counter != 0) else {
            return Moment::ZERO;
        };
        let age = u64::try_from(newest_used).unwrap_or(u64::MAX);
        let left_at = self.newest.saturating_sub(age).saturating_add(1);
        let length = limit.segment().as_nanos();
        Moment::from_nanos(left_at.saturating_mul(length)) + limit.window()
    }
}

/// The earliest offset in a segment at which the weighted counter `leaving` is at most `room`.
///
/// floor(leaving * (length - at) / length) <= room means
/// leaving * (length - at) < (room + 1) * length.
#[inline]
fn first_fit(leaving: u64, room: u64, length: u64) -> u64 {
    if leaving <= room {
        return 0;
    }
    multiply_divide(length, leaving - room - 1, leaving).saturating_add(1)
}

/// `one * other / by`, rounded down. The product of what people use fits 64 bits, and the division
/// of 128 bits is a call that takes much longer.
#[inline]
fn multiply_divide(one: u64, other: u64, by: u64) -> u64 {
    match one.checked_mul(other) {
        Some(product) => product / by,
        None => {
            let quotient = u128::from(one) * u128::from(other) / u128::from(by);
            u64::try_from(quotient).unwrap_or(u64::MAX)
        }
    }
}

fn segments(limit: &Limit) -> usize {
    match limit.algorithm() {
        Algorithm::SlidingWindow(segments) => whole(segments.get()),
        _ => 1,
    }
}

#[expect(
    clippy::as_conversions,
    reason = "widening; `usize::from` is not const"
)]
const fn whole(segments: u8) -> usize {
    segments as usize
}
