//! Requests of the stream as requests for decisions.

use tollgate_core::{ChargeDenied, Cost, Request};

use super::wire::Check;

/// Converts a request within the bounds of [`Request`], without copying its texts. It means what a
/// request of `/v1/check` with the same members means.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn request(check: Check<'_>) -> Result<Request<'_>, String> {
    let request = Request {
        domain: check.domain,
        cost: cost(check.cost.unwrap_or(1), check.peek)?,
        descriptors: check.descriptors,
        charge_denied: ChargeDenied::Never,
    };
    request.check_bounds().map_err(|error| error.to_string())?;
    Ok(request)
}

fn cost(cost: i64, is_peek: bool) -> Result<Cost, String> {
    match (u64::try_from(cost), is_peek) {
        (Ok(units), true) => Ok(Cost::Peek(units)),
        (Ok(units), false) => Ok(Cost::Take(units)),
        (Err(_), false) => Ok(Cost::Refund(cost.unsigned_abs())),
        (Err(_), true) => {
            Err("`peek` with a negative cost; leave out `peek` or the sign".to_owned())
        }
    }
}
