//! Random numbers, seeded in a simulation.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    /// The state of this thread's generator, in a simulation.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Seeds the random numbers of this thread; `None` makes them unpredictable again.
pub fn seed(seed: Option<u64>) {
    SEED.set(seed);
}

/// A random number: unpredictable, except in a simulation.
pub fn random_word() -> u64 {
    let Some(state) = SEED.get() else {
        return RandomState::new().hash_one(0_u8);
    };
    // SplitMix64.
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    SEED.set(Some(state));
    let word = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Whether this thread runs a simulation.
pub(crate) fn is_seeded() -> bool {
    SEED.get().is_some()
}
