//! Time that never goes back: the processor's counter where there is one, in line.
//!
//! `quanta` knows whether the counter can be trusted and how fast it runs; asking it anew for both
//! at each reading would be a tenth of a decision.

use tollgate_core::{Moment, Span};

/// The counter's ticks that are measured in nanoseconds: the rate's error is one in 2^38.
const TICKS_SHIFT: u32 = 40;

/// A clock that goes on from an hour, so that moments before its start can be told.
#[derive(Debug)]
pub(crate) struct Steady {
    clock: quanta::Clock,
    /// What the clock said at the start.
    start: u64,
    /// The nanoseconds of 2^40 ticks; 0 if the counter is not the clock.
    rate: u64,
    /// What the counter said an hour before the start, modulo 2^64.
    origin: u64,
}

const START: Span = Span::HOUR;

// === impl Steady ===

impl Steady {
    /// Starts the clock. The first one in a process measures the counter's rate, which takes some
    /// milliseconds.
    pub(crate) fn new() -> Steady {
        let clock = quanta::Clock::new();
        let rate = match is_counter(&clock) {
            true => clock.delta_as_nanos(0, 1 << TICKS_SHIFT),
            false => 0,
        };
        let start = clock.raw();
        let hour = u128::from(START.as_nanos()) << TICKS_SHIFT;
        let hour = hour.checked_div(u128::from(rate)).unwrap_or(0);
        Steady {
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
            return self.asked();
        }
        // Counters of different processors may differ by a few ticks, but never by an hour.
        let ticks = counter().wrapping_sub(self.origin);
        Moment::from_nanos(whole(
            (u128::from(ticks) * u128::from(self.rate)) >> TICKS_SHIFT,
        ))
    }

    /// What `quanta` says.
    #[cold]
    fn asked(&self) -> Moment {
        let passed = self.clock.delta_as_nanos(self.start, self.clock.raw());
        Moment::ZERO + START + Span::from_nanos(passed)
    }
}

/// Ticks and nanoseconds fit 64 bits for 292 years.
#[inline]
#[expect(
    clippy::as_conversions,
    reason = "a check here is one in each decision"
)]
const fn whole(wide: u128) -> u64 {
    wide as u64
}

/// Whether `clock` reads the counter, and in other units than nanoseconds.
fn is_counter(clock: &quanta::Clock) -> bool {
    let before = counter();
    let said = clock.raw();
    let after = counter();
    // A clock that counts from 1970 or from the machine's start is nowhere near, or it is as good.
    before != 0 && (before..=after).contains(&said)
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
#[inline]
#[expect(unsafe_code, reason = "the only way to read it in line")]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory. A system may
    // forbid it to programs; then `quanta`, which reads it before us, has ended this one.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// No counter that this knows how to read.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
#[inline]
const fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_quanta() {
        let steady = Steady::new();
        let grain = Span::from_nanos(2);
        for _ in 0..1_000 {
            let (before, now, after) = (steady.asked(), steady.now(), steady.asked());
            assert!(before - grain <= now && now <= after + grain);
        }
    }
}
