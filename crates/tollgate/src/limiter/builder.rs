//! The builder of limiters: size, name and clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use smol_str::SmolStr;
use tollgate_core::{Clock, Limit};
use tollgate_memory::{Builder as MemoryBuilder, Memory, RandomKeys, SystemClock};

use super::{CurrentTerms, Limiter};
use crate::queue::{Queues, WAITING_PER_KEY};

/// Builds a [`Limiter`].
///
/// # Example
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let builder = Limiter::builder(Limit::per_minute(100)).name("per user").max_keys(50_000);
/// let builder = builder.max_waiting(100);
/// let limiter = builder.try_build()?;
/// assert_eq!(limiter.name(), "per user");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Builder<C = SystemClock> {
    limit: Limit,
    name: SmolStr,
    memory: MemoryBuilder<C>,
    waiting_per_key_max: usize,
}

/// Why a limiter cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The system does not have as much memory as the limiter needs.
    TooLarge {
        /// The memory that the limiter needs, in bytes.
        bytes: usize,
    },
    /// More limits than one request can meet.
    TooManyLimits {
        /// How many there are.
        limits: usize,
        /// How many there may be.
        max: usize,
    },
    /// Two limits that apply to the same requests have the same name, so nothing could tell them
    /// apart.
    SameName {
        /// The name.
        name: Box<str>,
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
    /// The name of the limit, which distinguishes it from other limits on the same request.
    /// Default: `limit`.
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

    /// The limits of later siblings ([`Limiter::sibling`]), so that there is memory for the largest
    /// states of all of them.
    pub fn sibling_limits(self, limits: &[Limit]) -> Builder<C> {
        Builder {
            memory: self.memory.limits(limits),
            ..self
        }
    }

    /// The maximum memory of the limiter, in bytes. Without `max_keys`, half of it is for keys and
    /// half for states that are larger than a word. With `max_keys`, such states get the rest, but
    /// at least a sixteenth.
    pub fn max_bytes(self, bytes: usize) -> Builder<C> {
        Builder {
            memory: self.memory.max_bytes(bytes),
            ..self
        }
    }

    /// The maximum number of waiters for one key in `until_ready`, including those that a leaky
    /// bucket holds until their turn. Default: 1 024. The maximum over all keys is
    /// [`crate::WAITING_MAX`].
    pub fn max_waiting(self, waiting: usize) -> Builder<C> {
        Builder {
            waiting_per_key_max: waiting,
            ..self
        }
    }

    /// Replaces the system's clock, for instance with a [`crate::ManualClock`] in tests; by value,
    /// by reference or in an [`Arc`].
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
    /// If the system does not have the memory; [`Builder::try_build`] returns that as an error.
    pub fn build(self) -> Limiter<C> {
        match self.try_build() {
            Ok(limiter) => limiter,
            Err(error) => panic!("{error}"),
        }
    }

    /// Builds the limiter and allocates its memory, or fails if there is not enough.
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
            BuildError::SameName { name } => {
                write!(f, "two limits have the name `{name}`: give each its own")
            }
        }
    }
}

impl std::error::Error for BuildError {}
