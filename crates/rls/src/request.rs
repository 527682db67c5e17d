//! A request of the protocol, checked and in Tollgate's words.

use std::fmt;

use tollgate_core::{CHARGES_MAX, ChargeDenied, Cost, Descriptor, Entry, Override, Request, Span};

use crate::rate_limit_descriptor::RateLimitOverride;
use crate::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit};

/// The longest domain, in bytes.
pub const DOMAIN_BYTES_MAX: usize = 1024;
/// The most descriptors in a request.
pub const DESCRIPTORS_MAX: usize = 128;
/// The most entries in a descriptor.
pub const ENTRIES_MAX: usize = 32;
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest value, in bytes.
///
/// More than the 60 KiB of headers that Envoy takes by default: whoever asks may let a request pass
/// when it gets an error, so a client must not be able to cause one with a long header.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// The largest cost: more than fits in any limit.
pub const COST_MAX: u64 = 4_294_967_295;

// A descriptor meets at most one limit.
const _: () = assert!(DESCRIPTORS_MAX <= CHARGES_MAX);

/// Why a request cannot be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A key of more than [`KEY_BYTES_MAX`].
    LongKey {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// Which of its entries, from 0.
        entry: usize,
        /// The key's length.
        bytes: usize,
    },
    /// A value of more than [`VALUE_BYTES_MAX`].
    LongValue {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// Which of its entries, from 0.
        entry: usize,
        /// The value's length.
        bytes: usize,
    },
    /// A cost of more than [`COST_MAX`].
    HugeCost {
        /// Which descriptor, from 0; `None` for the request's own.
        descriptor: Option<usize>,
        /// The cost.
        units: u64,
    },
    /// A limit brought along whose unit is not one of the protocol's.
    UnknownUnit {
        /// Which descriptor, from 0.
        descriptor: usize,
        /// The unit's number.
        unit: i32,
    },
}

/// The request in Tollgate's words, without a copy of its texts.
///
/// `hits_addend` 0 on the request means 1; on a descriptor it stands in place of the request's, and
/// 0 is a peek. `is_negative_hits` turns what the descriptor costs into a refund. A denied cost
/// above 1 is charged unless the rules say otherwise: so Envoy reports what was consumed.
///
/// # Errors
///
/// [`InvalidRequest`] is the first thing that is wrong, in the order of the request.
pub fn request(message: &RateLimitRequest) -> Result<Request<'_>, InvalidRequest> {
    let hits = message.hits_addend.max(1);
    // Before the descriptors are copied: their number is bounded first.
    if message.descriptors.len() > DESCRIPTORS_MAX {
        let count = message.descriptors.len();
        return Err(InvalidRequest::ManyDescriptors { count });
    }
    let descriptors = message.descriptors.iter().enumerate();
    let request = Request {
        domain: &message.domain,
        descriptors: descriptors
            .map(|(index, descriptor)| translate(index, descriptor, hits))
            .collect::<Result<_, _>>()?,
        cost: Cost::from(hits),
        charge_denied: ChargeDenied::Excess,
    };
    examine(&request)?;
    Ok(request)
}

/// Holds a request, whatever its door, to the maxima of this module.
///
/// # Errors
///
/// [`InvalidRequest`] is the first thing that is wrong, in the order of the request.
pub fn examine(request: &Request<'_>) -> Result<(), InvalidRequest> {
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
    if request.descriptors.len() > DESCRIPTORS_MAX {
        let count = request.descriptors.len();
        return Err(InvalidRequest::ManyDescriptors { count });
    }
    affordable(None, request.cost)?;
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        examine_descriptor(index, descriptor)?;
    }
    Ok(())
}

fn examine_descriptor(index: usize, of: &Descriptor<'_>) -> Result<(), InvalidRequest> {
    let descriptor = index;
    if of.entries.is_empty() {
        return Err(InvalidRequest::NoEntries { descriptor });
    }
    if of.entries.len() > ENTRIES_MAX {
        let count = of.entries.len();
        return Err(InvalidRequest::ManyEntries { descriptor, count });
    }
    for (entry, Entry { key, value }) in of.entries.iter().enumerate() {
        if key.is_empty() {
            return Err(InvalidRequest::EmptyKey { descriptor, entry });
        }
        if key.len() > KEY_BYTES_MAX {
            let bytes = key.len();
            return Err(InvalidRequest::LongKey {
                descriptor,
                entry,
                bytes,
            });
        }
        if value.len() > VALUE_BYTES_MAX {
            let bytes = value.len();
            return Err(InvalidRequest::LongValue {
                descriptor,
                entry,
                bytes,
            });
        }
    }
    of.cost
        .map_or(Ok(()), |cost| affordable(Some(descriptor), cost))
}

fn affordable(descriptor: Option<usize>, cost: Cost) -> Result<(), InvalidRequest> {
    let units = cost.units();
    if units > COST_MAX {
        return Err(InvalidRequest::HugeCost { descriptor, units });
    }
    Ok(())
}

fn translate(
    index: usize,
    message: &RateLimitDescriptor,
    hits: u32,
) -> Result<Descriptor<'_>, InvalidRequest> {
    let entries = message.entries.iter().map(|entry| Entry {
        key: &entry.key,
        value: &entry.value,
    });
    let limit = message.limit.as_ref();
    Ok(Descriptor {
        entries: entries.collect(),
        cost: cost(message, hits),
        limit: limit.map(|limit| bring(index, limit)).transpose()?,
    })
}

fn cost(message: &RateLimitDescriptor, hits: u32) -> Option<Cost> {
    let own = message.hits_addend.as_ref().map(|addend| addend.value);
    if !message.is_negative_hits {
        return own.map(Cost::Take);
    }
    match own.unwrap_or(u64::from(hits)) {
        // Nothing is nothing, whatever its sign: a peek.
        0 => Some(Cost::Take(0)),
        units => Some(Cost::Refund(units)),
    }
}

fn bring(descriptor: usize, limit: &RateLimitOverride) -> Result<Override, InvalidRequest> {
    let window = match RateLimitUnit::try_from(limit.unit) {
        Ok(RateLimitUnit::Second) => Span::SECOND,
        Ok(RateLimitUnit::Minute) => Span::MINUTE,
        Ok(RateLimitUnit::Hour) => Span::HOUR,
        Ok(RateLimitUnit::Day) => Span::DAY,
        Ok(RateLimitUnit::Month) => Span::DAY.times(30),
        Ok(RateLimitUnit::Year) => Span::DAY.times(365),
        Ok(RateLimitUnit::Unknown) | Err(_) => {
            let unit = limit.unit;
            return Err(InvalidRequest::UnknownUnit { descriptor, unit });
        }
    };
    Ok(Override {
        count: limit.requests_per_unit,
        window,
    })
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
            Self::LongKey {
                descriptor,
                entry,
                bytes,
            } => write!(
                f,
                "the key of descriptors[{descriptor}].entries[{entry}] has {bytes} bytes; \
                 {KEY_BYTES_MAX} is the most"
            ),
            Self::LongValue {
                descriptor,
                entry,
                bytes,
            } => write!(
                f,
                "the value of descriptors[{descriptor}].entries[{entry}] has {bytes} bytes; \
                 {VALUE_BYTES_MAX} is the most"
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
mod tests;
