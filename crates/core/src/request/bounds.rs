//! The bounds of a request, which hold for every protocol.

use std::fmt;

use super::{Descriptor, Entry, Request};
use crate::charge::CHARGES_MAX;
use crate::cost::Cost;
use crate::escape::Escaped;

/// The maximum length of a domain, in bytes.
pub const DOMAIN_BYTES_MAX: usize = 1024;
/// The maximum number of descriptors of a request that are evaluated.
pub const DESCRIPTORS_MAX: usize = 128;
/// The maximum number of entries of a descriptor, in protocols whose clients see an error.
pub const ENTRIES_MAX: usize = 32;
/// The maximum cost: at least any limit's capacity.
pub const COST_MAX: u64 = 4_294_967_295;
/// How much of a key an error repeats, in bytes.
const KEY_SHOWN_BYTES_MAX: usize = 128;

// At most one limit applies to a descriptor.
const _: () = assert!(DESCRIPTORS_MAX <= CHARGES_MAX);

/// Why a request cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// No domain.
    EmptyDomain,
    /// A domain of more than [`DOMAIN_BYTES_MAX`].
    LongDomain {
        /// Its length.
        bytes: usize,
    },
    /// No descriptor.
    NoDescriptors,
    /// More than [`DESCRIPTORS_MAX`] descriptors.
    ManyDescriptors {
        /// How many.
        count: usize,
    },
    /// A descriptor without entries.
    NoEntries {
        /// Which descriptor, from 0.
        descriptor: usize,
    },
    /// A descriptor with more than [`ENTRIES_MAX`] entries.
    ManyEntries {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// How many entries.
        count: usize,
    },
    /// An entry without a key.
    EmptyKey {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// Which of its entries, from 0.
        entry: usize,
    },
    /// Two entries with one key in a descriptor whose entries match in any order.
    RepeatedKey {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// The key, or its beginning.
        key: Box<[u8]>,
    },
    /// A cost of more than [`COST_MAX`].
    HugeCost {
        /// Which descriptor, from 0; `None` for the request's own.
        descriptor: Option<usize>,
        /// The cost.
        units: u64,
    },
    /// A limit in the request whose unit is not one of the protocol's.
    UnknownUnit {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// The unit's number.
        unit: i32,
    },
}

// === impl Request ===

impl Request<'_> {
    /// Checks the form of a request: a domain of bounded length, at least one descriptor, at least
    /// one entry in each, and a key in each entry.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`] is the first error, in the order of the request.
    pub fn check_form(&self) -> Result<(), InvalidRequest> {
        check_domain(self)?;
        for (index, descriptor) in self.descriptors.iter().enumerate() {
            check_keys(index, descriptor)?;
        }
        Ok(())
    }

    /// Checks the form of a request and its numbers of descriptors, entries and units, and that no
    /// two entries have the same key where they match in any order. Envoy's protocol does not use
    /// this check: Envoy allows a request when the rate limit service returns an error, so an
    /// oversized request would be allowed. In it, entries have an order.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`] is the first error, in the order of the request.
    pub fn check_bounds(&self) -> Result<(), InvalidRequest> {
        check_domain(self)?;
        if self.descriptors.len() > DESCRIPTORS_MAX {
            let count = self.descriptors.len();
            return Err(InvalidRequest::ManyDescriptors { count });
        }
        check_cost(None, self.cost)?;
        for (index, descriptor) in self.descriptors.iter().enumerate() {
            check_descriptor(index, descriptor)?;
        }
        Ok(())
    }
}

fn check_domain(request: &Request<'_>) -> Result<(), InvalidRequest> {
    if request.domain.is_empty() {
        return Err(InvalidRequest::EmptyDomain);
    }
    if request.domain.len() > DOMAIN_BYTES_MAX {
        let bytes = request.domain.len();
        return Err(InvalidRequest::LongDomain { bytes });
    }
    if request.descriptors.is_empty() {
        return Err(InvalidRequest::NoDescriptors);
    }
    Ok(())
}

fn check_descriptor(descriptor: usize, of: &Descriptor<'_>) -> Result<(), InvalidRequest> {
    check_keys(descriptor, of)?;
    if of.entries.len() > ENTRIES_MAX {
        let count = of.entries.len();
        return Err(InvalidRequest::ManyEntries { descriptor, count });
    }
    check_keys_differ(descriptor, of)?;
    of.cost
        .map_or(Ok(()), |cost| check_cost(Some(descriptor), cost))
}

