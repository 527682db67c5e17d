//! A request that outlives the bytes that it was made of.

use super::{Descriptor, Entry, Override, Request};
use crate::charge::ChargeDenied;
use crate::cost::Cost;

/// A copy of a [`Request`] that borrows nothing, for a decision that is made or explained later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRequest {
    domain: Box<[u8]>,
    descriptors: Box<[OwnedDescriptor]>,
    cost: Cost,
    charge_denied: ChargeDenied,
}

/// A copy of a [`Descriptor`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedDescriptor {
    /// Keys and values.
    entries: Box<[[Box<[u8]>; 2]]>,
    is_unordered: bool,
    cost: Option<Cost>,
    limit: Option<Override>,
}

// The patterns have no `..`, so that a new field does not compile until it is copied.

// === impl OwnedRequest ===

impl OwnedRequest {
    /// A copy of the whole request.
    pub fn of(request: &Request<'_>) -> OwnedRequest {
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

    /// The request that was copied.
    pub fn request(&self) -> Request<'_> {
        let descriptors = self.descriptors.iter();
        Request {
            domain: &self.domain,
            descriptors: descriptors.map(OwnedDescriptor::descriptor).collect(),
            cost: self.cost,
            charge_denied: self.charge_denied,
        }
    }
}

// === impl OwnedDescriptor ===

impl OwnedDescriptor {
    /// A copy of the whole descriptor.
    pub fn of(descriptor: &Descriptor<'_>) -> OwnedDescriptor {
        OwnedDescriptor::cut(descriptor, usize::MAX, usize::MAX)
    }

    /// A copy of the first entries, and of each the first bytes of its key and value.
    pub fn cut(
        descriptor: &Descriptor<'_>,
        entries_max: usize,
        bytes_max: usize,
    ) -> OwnedDescriptor {
        let Descriptor {
            entries,
            is_unordered,
            cost,
            limit,
        } = descriptor;
        let cut = |text: &[u8]| Box::from(&text[..text.len().min(bytes_max)]);
        let entries = entries.iter().take(entries_max);
        OwnedDescriptor {
            entries: entries
                .map(|Entry { key, value }| [cut(key), cut(value)])
                .collect(),
            is_unordered: *is_unordered,
            cost: *cost,
            limit: *limit,
        }
    }

    /// Whether this copy has all entries of a descriptor, in full.
    pub fn has_entries_of(&self, descriptor: &Descriptor<'_>) -> bool {
        let own = self.entries.iter().map(|[key, value]| (&**key, &**value));
        let entries = descriptor.entries.iter();
        own.eq(entries.map(|entry| (entry.key, entry.value)))
    }

    /// What was copied.
    pub fn descriptor(&self) -> Descriptor<'_> {
        let entries = self.entries.iter();
        Descriptor {
            entries: entries.map(|[key, value]| Entry { key, value }).collect(),
            is_unordered: self.is_unordered,
            cost: self.cost,
            limit: self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Span;

    #[test]
    fn a_copy_of_a_request_is_the_same_in_every_field() {
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
        let kept = OwnedRequest::of(&request);
        // As text: a comparison would want the copy to live as long as the request.
        assert_eq!(format!("{:?}", kept.request()), format!("{request:?}"));
    }
}
