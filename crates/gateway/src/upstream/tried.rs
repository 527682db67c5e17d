//! The addresses at which a request has failed.

use std::sync::Arc;

use crate::connection_pool::ConnectionPool;

/// The most addresses that are remembered: of a request and its retries.
const TRIED_MAX: usize = 6;

/// The addresses at which a request has failed, the latest last.
#[derive(Debug, Default)]
pub(super) struct Tried(Vec<Arc<ConnectionPool>>);

impl Tried {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes an address the latest one. If there are too many, the earliest is dropped.
    pub(super) fn record(&mut self, pool: &Arc<ConnectionPool>) {
        self.0.retain(|other| !Arc::ptr_eq(other, pool));
        if self.0.len() >= TRIED_MAX {
            self.0.remove(0);
        }
        self.0.push(Arc::clone(pool));
    }

    /// How late an address was tried; `None`, which is less than all others, if it was not.
    pub(super) fn position(&self, pool: &Arc<ConnectionPool>) -> Option<usize> {
        self.0.iter().position(|other| Arc::ptr_eq(other, pool))
    }
}
