//! Random numbers from a seed that a failing test prints.

use std::num::NonZeroU64;

/// A small generator (SplitMix64): the same seed always gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// Prints the seed of a case that panics.
struct Case {
    name: &'static str,
    seed: u64,
}

/// Runs `case` with `cases` seeds, or with the one that `TOLLGATE_SEED` names; `TOLLGATE_CASES`
/// multiplies their number.
///
/// A case that panics has its seed printed.
pub fn check(name: &'static str, cases: u64, mut case: impl FnMut(&mut Random)) {
    let cases = cases * wish("TOLLGATE_CASES").unwrap_or(1);
    let seeds = wish("TOLLGATE_SEED").map_or(0..cases, |seed| seed..seed + 1);
    for seed in seeds {
        let _case = Case { name, seed };
        case(&mut Random::new(seed));
    }
}

fn wish(variable: &str) -> Option<u64> {
    let wish = std::env::var(variable).ok()?;
    Some(wish.parse().expect("the variable is a whole number"))
}

// === impl Random ===

impl Random {
    /// The generator that `seed` starts.
    pub const fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Any number.
    pub const fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number from `least` to `most`, both included.
    ///
    /// # Panics
    ///
    /// If `most` is below `least`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        assert!(least <= most, "an empty range");
        match NonZeroU64::new((most - least).wrapping_add(1)) {
            Some(size) => least + self.word() % size,
            None => self.word(),
        }
    }

    /// As [`Random::between`], for small numbers.
    pub fn small(&mut self, least: u32, most: u32) -> u32 {
        let drawn = self.between(u64::from(least), u64::from(most));
        u32::try_from(drawn).expect("drawn between two u32")
    }

    /// A number of any size up to `most`, small ones as often as large ones.
    pub fn any_size(&mut self, most: u64) -> u64 {
        let bits = self.between(0, 63);
        (self.word() >> bits).min(most)
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    /// One of `choices`.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let last = u64::try_from(choices.len()).expect("a length fits") - 1;
        let index = usize::try_from(self.between(0, last)).expect("an index fits");
        choices[index].clone()
    }
}

// === impl Case ===

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: failed with TOLLGATE_SEED={}", self.name, self.seed);
        }
    }
}
