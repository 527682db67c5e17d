//! The parser of `/v1/check`, for fuzz targets. It is not part of the crate's interface and may
//! change in any version.

use serde_json::Value;
use tollgate_core::Request;

use crate::check::Check;
use crate::reply::Failure;

/// Parses a body and passes the request in it to `look`.
///
/// # Errors
///
/// The problem document of the response.
pub fn check<T>(body: &[u8], look: impl FnOnce(&Request<'_>) -> T) -> Result<T, Value> {
    let problem_json = |failure: Failure| failure.problem.json();
    let check = Check::read(body).map_err(problem_json)?;
    let request = check.request().map_err(problem_json)?;
    Ok(look(&request))
}
