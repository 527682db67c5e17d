//! What a client asks, for as long as the decision takes.

use tollgate_core::{ChargeDenied, Cost, Descriptor, Entry, Request};

/// A request that borrows nothing.
pub(super) struct AskedRequest {
    domain: Vec<u8>,
    /// The keys and values of each descriptor.
    descriptors: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
    cost: Cost,
    charge_denied: ChargeDenied,
}

// === impl AskedRequest ===

impl AskedRequest {
    /// A copy of a request of simulated traffic, whose descriptors are entries and nothing else.
    pub(super) fn of(request: &Request<'_>) -> AskedRequest {
        let copy = |entry: &Entry<'_>| (entry.key.to_vec(), entry.value.to_vec());
        let descriptors = request.descriptors.iter();
        AskedRequest {
            domain: request.domain.to_vec(),
            descriptors: descriptors
                .map(|descriptor| descriptor.entries.iter().map(copy).collect())
                .collect(),
            cost: request.cost,
            charge_denied: request.charge_denied,
        }
    }

    /// The request.
    pub(super) fn request(&self) -> Request<'_> {
        let descriptors = self.descriptors.iter().map(|entries| Descriptor {
            entries: entries
                .iter()
                .map(|(key, value)| Entry { key, value })
                .collect(),
            ..Descriptor::default()
        });
        Request {
            domain: &self.domain,
            descriptors: descriptors.collect(),
            cost: self.cost,
            charge_denied: self.charge_denied,
        }
    }
}
