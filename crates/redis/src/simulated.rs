//! What a store takes from outside, in the hands of a simulation: connections, the monotonic clock
//! and random numbers. No part of the crate's interface: it may change with any version.
//!
//! Everything else that a store waits for is Tokio's time, which a paused runtime simulates.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tollgate_core::Moment;

use crate::config::{Config, InvalidConfig};
pub use crate::connection::Stream;
pub use crate::random::seed;
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
