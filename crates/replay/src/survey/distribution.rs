//! How many requests a key has in a window of its rule.

use std::collections::HashMap;

use tollgate_core::{Key, Moment, Span};

/// The most keys of a rule whose current window is counted at once.
pub const DISTRIBUTION_KEYS_MAX: usize = 100_000;

/// How many requests the keys of a rule have in windows of its length, which are aligned to the
/// Unix epoch. Only windows with a request count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// The window.
    pub window: Span,
    /// How many windows have 1 request, 2, 3 to 4, 5 to 8, and so on; each is twice the one before.
    pub counts: Vec<u64>,
    /// The most requests of a key in a window.
    pub most: u64,
    /// Requests that are not counted, because more than [`DISTRIBUTION_KEYS_MAX`] keys had requests
    /// in one window.
    pub uncounted: u64,
}

/// The windows that keys are in. Events come in order of time.
#[derive(Default)]
pub(crate) struct Windows {
    /// The number of the window, and the requests in it.
    keys: HashMap<Key, (u64, u64)>,
    found: Distribution,
    /// The window at which completed ones were last removed.
    removed_at: Option<u64>,
}

// === impl Distribution ===

impl Distribution {
    /// The fewest and the most requests that a place of [`Distribution::counts`] stands for.
    pub fn range(place: usize) -> (u64, u64) {
        let place = u32::try_from(place).unwrap_or(u32::MAX).min(62);
        match place {
            0 => (1, 1),
            _ => ((1 << (place - 1)) + 1, 1 << place),
        }
    }

    fn complete(&mut self, requests: u64) {
        let place = requests
            .saturating_sub(1)
            .checked_ilog2()
            .map_or(0, |log| log + 1);
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.most = self.most.max(requests);
    }
}

// === impl Windows ===

impl Windows {
    /// Counts a request of a key.
    pub(crate) fn add(&mut self, key: Key, at: Moment, window: Span) {
        self.found.window = window;
        let number = at.as_nanos() / window.as_nanos().max(1);
        if self.keys.len() >= DISTRIBUTION_KEYS_MAX && !self.keys.contains_key(&key) {
            self.remove_before(number);
            if self.keys.len() >= DISTRIBUTION_KEYS_MAX {
                self.found.uncounted += 1;
                return;
            }
        }
        let (current, requests) = self.keys.entry(key).or_insert((number, 0));
        if *current != number {
            self.found.complete(*requests);
            (*current, *requests) = (number, 0);
        }
        *requests += 1;
    }

    /// Removes the windows before this one, at most once for each window.
    fn remove_before(&mut self, number: u64) {
        if self.removed_at.replace(number) == Some(number) {
            return;
        }
        let found = &mut self.found;
        self.keys.retain(|_, (current, requests)| {
            if *current != number {
                found.complete(*requests);
            }
            *current == number
        });
    }

    pub(crate) fn finish(mut self) -> Distribution {
        for (_, requests) in self.keys.values() {
            self.found.complete(*requests);
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::from_bits(u128::try_from(number).unwrap_or(0))
    }

    #[test]
    fn windows_are_counted_by_powers_of_two() {
        let mut windows = Windows::default();
        for (at, requests) in [(0, 1), (10, 2), (20, 3), (30, 4), (40, 5), (50, 8), (60, 9)] {
            for _ in 0..requests {
                windows.add(key(0), Moment::from_nanos(at), Span::from_nanos(10));
            }
        }
        let found = windows.finish();
        assert_eq!(found.counts, [1, 1, 2, 2, 1]);
        assert_eq!((found.most, found.uncounted), (9, 0));
        let ranges = [0, 1, 2, 3, 4].map(Distribution::range);
        assert_eq!(ranges, [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16)]);
    }

    #[test]
    fn the_table_is_bounded_and_what_it_does_not_count_is_said() {
        let mut windows = Windows::default();
        let second = Span::SECOND;
        for number in 0..DISTRIBUTION_KEYS_MAX + 5 {
            windows.add(key(number), Moment::ZERO, second);
        }
        assert_eq!(windows.keys.len(), DISTRIBUTION_KEYS_MAX);
        // In the next window, those of the former one make room.
        for number in 0..10 {
            let later = Moment::from_nanos(second.as_nanos());
            windows.add(key(DISTRIBUTION_KEYS_MAX + 5 + number), later, second);
        }
        assert_eq!(windows.keys.len(), 10);
        let found = windows.finish();
        assert_eq!(found.uncounted, 5);
        let all = u64::try_from(DISTRIBUTION_KEYS_MAX + 10).unwrap_or(0);
        assert_eq!(found.counts, [all]);
    }
}
