//! The descriptors of a request, kept for later.

use tollgate_core::{ChargeDenied, Cost, Descriptor, Entry, Override, PerDescriptor, Request};

/// A request that outlives the bytes that it was made of. Every field of [`Request`] has one here.
pub(super) struct OwnedRequest {
    domain: Box<[u8]>,
    descriptors: PerDescriptor<OwnedDescriptor>,
    cost: Cost,
    charge_denied: ChargeDenied,
}

/// Every field of [`Descriptor`] has one here.
struct OwnedDescriptor {
    entries: PerDescriptor<OwnedEntry>,
    is_unordered: bool,
    cost: Option<Cost>,
    limit: Option<Override>,
}

struct OwnedEntry {
    key: Box<[u8]>,
    value: Box<[u8]>,
}

// === impl OwnedRequest ===

impl OwnedRequest {
    // The patterns have no `..`, so that a new field does not compile until it is kept.
    pub(super) fn of(request: &Request<'_>) -> OwnedRequest {
        let Request {
            domain,
            descriptors,
            cost,
            charge_denied,
        } = request;
        OwnedRequest {
            domain: (*domain).into(),
            descriptors: descriptors.iter().map(OwnedDescriptor::of).collect(),
            cost: *cost,
            charge_denied: *charge_denied,
        }
    }

    pub(super) fn request(&self) -> Request<'_> {
        Request {
            domain: &self.domain,
            descriptors: self
                .descriptors
                .iter()
                .map(OwnedDescriptor::descriptor)
                .collect(),
            cost: self.cost,
            charge_denied: self.charge_denied,
        }
    }
}

// === impl OwnedDescriptor ===

impl OwnedDescriptor {
    fn of(descriptor: &Descriptor<'_>) -> OwnedDescriptor {
        let Descriptor {
            entries,
            is_unordered,
            cost,
            limit,
        } = descriptor;
        let entries = entries.iter().map(|Entry { key, value }| OwnedEntry {
            key: (*key).into(),
            value: (*value).into(),
        });
        OwnedDescriptor {
            entries: entries.collect(),
            is_unordered: *is_unordered,
            cost: *cost,
            limit: *limit,
        }
    }

    fn descriptor(&self) -> Descriptor<'_> {
        let entries = self
            .entries
            .iter()
            .map(|OwnedEntry { key, value }| Entry { key, value });
        Descriptor {
            entries: entries.collect(),
            is_unordered: self.is_unordered,
            cost: self.cost,
            limit: self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::Span;

    use super::*;

    #[test]
    fn a_request_that_is_kept_is_the_same_in_every_field() {
        // Outlives the request that it is compared with.
        let kept;
        let entry = |key, value| Entry { key, value };
        let plain = Descriptor {
            entries: vec![entry(b"user", b"\xff"), entry(b"path", b"")].into(),
            ..Descriptor::default()
        };
        let other = Descriptor {
            entries: vec![entry(b"method", b"GET")].into(),
            is_unordered: true,
            cost: Some(Cost::Take(3)),
            limit: Some(Override {
                count: 7,
                window: Span::SECOND,
            }),
        };
        let request = Request {
            domain: b"shop",
            descriptors: vec![plain, other].into(),
            cost: Cost::Peek(2),
            charge_denied: ChargeDenied::Excess,
        };
        kept = OwnedRequest::of(&request);
        assert_eq!(kept.request(), request);
    }
}
