//! The addresses at which a request has failed, and how often it was not processed.

use std::sync::Arc;

use crate::connection_pool::ConnectionPool;

/// The most addresses that are remembered: of a request and its retries.
const TRIED_MAX: usize = 6;
/// How often a request is sent of which nothing was sent, or nothing processed.
pub(super) const SENDS_MAX: usize = 3;

/// What has failed of a request, its retries included.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// The addresses, the latest last.
    pools: Vec<Arc<ConnectionPool>>,
    rejections: usize,
}

impl Tried {
    pub(super) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Makes an address the latest one. If there are too many, the earliest is dropped.
    pub(super) fn record(&mut self, pool: &Arc<ConnectionPool>) {
        self.pools.retain(|other| !Arc::ptr_eq(other, pool));
        if self.pools.len() >= TRIED_MAX {
            self.pools.remove(0);
        }
        self.pools.push(Arc::clone(pool));
    }

    /// How late an address was tried; `None`, which is less than all others, if it was not.
    pub(super) fn position(&self, pool: &Arc<ConnectionPool>) -> Option<usize> {
        self.pools.iter().position(|other| Arc::ptr_eq(other, pool))
    }

    /// Counts that a server has said that it did not process the request.
    pub(super) const fn count_rejection(&mut self) {
        self.rejections += 1;
    }

    /// Whether servers have said so as often as the request may be sent for that: every further
    /// send would be load on servers that take no more, and a retry would send it as often again.
    pub(super) const fn is_rejected(&self) -> bool {
        self.rejections >= SENDS_MAX
    }
}
