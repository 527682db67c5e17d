//! How large a limiter is, its name and its clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tollgate_core::{Clock, Limit};
use tollgate_memory::{Builder as MemoryBuilder, Memory, RandomKeys, SystemClock};

use super::{CurrentTerms, Limiter};
use crate::queue::{Queues, WAITING_PER_KEY};

/// A [`Limiter`] yet to be built.
///
/// # Example
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let builder = Limiter::builder(Limit::per_minute(100)).name("per user").max_keys(50_000);
/// let limiter = builder.try_build()?;
/// assert_eq!(limiter.name(), "per user");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Builder<C = SystemClock> {
    limit: Limit,
    name: Arc<str>,
    memory: MemoryBuilder<C>,
    waiting_per_key_max: usize,
}

/// Why a limiter cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The system has not as much memory as the limiter is to have.
    TooLarge {
        /// What the limiter is to have, in bytes.
        bytes: usize,
    },
    /// More limits than one request can meet.
    TooManyLimits {
        /// How many there are.
        limits: usize,
        /// How many there may be.
        max: usize,
    },
}

// === impl Builder ===

impl Builder {
    pub(super) fn new(limit: Limit) -> Builder {
        Builder {
            limit,
            name: "limit".into(),
            memory: Memory::builder(),
            waiting_per_key_max: WAITING_PER_KEY,
        }
    }
}

impl<C: Clock> Builder<C> {
    /// The name of the limit, which tells it from others on the same request. Default: `limit`.
    pub fn name(self, name: &str) -> Builder<C> {
        Builder {
            name: name.into(),
            ..self
        }
    }

    /// Room for this many live keys; the [crate's documentation](crate#memory) says how much memory
    /// that takes. Default: a million.
    pub fn max_keys(self, keys: usize) -> Builder<C> {
        Builder {
            memory: self.memory.max_keys(keys),
            ..self
        }
    }

    /// Limits of later siblings ([`Limiter::sibling`]), so that there is memory for the largest
    /// states of all of them.
    pub fn sibling_limits(self, limits: &[Limit]) -> Builder<C> {
        Builder {
            memory: self.memory.limits(limits),
            ..self
        }
    }

    /// All memory that the limiter may use, in bytes. Without `max_keys` half of it is for keys,
    /// half for states that are larger than a word; with it, these have what the keys leave, and a
    /// sixteenth at least.
    pub fn max_bytes(self, bytes: usize) -> Builder<C> {
        Builder {
            memory: self.memory.max_bytes(bytes),
            ..self
        }
    }

    /// How many may wait for one key in `until_ready`, including those that a leaky bucket holds
    /// until their turn. Default: 1 024. For all keys of a limiter it is [`crate::WAITING_MAX`].
    pub fn max_waiting(self, waiting: usize) -> Builder<C> {
        Builder {
            waiting_per_key_max: waiting,
            ..self
        }
    }

    /// Another clock than the machine's: in tests a [`crate::ManualClock`], by value, by reference
    /// or in an [`Arc`].
    pub fn clock<D: Clock>(self, clock: D) -> Builder<D> {
        Builder {
            limit: self.limit,
            name: self.name,
            memory: self.memory.clock(clock),
            waiting_per_key_max: self.waiting_per_key_max,
        }
    }

    /// Builds the limiter and allocates its memory.
    ///
    /// # Panics
    ///
    /// If the system has not as much memory; [`Builder::try_build`] returns that as an error.
    pub fn build(self) -> Limiter<C> {
        match self.try_build() {
            Ok(limiter) => limiter,
            Err(error) => panic!("{error}"),
        }
    }

    /// Builds the limiter, if there is as much memory as it is to have.
    ///
    /// # Errors
    ///
    /// [`BuildError::TooLarge`].
    pub fn try_build(self) -> Result<Limiter<C>, BuildError> {
        let memory = self.memory.limits([&self.limit]);
        let store = memory
            .try_build()
            .map_err(|bytes| BuildError::TooLarge { bytes })?;
        Ok(Limiter {
            terms: CurrentTerms::new(self.limit),
            keys: RandomKeys::new(),
            store: Arc::new(store),
            name: self.name,
            queues: Queues::new(self.waiting_per_key_max),
            failures: AtomicU64::new(0),
        })
    }
}

// === impl BuildError ===

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::TooLarge { bytes } => write!(
                f,
                "the system has not the {bytes} bytes that the limiter is to have; lower \
                 `max_keys` or set `max_bytes`"
            ),
            BuildError::TooManyLimits { limits, max } => {
                write!(
                    f,
                    "{limits} limits on one request, and at most {max} are allowed"
                )
            }
        }
    }
}

impl std::error::Error for BuildError {}
