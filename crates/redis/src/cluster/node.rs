//! One node of a Cluster, or the only server of a store without one.

use std::sync::Arc;

use crate::request_queue::RequestQueue;
use crate::stats::Stats;

/// A node and its request queues.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    pub(crate) queues: Vec<RequestQueue>,
    pub(crate) stats: Arc<Stats>,
}

// === impl Node ===

impl Node {
    /// Whether every connection is usable: a key always uses the same one.
    pub(crate) fn is_up(&self) -> bool {
        self.queues.iter().all(RequestQueue::is_up)
    }

    /// Completes the address in a redirect from this node: without a host (`:6379`), or with `?` in
    /// its place, the host is the node's own.
    pub(crate) fn full_address(&self, address: &str) -> String {
        match address.rsplit_once(':') {
            Some(("" | "?", port)) => format!("{}:{port}", self.host()),
            _ => address.to_owned(),
        }
    }

    /// The address without its port.
    pub(super) fn host(&self) -> &str {
        self.address
            .rsplit_once(':')
            .map_or(&*self.address, |(host, _)| host)
    }
}
