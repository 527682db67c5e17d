//! How large a limiter is, what it is called and whose time it keeps.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tollgate_core::{Clock, Limit, LimitHistory};
use tollgate_memory::{Builder as MemoryBuilder, Memory, RandomKeys, SystemClock};

use super::Limiter;
use crate::queue::{Queues, WAITING_PER_KEY};

/// A [`Limiter`] yet to be built.
#[derive(Debug)]
pub struct Builder<C = SystemClock> {
    limit: Limit,
    name: Arc<str>,
    memory: MemoryBuilder<C>,
    waiting_per_key_max: usize,
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
    /// What the limit is called where several meet. `limit` if nothing is said.
    pub fn name(self, name: &str) -> Builder<C> {
        Builder {
            name: name.into(),
            ..self
        }
    }

    /// Room for this many live keys; see [`MemoryBuilder::max_keys`]. A million if nothing is said.
    pub fn max_keys(self, keys: usize) -> Builder<C> {
        Builder {
            memory: self.memory.max_keys(keys),
            ..self
        }
    }

    /// Limits of siblings to come ([`Limiter::sibling`]), so that there is memory for the largest
    /// states of all of them.
    pub fn sibling_limits(self, limits: &[Limit]) -> Builder<C> {
        Builder {
            memory: self.memory.limits(limits),
            ..self
        }
    }

    /// All that the memory may be, in bytes; see [`MemoryBuilder::max_bytes`].
    pub fn max_bytes(self, bytes: usize) -> Builder<C> {
        Builder {
            memory: self.memory.max_bytes(bytes),
            ..self
        }
    }

    /// How many may wait for one key in `until_ready`, those included that a leaky bucket holds
    /// until their turn. 1 024 if nothing is said.
    pub fn max_waiting(self, waiting: usize) -> Builder<C> {
        Builder {
            waiting_per_key_max: waiting,
            ..self
        }
    }

    /// Another clock than the machine's: in tests a [`crate::ManualClock`], given by value, by
    /// reference or in an [`Arc`].
    pub fn clock<D: Clock>(self, clock: D) -> Builder<D> {
        Builder {
            limit: self.limit,
            name: self.name,
            memory: self.memory.clock(clock),
            waiting_per_key_max: self.waiting_per_key_max,
        }
    }

    /// Builds the limiter and allocates its memory.
    pub fn build(self) -> Limiter<C> {
        Limiter {
            limit: self.limit,
            history: LimitHistory::default(),
            keys: RandomKeys::new(),
            store: Arc::new(self.memory.limits([&self.limit]).build()),
            name: self.name,
            queues: Queues::new(self.waiting_per_key_max),
            failures: AtomicU64::new(0),
        }
    }
}
