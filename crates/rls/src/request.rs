//! Converts a request of the protocol, and checks it.

use std::fmt;

use tollgate_core::{CHARGES_MAX, ChargeDenied, Cost, Descriptor, Entry, Override, Request, Span};

use crate::rate_limit_descriptor::RateLimitOverride;
use crate::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit};

/// The longest domain, in bytes.
pub const DOMAIN_BYTES_MAX: usize = 1024;
/// The most descriptors of a request that are evaluated.
pub const DESCRIPTORS_MAX: usize = 128;
/// The most entries in a descriptor of `/v1/check`, and of a replay's pattern.
pub const ENTRIES_MAX: usize = 32;
/// The largest cost: more than any limit's capacity.
pub const COST_MAX: u64 = 4_294_967_295;

// At most one limit applies to a descriptor.
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

/// Converts a request, without copying its texts.
///
/// `hits_addend` 0 on the request means 1; on a descriptor it replaces the request's, and 0 is a
/// peek. `is_negative_hits` turns the descriptor's cost into a refund. A denied cost above 1 is
/// charged unless the rules say otherwise, because Envoy reports consumption that way.
///
/// Every request that a client can cause is decided, because Envoy allows a request if the answer
/// is an error: keys and values of any bytes and any length, any number of entries, and a cost
/// above [`COST_MAX`] as [`COST_MAX`], which fits in no limit. Of more than [`DESCRIPTORS_MAX`]
/// descriptors the first are evaluated, and only they have a status; [`left_out`] returns how many
/// are left out.
///
/// # Errors
///
/// [`InvalidRequest`] is the first error, in the order of the request.
pub fn request(message: &RateLimitRequest) -> Result<Request<'_>, InvalidRequest> {
    let hits = message.hits_addend.max(1);
    let descriptors = message.descriptors.iter().enumerate();
    let descriptors = descriptors.take(DESCRIPTORS_MAX);
    let request = Request {
        domain: &message.domain,
        descriptors: descriptors
            .map(|(index, descriptor)| translate(index, descriptor, hits))
            .collect::<Result<_, _>>()?,
        cost: Cost::from(hits),
        charge_denied: ChargeDenied::Excess,
    };
    examine_domain(&request)?;
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        examine_keys(index, descriptor)?;
    }
    Ok(request)
}

/// How many descriptors [`request`] leaves out, because they are more than [`DESCRIPTORS_MAX`].
pub fn left_out(message: &RateLimitRequest) -> usize {
    message.descriptors.len().saturating_sub(DESCRIPTORS_MAX)
}

/// Checks a request of another protocol than Envoy's against the maxima of this module.
///
/// # Errors
///
/// [`InvalidRequest`] is the first error, in the order of the request.
pub fn examine(request: &Request<'_>) -> Result<(), InvalidRequest> {
    examine_domain(request)?;
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

fn examine_domain(request: &Request<'_>) -> Result<(), InvalidRequest> {
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

fn examine_descriptor(descriptor: usize, of: &Descriptor<'_>) -> Result<(), InvalidRequest> {
    examine_keys(descriptor, of)?;
    if of.entries.len() > ENTRIES_MAX {
        let count = of.entries.len();
        return Err(InvalidRequest::ManyEntries { descriptor, count });
    }
    of.cost
        .map_or(Ok(()), |cost| affordable(Some(descriptor), cost))
}

fn examine_keys(descriptor: usize, of: &Descriptor<'_>) -> Result<(), InvalidRequest> {
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
        is_unordered: false,
        cost: cost(message, hits),
        limit: limit.map(|limit| bring(index, limit)).transpose()?,
    })
}

fn cost(message: &RateLimitDescriptor, hits: u32) -> Option<Cost> {
    let own = message.hits_addend.as_ref();
    let own = own.map(|addend| addend.value.min(COST_MAX));
    if !message.is_negative_hits {
        return own.map(Cost::Take);
    }
    match own.unwrap_or(u64::from(hits)) {
        // Zero units, whatever the sign: a peek.
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
