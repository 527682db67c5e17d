//! What a store takes from outside, in the hands of a simulation: connections, the monotonic clock
//! and random numbers. No part of the crate's interface: it may change with any version.
//!
//! Everything else that a store waits for is Tokio's time, which a paused runtime simulates.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tollgate_core::Moment;

use crate::config::{Config, InvalidConfig};
pub use crate::connection::Stream;
use crate::script::{Caller, ClockOf, Scripts};
use crate::store::Redis;

/// Opens byte streams in place of TCP.
pub trait Transport: Send + Sync {
    /// A stream to `address`, which is `host:port`.
    fn connect(&self, address: &str) -> Connecting;
}

/// A stream that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Reads the monotonic clock.
pub type Monotonic = Arc<dyn Fn() -> Moment + Send + Sync>;

/// What one store takes from outside.
#[derive(Clone)]
pub struct Surroundings {
    /// Opens connections.
    pub transport: Arc<dyn Transport>,
    /// The clock by which leases and own counts end.
    pub clock: Monotonic,
}

thread_local! {
    /// The state of this thread's generator while it simulates.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on, every random number of this thread follows from `seed`; without one they are
/// random again.
pub fn seed(seed: Option<u64>) {
    SEED.set(seed);
}

/// Any number: unpredictable, except in a simulation.
pub(crate) fn random_word() -> u64 {
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

/// Whether this thread simulates.
pub(crate) fn is_seeded() -> bool {
    SEED.get().is_some()
}

impl Redis {
    /// As [`Redis::connect`], with connections and a clock of the caller's.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`].
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn connect_within(
        config: &Config,
        surroundings: &Surroundings,
    ) -> Result<Redis, InvalidConfig> {
        let caller = Caller {
            prefix: config.prefix.clone(),
            ..Caller::default()
        };
        Redis::with(
            config,
            Scripts::new(ClockOf::Redis),
            &caller,
            Some(surroundings),
        )
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}
