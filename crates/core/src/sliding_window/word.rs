//! A sliding window of one segment as one word, for a store that has a word for each key.

use super::SlidingWindow;
use crate::limit::{Algorithm, Limit, Segments};

/// A sliding window of one segment: the units of the present window and of the one before.
type TwoWindows = SlidingWindow<2>;

// === impl SlidingWindow ===

impl TwoWindows {
    /// Whether states of `limit` fit one word ([`SlidingWindow::word`]): it has one segment, and
    /// (2 N + 1)^2 is at most the nanoseconds of its window. For a window of a second that is an N
    /// of 15 810, for a minute 122 473, for an hour 948 682.
    ///
    /// Two N, because a step of the clock back adds the units of both windows.
    #[inline]
    pub fn fits_word(limit: &Limit) -> bool {
        let most = u64::from(limit.capacity()).saturating_mul(2);
        limit.algorithm() == Algorithm::SlidingWindow(Segments::ONE) && fits(most, limit)
    }

    /// The state as one word, for a limit with this window. `None` if its units do not fit.
    ///
    /// It is the moment at which the state expires, which is a multiple of the window, and a number
    /// below the window that stands for the units of both windows. Read as a moment, the word is
    /// not before the state expires. Zero is the state of a key never seen.
    #[inline]
    pub fn word(&self, limit: &Limit) -> Option<u64> {
        let [current, previous] = self.counters.map(u64::from);
        // Units of the window before alone are those of a present window that was that one.
        let (newest, current, previous) = match (current, previous) {
            (0, 0) => return Some(0),
            (0, _) => (self.newest.saturating_sub(1), previous, 0),
            _ => (self.newest, current, previous),
        };
        let expires_at = newest.saturating_add(2);
        let expires_at = expires_at.saturating_mul(limit.window().as_nanos());
        let code = fits(current.max(previous), limit).then(|| pair(current, previous));
        code.map(|code| expires_at.saturating_add(code))
    }

    /// Whether the state still fits a word after a decision under `limit`, whose own units do
    /// ([`SlidingWindow::fits_word`]): also if a step of the clock back adds the units of both
    /// windows. Units that a larger limit counted may not.
    pub fn stays_in_word(&self, limit: &Limit) -> bool {
        let [current, previous] = self.counters.map(u64::from);
        fits(current + previous, limit)
    }

    /// The inverse of [`SlidingWindow::word`].
    #[inline]
    pub fn from_word(limit: &Limit, word: u64) -> TwoWindows {
        let window = limit.window().as_nanos();
        let (expires_at, code) = (word / window, word % window);
        let Some(newest) = expires_at.checked_sub(2) else {
            return TwoWindows::default();
        };
        let (current, previous) = unpair(code);
        let counters = [current, previous].map(|units| u32::try_from(units).unwrap_or(u32::MAX));
        TwoWindows::new(newest, &counters)
    }
}

/// Whether every pair of numbers up to `most` is paired below the window's nanoseconds.
#[inline]
fn fits(most: u64, limit: &Limit) -> bool {
    let sides = most.saturating_add(1);
    sides.saturating_mul(sides) <= limit.window().as_nanos()
}

/// One number for two, below the square of the larger plus one (Szudzik's elegant pairing).
#[inline]
const fn pair(one: u64, other: u64) -> u64 {
    if one >= other {
        one * one + one + other
    } else {
        other * other + one
    }
}

/// The inverse of [`pair`].
#[inline]
const fn unpair(code: u64) -> (u64, u64) {
    let root = code.isqrt();
    let rest = code - root * root;
    if rest < root {
        (rest, root)
    } else {
        (root, rest - root)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::moment::Moment;
    use crate::span::Span;
    use crate::usage::Usage;

    #[test]
    fn a_pair_is_one_number_of_its_own() {
        let mut codes = std::collections::HashSet::new();
        for (one, other) in (0..60).flat_map(|one| (0..60).map(move |other| (one, other))) {
            let code = pair(one, other);
            assert!(code < 3_600 && codes.insert(code));
            assert_eq!(unpair(code), (one, other));
        }
        let most = u64::from(u32::MAX);
        assert_eq!(unpair(pair(most, most)), (most, most));
    }

    #[test]
    fn a_word_is_the_state_and_not_before_its_end() {
        let limit = Limit::sliding_window(15_810, Span::SECOND, 1).unwrap();
        assert!(SlidingWindow::fits_word(&limit));
        let larger = Limit::sliding_window(15_811, Span::SECOND, 1).unwrap();
        assert!(!SlidingWindow::fits_word(&larger));
        for counters in [
            [1, 0],
            [0, 1],
            [7, 9],
            [9, 7],
            [31_620, 0],
            [15_810, 31_620],
        ] {
            let state = TwoWindows::new(1_000, &counters);
            let word = state.word(&limit).unwrap();
            let late = Moment::from_nanos(word).since(state.expires_at(&limit));
            assert!(word >= state.expires_at(&limit).as_nanos() && late < Span::SECOND);
            let now = Moment::ZERO + Span::from_millis(1_000_250);
            let (mut want, mut got) = (state, TwoWindows::from_word(&limit, word));
            want.settle(&limit, now);
            got.settle(&limit, now);
            assert_eq!(got, want);
        }
        let both = TwoWindows::new(1_000, &[31_622, 0]);
        assert_eq!(both.word(&limit), None);
        let sum = TwoWindows::new(1_000, &[31_621, 1]);
        assert!(sum.word(&limit).is_some() && !sum.stays_in_word(&limit));
        assert_eq!(TwoWindows::default().word(&limit), Some(0));
        assert_eq!(TwoWindows::from_word(&limit, 0), TwoWindows::default());
    }
}
