//! The descriptors of a request, kept for later.

use tollgate_core::{ChargeDenied, Cost, Descriptor, Entry, Request};

/// The descriptors of a request, which outlive it.
pub(super) struct Descriptors {
    domain: Box<[u8]>,
    /// The entries of each.
    entries: Vec<Entries>,
}

/// The keys and values of a descriptor.
type Entries = Vec<(Box<[u8]>, Box<[u8]>)>;

// === impl Descriptors ===

impl Descriptors {
    pub(super) fn of(request: &Request<'_>) -> Descriptors {
        let entries = request.descriptors.iter().map(|descriptor| {
            let entries = descriptor.entries.iter();
            let pairs = entries.map(|entry| (entry.key.into(), entry.value.into()));
            pairs.collect()
        });
        Descriptors {
            domain: request.domain.into(),
            entries: entries.collect(),
        }
    }

    /// A request with these descriptors.
    pub(super) fn request(&self, cost: Cost) -> Request<'_> {
        let descriptors = self.entries.iter().map(|entries| Descriptor {
            entries: entries
                .iter()
                .map(|(key, value)| Entry { key, value })
                .collect(),
            ..Descriptor::default()
        });
        Request {
            domain: &self.domain,
            descriptors: descriptors.collect(),
            cost,
            charge_denied: ChargeDenied::Never,
        }
    }
}
