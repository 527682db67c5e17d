//! An answer in the JSON of proto3, written straight into bytes: no message, no tree of values.

use std::io::Write as _;

use pbjson_types::Struct;
use tollgate_core::{Answer, Limit, Limited, Status};

use super::{DurationText, Times, code, overall_code, unit};
use crate::rate_limit_response::rate_limit::Unit;

/// The response to `answer` in the JSON of proto3, members in the order of their names.
///
/// Fields that have their default value are left out, as proto3 does, but for what a limit says of
/// itself: `requestsPerUnit` and `limitRemaining` are there when they are 0, so that nobody takes
/// an exhausted limit for none.
pub fn json(answer: &Answer, dynamic_metadata: Option<&Struct>) -> Vec<u8> {
    let mut out = vec![b'{'];
    if let Some(metadata) = dynamic_metadata {
        // By way of a value: a Struct has its members in no order.
        let sorted = serde_json::to_value(metadata).expect("a Struct is a JSON object");
        out.extend_from_slice(b"\"dynamicMetadata\":");
        write(&mut out, format_args!("{sorted},"));
    }
    write_members(answer, Times::WholeSeconds, &mut out);
    out.push(b'}');
    out
}

/// Adds the members of [`json`] to `out`, without the braces around them, for a larger object; with
/// times as its reader needs them.
pub fn write_members(answer: &Answer, times: Times, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"overallCode\":\"");
    out.extend_from_slice(overall_code(answer).as_str_name().as_bytes());
    out.push(b'"');
    for (index, status) in answer.statuses.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b",\"statuses\":[" } else { b"," });
        write_status(status, times, out);
    }
    if !answer.statuses.is_empty() {
        out.push(b']');
    }
}

fn write_status(status: &Status, times: Times, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"code\":\"");
    out.extend_from_slice(code(status).as_str_name().as_bytes());
    out.push(b'"');
    match status {
        Status::NoLimit => {}
        Status::Unlimited { .. } => write_remaining(u32::MAX, out),
        Status::Limited(limited) => write_limited(limited, times, out),
    }
    out.push(b'}');
}

fn write_limited(limited: &Limited, times: Times, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"currentLimit\":{");
    if let Some(name) = limited.rule.name.as_deref().filter(|name| !name.is_empty()) {
        out.extend_from_slice(b"\"name\":");
        serde_json::to_writer(&mut *out, name).expect("a string in memory can be written");
        out.push(b',');
    }
    write_limit(&limited.limit, out);
    let reset = limited.decision.reset();
    out.extend_from_slice(b"},\"durationUntilReset\":\"");
    match times {
        Times::WholeSeconds => write(out, format_args!("{}s", reset.as_secs_ceil())),
        Times::Exact => write(out, format_args!("{}", DurationText(reset))),
    }
    out.push(b'"');
    write_remaining(limited.remaining(), out);
}

fn write_limit(limit: &Limit, out: &mut Vec<u8>) {
    write(out, format_args!("\"requestsPerUnit\":{}", limit.count()));
    let unit = unit(limit);
    if unit != Unit::Unknown {
        out.extend_from_slice(b",\"unit\":\"");
        out.extend_from_slice(unit.as_str_name().as_bytes());
        out.push(b'"');
    }
}

fn write_remaining(remaining: u32, out: &mut Vec<u8>) {
    write(out, format_args!(",\"limitRemaining\":{remaining}"));
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory can be written to");
}

#[cfg(test)]
mod tests;
