//! The clock by which a counter is decided, and how it was set.
//!
//! Redis decides by its own clock. So a counter follows the clock of the server that has it: when
//! that one is set, or when another server takes over, or its slot moves to one. The clocks of
//! instances matter for decisions without Redis only, and their wall clocks for windows that are
//! aligned to the epoch only.

/// A millisecond, in nanoseconds.
const MILLI: u64 = 1_000_000;

/// By how much more two servers' clocks may differ, or one that is read twice.
pub(super) const READ_LATE: u64 = 2 * MILLI;

/// How a clock was set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jump {
    /// Between these moments.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Forward, or back.
    pub(crate) nanos: i64,
}

/// All that a clock was set; at other times it runs as the simulated time does.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// In the order of their starts.
    jumps: Vec<Jump>,
}

/// A clock that was never set.
pub(super) static UNSET: Clock = Clock { jumps: Vec::new() };

// === impl Jump ===

impl Jump {
    /// At a known moment.
    pub(crate) const fn at(now: u64, nanos: i64) -> Jump {
        Jump {
            from: now,
            to: now,
            nanos,
        }
    }

    const fn forward(&self) -> u64 {
        if self.nanos > 0 {
            self.nanos.unsigned_abs()
        } else {
            0
        }
    }

    const fn back(&self) -> u64 {
        if self.nanos < 0 {
            self.nanos.unsigned_abs()
        } else {
            0
        }
    }

    /// Whether it is small enough for what is allowed for clocks that are read late.
    pub(super) const fn is_small(&self) -> bool {
        self.nanos.unsigned_abs() <= MILLI
    }

    const fn is_within(&self, from: u64, to: u64) -> bool {
        self.to >= from && self.from <= to
    }
}

// === impl Clock ===

impl Clock {
    pub(super) fn add(&mut self, jump: Jump) {
        self.jumps.push(jump);
    }

    /// Whether it was set by more than what is allowed for clocks that are read late.
    pub(super) fn has_large_jumps(&self) -> bool {
        self.jumps.iter().any(|jump| !jump.is_small())
    }

    /// The moments of a period at one of which most counts as used: its start, as less and less
    /// does until the clock is set, and those at which it is set.
    pub(super) fn moments(&self, from: u64, to: u64) -> impl Iterator<Item = u64> {
        let set = self.jumps.iter().map(|jump| jump.from);
        std::iter::once(from).chain(set.filter(move |at| from < *at && *at <= to))
    }

    /// How much more time passes by this clock from `from` to `to`, of a memory that is `most`
    /// long: a longer jump ends it, as one of that length does.
    pub(super) fn forward(&self, from: u64, to: u64, most: u64) -> u64 {
        let within = self.jumps.iter().filter(|jump| jump.is_within(from, to));
        within.map(|jump| jump.forward().min(most)).sum()
    }

    /// The earliest moment of which a memory of this length may still know something at `at`. A
    /// jump back makes it that much longer, but not longer than from the jump on.
    pub(super) fn find_memory_start(&self, at: u64, memory: u64) -> u64 {
        let mut from = at.saturating_sub(memory);
        for jump in self.jumps.iter().rev() {
            if jump.from <= at && jump.to >= from {
                from = from.saturating_sub(jump.back().min(memory));
            }
        }
        from
    }

    /// The earliest moment of which a bucket may still owe something at `at`. A full debt is this
    /// long. What it owes at a jump back it owes for that much longer, unless a decision finds that
    /// this is more than a full debt.
    pub(super) fn find_debt_start(&self, at: u64, full: u64) -> u64 {
        let mut from = at.saturating_sub(full);
        for jump in self.jumps.iter().rev().filter(|jump| jump.from <= at) {
            let longer = from.saturating_sub(jump.back());
            if jump.to >= longer {
                from = longer;
            }
        }
        from
    }

    /// By how much the debt of a bucket may be longer at `at` than by the units that it charged:
    /// from a jump back on it is longer by that much, and this is worked off first.
    pub(super) fn debt(&self, at: u64) -> u64 {
        let (mut sum, mut most) = (0, 0);
        for jump in self.jumps.iter().rev().filter(|jump| jump.from <= at) {
            sum += jump.back();
            let passed = at.saturating_sub(jump.to.saturating_add(READ_LATE));
            most = most.max(sum.saturating_sub(passed));
        }
        most
    }

