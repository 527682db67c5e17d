//! Random numbers that follow from a seed.

/// `SplitMix64`: the same seed always gives the same numbers, those of the tests of all stores.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

// === impl Random ===

impl Random {
    /// The generator that `seed` starts.
    pub(crate) const fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Any number.
    pub(crate) const fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number from `least` to `most`, both included; `least` if `most` is below it.
    pub(crate) const fn between(&mut self, least: u64, most: u64) -> u64 {
        match most.saturating_sub(least).checked_add(1) {
            Some(size) => least + self.word() % size,
            None => self.word(),
        }
    }

    /// As [`Random::between`], for small numbers.
    pub(crate) fn small(&mut self, least: u32, most: u32) -> u32 {
        let drawn = self.between(u64::from(least), u64::from(most));
        u32::try_from(drawn).unwrap_or(most)
    }

    /// True `percent` times in a hundred.
    pub(crate) const fn chance(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    /// A random index below `count`; 0 if there is none.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        let last = u64::try_from(count).unwrap_or(u64::MAX).saturating_sub(1);
        usize::try_from(self.between(0, last)).unwrap_or(0)
    }

    /// One of `choices`, of which there is at least one.
    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_tests_of_stores_draw() {
        let (mut ours, mut theirs) = (Random::new(7), tollgate_behaviour::Random::new(7));
        for _ in 0..100 {
            assert_eq!(ours.word(), theirs.word());
            assert_eq!(ours.between(3, 900), theirs.between(3, 900));
            assert_eq!(ours.between(0, u64::MAX), theirs.between(0, u64::MAX));
            assert_eq!(ours.small(2, 40), theirs.small(2, 40));
            assert_eq!(ours.chance(30), theirs.chance(30));
            assert_eq!(ours.pick(&[1, 2, 3]), theirs.pick(&[1, 2, 3]));
        }
    }
}
