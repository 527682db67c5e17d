//! The descriptors of a request, kept for later.

use tollgate_core::{Answer, ChargeDenied, Cost, Descriptor, Entry, Request, Status};

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
    /// All descriptors of a request.
    #[cfg(feature = "redis")]
    pub(super) fn of(request: &Request<'_>) -> Descriptors {
        Descriptors::copy(request, |_| true)
    }

    /// Those for which an allowed request was charged: a shadow limit or a quota that would have
    /// denied was not.
    pub(super) fn of_charged(request: &Request<'_>, answer: &Answer) -> Descriptors {
        Descriptors::copy(request, |index| match answer.statuses.get(index) {
            Some(Status::Limited(limited)) => limited.decision.is_allowed(),
            _ => false,
        })
    }

    fn copy(request: &Request<'_>, is_wanted: impl Fn(usize) -> bool) -> Descriptors {
        let descriptors = request.descriptors.iter().enumerate();
        let wanted = descriptors.filter(|(index, _)| is_wanted(*index));
        let entries = wanted.map(|(_, descriptor)| {
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
