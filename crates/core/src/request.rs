//! A request: what it is about, as descriptors.

use crate::charge::ChargeDenied;
use crate::cost::Cost;
use crate::span::Span;

mod bounds;

pub use bounds::{COST_MAX, DESCRIPTORS_MAX, DOMAIN_BYTES_MAX, ENTRIES_MAX, InvalidRequest};

/// A request to the rules, whichever protocol it came by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request<'a> {
    /// Which rules apply. Never empty: listeners reject an empty domain. One that is not UTF-8 has
    /// no rules.
    pub domain: &'a [u8],
    /// What is asked, each descriptor on its own. Never empty.
    pub descriptors: Vec<Descriptor<'a>>,
    /// What descriptors cost that do not say it themselves.
    pub cost: Cost,
    /// Whether its denial is charged to limits of which neither the rule nor its domain says so:
    /// the default of its protocol.
    pub charge_denied: ChargeDenied,
}

/// One way to describe the request, from the general to the special.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Descriptor<'a> {
    /// Keys and values. Never empty, and no key is empty; a value may be.
    pub entries: Vec<Entry<'a>>,
    /// Whether entries match rules in whichever order these nest, and not in their own; then no two
    /// have the same key.
    pub is_unordered: bool,
    /// What this descriptor costs, if not what the request says.
    pub cost: Option<Cost>,
    /// A limit that stands in place of the rules' own.
    pub limit: Option<Override>,
}

/// A key and its value in a descriptor.
///
/// Bytes, because clients choose them: a header or a path need not be UTF-8. [`crate::Escaped`]
/// shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry<'a> {
    /// What is described: `remote_address`, `path`.
    pub key: &'a [u8],
    /// Its value in this request.
    pub value: &'a [u8],
}

/// A limit that the request brings along: `count` units per `window`, in a fixed window.
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