fn check_keys(descriptor: usize, of: &Descriptor<'_>) -> Result<(), InvalidRequest> {
    if of.entries.is_empty() {
        return Err(InvalidRequest::NoEntries { descriptor });
    }
    for (entry, Entry { key, .. }) in of.entries.iter().enumerate() {
        if key.is_empty() {
            return Err(InvalidRequest::EmptyKey { descriptor, entry });
        }
    }
    Ok(())
}

/// Entries in any order are found by their keys.
fn check_keys_differ(descriptor: usize, of: &Descriptor<'_>) -> Result<(), InvalidRequest> {
    if !of.is_unordered {
        return Ok(());
    }
    // At most `ENTRIES_MAX`.
    for (index, Entry { key, .. }) in of.entries.iter().enumerate() {
        if of.entries[..index].iter().any(|other| other.key == *key) {
            let key = key[..key.len().min(KEY_SHOWN_BYTES_MAX)].into();
            return Err(InvalidRequest::RepeatedKey { descriptor, key });
        }
    }
    Ok(())
}

fn check_cost(descriptor: Option<usize>, cost: Cost) -> Result<(), InvalidRequest> {
    let units = cost.units();
    if units > COST_MAX {
        return Err(InvalidRequest::HugeCost { descriptor, units });
    }
    Ok(())
}

// === impl InvalidRequest ===

impl std::error::Error for InvalidRequest {}

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyDomain => f.write_str("rate limit domain must not be empty"),
            Self::LongDomain { bytes } => {
                write!(
                    f,
                    "a domain of {bytes} bytes; {DOMAIN_BYTES_MAX} is the most"
                )
            }
            Self::NoDescriptors => f.write_str("rate limit descriptor list must not be empty"),
            Self::ManyDescriptors { count } => {
                write!(f, "{count} descriptors; {DESCRIPTORS_MAX} is the most")
            }
            Self::NoEntries { descriptor } => {
                write!(
                    f,
                    "descriptors[{descriptor}] has no entries; it needs at least one"
                )
            }
            Self::ManyEntries { descriptor, count } => write!(
                f,
                "descriptors[{descriptor}] has {count} entries; {ENTRIES_MAX} is the most"
            ),
            Self::EmptyKey { descriptor, entry } => write!(
                f,
                "descriptors[{descriptor}].entries[{entry}] has an empty key; \
                 a value may be empty, a key may not"
            ),
            Self::RepeatedKey { descriptor, key } => write!(
                f,
                "descriptors[{descriptor}] has two entries with the key `{}`; to describe both \
                 values, send two descriptors",
                Escaped(key)
            ),
            Self::HugeCost { descriptor, units } => {
                if let Some(descriptor) = descriptor {
                    write!(f, "descriptors[{descriptor}]: ")?;
                }
                write!(f, "a cost of {units}; {COST_MAX} is the most")
            }
            Self::UnknownUnit { descriptor, unit } => write!(
                f,
                "descriptors[{descriptor}].limit.unit is {unit}; \
                 it must be SECOND, MINUTE, HOUR, DAY, MONTH or YEAR (1 to 6)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::ChargeDenied;

    #[test]
    fn a_key_occurs_twice_only_where_entries_have_an_order() {
        let key = vec![b'k'; KEY_SHOWN_BYTES_MAX + 1];
        let entry = |key, value| Entry { key, value };
        let descriptor = Descriptor {
            entries: vec![entry(&key, &b"1"[..]), entry(b"l", b"2"), entry(&key, b"3")].into(),
            ..Descriptor::default()
        };
        let mut request = Request {
            domain: b"d",
            descriptors: vec![descriptor].into(),
            cost: Cost::ONE,
            charge_denied: ChargeDenied::Never,
        };
        assert_eq!(request.check_bounds(), Ok(()));
        request.descriptors[0].is_unordered = true;
        let invalid = request.check_bounds().expect_err("a key twice");
        let shown = &key[..KEY_SHOWN_BYTES_MAX];
        let expected = InvalidRequest::RepeatedKey {
            descriptor: 0,
            key: shown.into(),
        };
        assert_eq!(invalid, expected);
        assert!(invalid.to_string().contains("`kkk"), "{invalid}");
        request.descriptors[0].entries[2].key = b"m";
        assert_eq!(request.check_bounds(), Ok(()));
    }
}