    /// How many parts of a window of this length are entered from `from` to `to`, of which each
    /// takes as long as `length`. The world starts at `base`. A part that is entered again after a
    /// jump back has the units of later ones. A jump forward that skips more than `most` parts ends
    /// what is remembered, as one over `most` of them does.
    pub(super) fn parts_entered(
        &self,
        base: u64,
        length: u64,
        (from, to): (u64, u64),
        most: u64,
    ) -> u64 {
        let index = |at: u64, ahead: i64| (base + at).saturating_add_signed(ahead) / length;
        let before = self.jumps.iter().filter(|jump| jump.to < from);
        let mut ahead: i64 = before.map(|jump| jump.nanos).sum();
        let (mut parts, mut start) = (1, from);
        for jump in self.jumps.iter().filter(|jump| jump.is_within(from, to)) {
            let end = jump.to.min(to) + READ_LATE;
            parts += index(end, ahead).saturating_sub(index(start, ahead));
            start = jump.from.max(from);
            let skipped = index(end, ahead + jump.nanos).saturating_sub(index(start, ahead));
            if jump.nanos > 0 {
                parts += skipped.min(most);
            }
            ahead += jump.nanos;
        }
        parts + index(to + READ_LATE, ahead).saturating_sub(index(start, ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn clock(jumps: &[(u64, i64)]) -> Clock {
        let jumps = jumps
            .iter()
            .map(|(at, nanos)| Jump::at(*at * MILLI, *nanos));
        Clock {
            jumps: jumps.collect(),
        }
    }

    #[test]
    fn a_jump_forward_enters_the_windows_that_it_skips() {
        let (from, to) = (100 * MILLI, 400 * MILLI);
        let parts = |clock: &Clock, most| clock.parts_entered(0, 1_000 * MILLI, (from, to), most);
        assert_eq!(parts(&UNSET, 1), 1);
        // Within the window, and into others.
        assert_eq!(parts(&clock(&[(200, SECOND / 10)]), 1), 1);
        assert_eq!(parts(&clock(&[(200, SECOND)]), 1), 2);
        assert_eq!(parts(&clock(&[(200, 9 * SECOND)]), 1), 2);
        assert_eq!(parts(&clock(&[(200, 9 * SECOND)]), 4), 5);
        // Back, nothing is entered before the time is again what it was; before, and later.
        assert_eq!(parts(&clock(&[(200, -9 * SECOND)]), 1), 1);
        assert_eq!(parts(&clock(&[(50, 9 * SECOND)]), 1), 1);
        assert_eq!(parts(&clock(&[(500, 9 * SECOND)]), 1), 1);
        assert_eq!(parts(&clock(&[(200, SECOND), (300, -SECOND)]), 1), 2);
    }

    #[test]
    fn a_jump_back_makes_debts_longer_until_they_are_paid() {
        let clock = clock(&[(100, -SECOND), (600, -SECOND)]);
        assert_eq!(clock.debt(50 * MILLI), 0);
        assert_eq!(clock.debt(100 * MILLI), 1_000 * MILLI);
        assert_eq!(clock.debt(602 * MILLI), 1_500 * MILLI);
        assert_eq!(clock.debt(2_101 * MILLI), MILLI);
        assert_eq!(clock.debt(2_103 * MILLI), 0);
    }

    #[test]
    fn a_clock_that_is_set_during_a_decision_may_have_been_set_before_it() {
        let clock = clock(&[(100, -SECOND), (200, -SECOND)]);
        let moments = |from: u64, to: u64| -> Vec<u64> {
            let moments = clock.moments(from * MILLI, to * MILLI);
            moments.map(|at| at / MILLI).collect()
        };
        assert_eq!(moments(50, 99), [50]);
        assert_eq!(moments(50, 100), [50, 100]);
        assert_eq!(moments(100, 200), [100, 200]);
        let debts = clock.moments(99 * MILLI, 101 * MILLI);
        assert_eq!(debts.map(|at| clock.debt(at)).max(), Some(1_000 * MILLI));
    }

    #[test]
    fn a_jump_back_prolongs_what_a_bucket_owes_at_it() {
        let clock = clock(&[(5_000, -SECOND / 2)]);
        let from = |at: u64| clock.find_debt_start(at * MILLI, 1_000 * MILLI) / MILLI;
        assert_eq!(from(4_999), 3_999);
        assert_eq!(from(5_000), 3_500);
        // Nothing is paid from 5000 to 5500.
        assert_eq!(from(6_499), 4_999);
        assert_eq!(from(6_500), 5_000);
        assert_eq!(from(6_501), 5_501);
    }

    #[test]
    fn a_jump_back_prolongs_what_is_remembered_by_one_memory_at_most() {
        let clock = clock(&[(5_000, -SECOND / 2), (6_000, -9 * SECOND)]);
        let from = |at: u64| clock.find_memory_start(at * MILLI, 2_000 * MILLI) / MILLI;
        assert_eq!(from(4_900), 2_900);
        assert_eq!(from(5_100), 2_600);
        assert_eq!(from(6_100), 1_600);
        assert_eq!(from(8_100), 6_100);
    }
}
