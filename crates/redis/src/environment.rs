//! The environment of a store: connections, clocks, and whether real time passes.
//!
//! A service uses the defaults. Simulations and tests replace the network and the clocks. All other
//! waiting of a store uses Tokio's time, which a paused runtime simulates.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::io::{AsyncRead, AsyncWrite};
use tollgate_core::Moment;

/// A byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Opens byte streams in place of TCP.
pub trait Transport: Send + Sync {
    /// A stream to `address`, which is `host:port`.
    fn connect(&self, address: &str) -> Connecting;
}

/// A stream that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Reads the monotonic clock.
pub type Monotonic = Arc<dyn Fn() -> Moment + Send + Sync>;

/// A clock that is set by the caller, in place of Redis's: microseconds since 1970.
pub type RedisTime = Arc<AtomicU64>;

/// The environment of one store.
#[derive(Clone)]
pub struct Environment {
    /// Opens connections; TCP or Unix sockets if `None`.
    pub transport: Option<Arc<dyn Transport>>,
    /// The clock for the expiry of leases and local counts; the processor's if `None`.
    pub clock: Option<Monotonic>,
    /// The time of the scripts; that of the Redis node if `None`.
    pub redis_time: Option<RedisTime>,
    /// The time of local counts; that of Redis's replies, which `clock` advances, if `None`.
    pub count_time: Option<RedisTime>,
    /// Whether denials are cached, by Tokio's time: must be false where Redis's time does not pass
    /// with it.
    pub caches_denials: bool,
    /// Whether rounds over several slots charge immediately wherever they can, also where that
    /// costs more time than it saves: the rounds of a simulation are small.
    pub charges_at_once: bool,
}

// === impl Environment ===

impl Default for Environment {
    fn default() -> Environment {
        Environment {
            transport: None,
            clock: None,
            redis_time: None,
            count_time: None,
            caches_denials: true,
            charges_at_once: false,
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}
