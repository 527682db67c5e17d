//! The parsers of `/v1/check`, of the stream of decisions and of the Redis protocol's requests, for
//! fuzz targets. It is not part of the crate's interface and may change in any version.

use bytes::Bytes;
use prost::DecodeError;
use serde_json::Value;
use tollgate_core::{Cost, Limit, Request};
use tollgate_resp::Command;
use tollgate_rls::decisions::{CheckRequest, Descriptor, Entry};

use crate::check::{Batch, Check};
use crate::decisions::RawCheck;
use crate::redis_protocol;
use crate::reply::Failure;

/// Parses a body and passes the request in it to `look`.
///
/// # Errors
///
/// The problem document of the response.
pub fn check<T>(body: &[u8], look: impl FnOnce(&Request<'_>) -> T) -> Result<T, Value> {
    let check = Check::read(body).map_err(problem_json)?;
    let request = check.request().map_err(problem_json)?;
    Ok(look(&request))
}

/// Parses a body that is a list, and passes the requests in it to `look`.
///
/// # Errors
///
/// The problem document of the response.
pub fn checks<T>(body: &[u8], look: impl Fn(&Request<'_>) -> T) -> Result<Vec<T>, Value> {
    let batch = Batch::read(body).map_err(problem_json)?;
    let requests = batch.requests(|_| Ok(())).map_err(problem_json)?;
    Ok(requests.iter().map(look).collect())
}

/// Reads a message of the stream of decisions.
///
/// # Errors
///
/// As the library decodes it.
pub fn decision(message: Bytes) -> Result<CheckRequest, DecodeError> {
    let raw = RawCheck::new(message)?;
    let check = raw.check();
    let text = Bytes::copy_from_slice;
    let descriptors = check.descriptors.iter().map(|descriptor| Descriptor {
        entries: descriptor
            .entries
            .iter()
            .map(|entry| Entry {
                key: text(entry.key),
                value: text(entry.value),
            })
            .collect(),
        any_order: descriptor.is_unordered,
    });
    Ok(CheckRequest {
        id: check.id,
        domain: text(check.domain),
        descriptors: descriptors.collect(),
        cost: check.cost,
        peek: check.peek,
    })
}

/// Reads `TG.CHECK` or one of its like, and passes its request to `look`; `None` if the command is
/// none of these.
///
/// # Errors
///
/// The text of the reply.
pub fn ask<T>(
    command: &Command<'_>,
    look: impl FnOnce(&Request<'_>) -> T,
) -> Option<Result<T, String>> {
    redis_protocol::fuzzed::ask(command, look)
}

/// Reads `CL.THROTTLE`; `None` if the command is another one.
///
/// # Errors
///
/// The text of the reply.
pub fn throttle(command: &Command<'_>) -> Option<Result<(Limit, Cost), String>> {
    redis_protocol::fuzzed::throttle(command)
}

fn problem_json(failure: Failure) -> Value {
    failure.problem.json()
}
