//! The memory of Redis: predicted from the number of keys and from what a key was measured to take.

use serde_json::Value;
use tollgate_core::{Algorithm, Anchor, Limit, Segments};

/// The constants of `tollgate plan`, which `cargo xtask bench constants` measures.
const CONSTANTS: &str = include_str!("../../../cli/src/plan/constants.json");
/// A place of the two hash tables of keys, in bytes; places are a power of two.
const PLACE_BYTES: u64 = 16;
const PLACES_MIN: u64 = 4;

/// The bytes of so many keys of this limit. States that grow are as after a first request.
///
/// # Panics
///
/// If the constants have no number for its algorithm.
pub(super) fn bytes(limit: &Limit, keys: u64) -> u64 {
    if keys == 0 {
        return 0;
    }
    let constants: Value = serde_json::from_str(CONSTANTS).expect("the planner reads it");
    let constant = |name: &str| {
        let value = constants["constants"][format!("redis.bytes.{name}")]["value"].as_u64();
        value.expect("the planner needs it as well")
    };
    let state = match limit.algorithm() {
        Algorithm::TokenBucket => "token_bucket",
        Algorithm::LeakyBucket => "leaky_bucket",
        Algorithm::FixedWindow(Anchor::FirstRequest) => "fixed_window_first",
        Algorithm::FixedWindow(_) => "fixed_window",
        Algorithm::SlidingLog => "sliding_log",
        Algorithm::SlidingWindow(Segments::ONE) => "sliding_window",
        Algorithm::SlidingWindow(_) => "sliding_window_segments",
        other => panic!("no constant of {other:?}"),
    };
    let places = keys.max(PLACES_MIN).next_power_of_two();
    keys * (constant(state) + constant("overhead")) + places * PLACE_BYTES
}
