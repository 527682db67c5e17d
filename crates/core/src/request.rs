//! A request, described by descriptors.

use smallvec::SmallVec;

use crate::charge::ChargeDenied;
use crate::cost::Cost;
use crate::span::Span;

mod bounds;
mod owned;

pub use bounds::{COST_MAX, DESCRIPTORS_MAX, DOMAIN_BYTES_MAX, ENTRIES_MAX, InvalidRequest};
pub use owned::{OwnedDescriptor, OwnedRequest};

/// How many descriptors a request may have, and how many entries each of them, before it takes
/// memory of its own: those of nearly every request.
const INLINE: usize = 2;

/// A list with an item for each descriptor of a request, or for each entry of a descriptor.
pub type PerDescriptor<T> = SmallVec<[T; INLINE]>;

/// A request for a decision, independent of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request<'a> {
    /// The set of rules that applies. Never empty: listeners reject an empty domain. A domain that
    /// is not UTF-8 has no rules.
    pub domain: &'a [u8],
    /// The descriptors; each is matched against the rules separately. Never empty.
    pub descriptors: PerDescriptor<Descriptor<'a>>,
    /// The cost of descriptors that have none of their own.
    pub cost: Cost,
    /// The protocol's default for `charge_denied`, used where neither the rule nor its domain sets
    /// it.
    pub charge_denied: ChargeDenied,
}

/// One description of the request: entries from the general to the specific.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Descriptor<'a> {
    /// Keys and values. Never empty, and no key is empty; a value may be.
    pub entries: PerDescriptor<Entry<'a>>,
    /// Whether entries match nested rules in any order instead of their own. If so, no two entries
    /// have the same key.
    pub is_unordered: bool,
    /// The cost of this descriptor, if it differs from the request's.
    pub cost: Option<Cost>,
    /// A limit that overrides the matching rule's.
    pub limit: Option<Override>,
}

/// A key and its value in a descriptor.
///
/// Both are bytes, because clients choose them and a header or a path need not be UTF-8. Use
/// [`crate::Escaped`] to display them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry<'a> {
    /// What is described: `remote_address`, `path`.
    pub key: &'a [u8],
    /// Its value in this request.
    pub value: &'a [u8],
}

/// A limit carried by the request: `count` units per `window`, in a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Override {
    /// Units per window.
    pub count: u32,
    /// One of the protocol's units, a second to a year.
    pub window: Span,
}

// === impl Request ===

impl<'a> Request<'a> {
    /// The domain as text; `None` if it is not UTF-8, which no rules file can name.
    pub fn domain_name(&self) -> Option<&'a str> {
        std::str::from_utf8(self.domain).ok()
    }
}
