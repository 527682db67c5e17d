//! Requests of the stream as requests for decisions.

use tollgate_core::{ChargeDenied, Request};

use super::wire::Check;
use crate::check::signed_cost;
use crate::options::Options;

/// Converts a request within the bounds of [`Request`], without copying its texts. It means what a
/// request of `/v1/check` with the same members means. `options` say whether it may be a refund.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn request(check: Check<'_>, options: Options) -> Result<Request<'_>, String> {
    let request = Request {
        domain: check.domain,
        cost: signed_cost(check.cost.unwrap_or(1), check.peek)?,
        descriptors: check.descriptors,
        charge_denied: ChargeDenied::Never,
    };
    request.check_bounds().map_err(|error| error.to_string())?;
    options.check_refund(&request)?;
    Ok(request)
}
