//! `/v1/check`: its requests and its responses.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use smallvec::SmallVec;
use tollgate_core::{ChargeDenied, Cost, Descriptor, Request};

use crate::check::described::Described;
use crate::check::elements::read_elements;
use crate::reply::{Failure, read_object};
use crate::whole_number::read_units;

mod batch;
mod described;
mod elements;
mod json_text;
mod verdict;

pub(crate) use batch::{Batch, BatchAnswers};
pub(crate) use verdict::verdict;

/// The descriptors of most checks.
const DESCRIPTORS_INLINE: usize = 1;

/// The body of a request. Its texts are parts of the body, as far as they have no escapes.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check<'a> {
    #[serde(borrow)]
    domain: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "read_descriptors")]
    descriptors: SmallVec<[Described<'a>; DESCRIPTORS_INLINE]>,
    /// Units; a negative cost is a refund.
    #[serde(default = "one", deserialize_with = "read_units")]
    cost: i64,
    /// Decide without charging.
    #[serde(default)]
    peek: bool,
    /// The cost is an estimate, which `/v1/settle` settles.
    #[serde(default)]
    reserve: bool,
}

const fn one() -> i64 {
    1
}

/// Reads descriptors; an error says in which of them it is.
fn read_descriptors<'de: 'a, 'a, D: Deserializer<'de>>(
    from: D,
) -> Result<SmallVec<[Described<'a>; DESCRIPTORS_INLINE]>, D::Error> {
    read_elements(from, "descriptors", "a list of descriptors", usize::MAX)
}

// === impl Check ===

impl<'a> Check<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Check<'a>, Failure> {
        read_object(
            body,
            r#"{"domain": "shop", "descriptors": [{"user": "ann"}]}"#,
        )
    }

    /// Whether the cost is an estimate that is settled later.
    pub(crate) const fn is_reservation(&self) -> bool {
        self.reserve
    }

    /// Converts the body of `/v1/check` to a request within the bounds of [`Request`]: a negative
    /// cost is a refund.
    pub(crate) fn request(&self) -> Result<Request<'_>, Failure> {
        let request = self.with_cost(self.cost()?);
        request.check_bounds()?;
        Ok(request)
    }

    /// What it costs.
    fn cost(&self) -> Result<Cost, Failure> {
        if self.reserve && (self.peek || self.cost < 0) {
            let detail = "`reserve` with `peek` or with a negative cost; the cost of a reservation \
                is an estimate of what the request will consume";
            return Err(Failure::bad_request(detail));
        }
        signed_cost(self.cost, self.peek).map_err(Failure::bad_request)
    }

    /// The request, with its cost.
    fn with_cost(&self, cost: Cost) -> Request<'_> {
        let descriptors = self.descriptors.iter().map(|described| Descriptor {
            entries: described.entries(),
            is_unordered: described.is_unordered,
            ..Descriptor::default()
        });
        Request {
            domain: self.domain.as_bytes(),
            descriptors: descriptors.collect(),
            cost,
            charge_denied: ChargeDenied::Never,
        }
    }
}

/// The cost of so many units, which is a refund if there are fewer than none.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn signed_cost(units: i64, is_peek: bool) -> Result<Cost, &'static str> {
    match (u64::try_from(units), is_peek) {
        (Ok(units), true) => Ok(Cost::Peek(units)),
        (Ok(units), false) => Ok(Cost::Take(units)),
        (Err(_), false) => Ok(Cost::Refund(units.unsigned_abs())),
        (Err(_), true) => Err("`peek` with a negative cost; leave out `peek` or the sign"),
    }
}

#[cfg(test)]
mod tests;
