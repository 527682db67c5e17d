//! The parser of what `/v1/check` is sent, for fuzz targets. No part of the crate's interface: it
//! may change with any version.

use serde_json::Value;
use tollgate_core::Request;

use crate::check::Check;
use crate::reply::Failure;

/// Reads a body and hands the request in it to `look`.
///
/// # Errors
///
/// The problem document that the client is sent.
pub fn check<T>(body: &[u8], look: impl FnOnce(&Request<'_>) -> T) -> Result<T, Value> {
    let told = |failure: Failure| failure.problem.json();
    let check = Check::read(body).map_err(told)?;
    let request = check.request().map_err(told)?;
    Ok(look(&request))
}
