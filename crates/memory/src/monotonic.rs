//! The monotonic clock: the processor's time stamp counter where there is one, read inline.
//!
//! `quanta` knows whether the counter is reliable and how fast it runs. Asking it at each reading
//! would take a tenth of a decision's time.

use tollgate_core::{Moment, Span};

/// The rate is the nanoseconds of 2^40 ticks, so its error is one in 2^38.
const TICKS_SHIFT: u32 = 40;

/// A monotonic clock that starts at one hour, so that moments before its start exist.
#[derive(Debug)]
pub(crate) struct MonotonicClock {
    clock: quanta::Clock,
    /// The clock's reading at the start.
    start: u64,
    /// The nanoseconds of 2^40 ticks; 0 if the counter cannot be used.
    rate: u64,
    /// The counter's value an hour before the start, modulo 2^64.
    origin: u64,
}

const START: Span = Span::HOUR;

// === impl MonotonicClock ===

impl MonotonicClock {
    /// Starts the clock. The first one in a process measures the counter's rate, which takes some
    /// milliseconds.
    pub(crate) fn new() -> MonotonicClock {
        let clock = quanta::Clock::new();
        let rate = match is_counter(&clock) {
            true => clock.delta_as_nanos(0, 1 << TICKS_SHIFT),
            false => 0,
        };
        let start = clock.raw();
        let hour = u128::from(START.as_nanos()) << TICKS_SHIFT;
        let hour = hour.checked_div(u128::from(rate)).unwrap_or(0);
        MonotonicClock {
            clock,
            start,
            rate,
            origin: start.wrapping_sub(whole(hour)),
        }
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        if self.rate == 0 {
            return self.read_quanta();
        }
        // Counters of different processors may differ by a few ticks, but never by an hour.
        let ticks = counter().wrapping_sub(self.origin);
        Moment::from_nanos(whole(
            (u128::from(ticks) * u128::from(self.rate)) >> TICKS_SHIFT,
        ))
    }

    /// Reads the clock through `quanta`.
    #[cold]
    fn read_quanta(&self) -> Moment {
        let passed = self.clock.delta_as_nanos(self.start, self.clock.raw());
        Moment::ZERO + START + Span::from_nanos(passed)
    }
}

/// The lower 64 bits: enough for ticks and nanoseconds of 292 years.
#[inline]
#[expect(
    clippy::as_conversions,
    reason = "a check would cost time in every decision"
)]
const fn whole(wide: u128) -> u64 {
    wide as u64
}

/// Whether `clock` reads the counter, and in other units than nanoseconds.
fn is_counter(clock: &quanta::Clock) -> bool {
    let before = counter();
    let raw = clock.raw();
    let after = counter();
    // A clock that counts nanoseconds from 1970 or from the machine's start is nowhere near, or
    // equal, and then either will do.
    before != 0 && (before..=after).contains(&raw)
}

#[cfg(all(target_arch = "x86_64", not(any(miri, tollgate_loom))))]
#[inline]
#[expect(unsafe_code, reason = "the only way to read it inline")]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory. A system may
    // forbid it to programs; then `quanta`, which reads it before us, has ended this one.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Other processors' counters are read through `quanta`.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, tollgate_loom)))))]
#[inline]
const fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_quanta() {
        let clock = MonotonicClock::new();
        let grain = Span::from_nanos(2);
        for _ in 0..1_000 {
            let (before, now, after) = (clock.read_quanta(), clock.now(), clock.read_quanta());
            assert!(before - grain <= now && now <= after + grain);
        }
    }
}
