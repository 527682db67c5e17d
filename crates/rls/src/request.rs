//! Converts a request of the protocol, and checks it.

use tollgate_core::{
    COST_MAX, ChargeDenied, Cost, DESCRIPTORS_MAX, Descriptor, Entry, InvalidRequest, Override,
    Request, Span,
};

use crate::rate_limit_descriptor::RateLimitOverride;
use crate::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit};

/// Converts a request, without copying its texts.
///
/// `hits_addend` 0 on the request means 1; on a descriptor it replaces the request's, and 0 is a
/// peek. `is_negative_hits` turns the descriptor's cost into a refund. A denied cost above 1 is
/// charged unless the rules say otherwise, because Envoy reports consumption that way.
///
/// Every request that a client can cause is decided, because Envoy allows a request if the answer
/// is an error: keys and values of any bytes and any length, any number of entries, and a cost
/// above [`COST_MAX`] as [`COST_MAX`]. Of more than [`DESCRIPTORS_MAX`] descriptors the first are
/// evaluated, and only they have a status;
/// [`BoundedRequest`](crate::BoundedRequest) says how many are left out.
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
    request.check_form()?;
    Ok(request)
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
        Ok(RateLimitUnit::Month) => Span::MONTH,
        Ok(RateLimitUnit::Year) => Span::YEAR,
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

#[cfg(test)]
mod tests;
