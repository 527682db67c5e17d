//! An answer in the protocol's words, and its JSON.

use pbjson_types::Duration;
use serde_json::{Map, Value};
use tollgate_core::{Answer, Limit, Limited, Span, Status};

use crate::RateLimitResponse;
use crate::rate_limit_response::rate_limit::Unit;
use crate::rate_limit_response::{Code, DescriptorStatus, RateLimit};

/// The answer as the protocol tells it: a code for each descriptor and one for the request.
///
/// Limit, remaining and reset are told whenever a limit judged, also when it admits. A limit that
/// was refused in the shadow says `OK` with nothing remaining. No code is ever `UNKNOWN`, which
/// Envoy takes for a broken service.
pub fn response(answer: &Answer) -> RateLimitResponse {
    let overall = if answer.is_admitted() {
        Code::Ok
    } else {
        Code::OverLimit
    };
    RateLimitResponse {
        overall_code: overall.into(),
        statuses: answer.statuses.iter().map(status).collect(),
        ..RateLimitResponse::default()
    }
}

/// The response in the JSON of proto3.
///
/// Fields that have their default value are left out, as proto3 does, but for what a limit says of
/// itself: `requestsPerUnit` and `limitRemaining` are there when they are 0, so that nobody takes
/// an exhausted limit for none.
pub fn json(response: &RateLimitResponse) -> Map<String, Value> {
    let Ok(Value::Object(mut json)) = serde_json::to_value(response) else {
        unreachable!("a message is a JSON object, and its enums are those that `response` makes");
    };
    let statuses = json.get_mut("statuses").and_then(Value::as_array_mut);
    for status in statuses.into_iter().flatten() {
        let Some(status) = status.as_object_mut() else {
            continue;
        };
        let Some(Value::Object(limit)) = status.get_mut("currentLimit") else {
            continue;
        };
        limit
            .entry("requestsPerUnit")
            .or_insert_with(|| Value::from(0));
        status
            .entry("limitRemaining")
            .or_insert_with(|| Value::from(0));
    }
    json
}

/// A span in the JSON of proto3: seconds with 0, 3, 6 or 9 decimals, `60s` or `0.800s`.
pub fn duration(span: Span) -> String {
    match (
        span.as_nanos() / NANOS_PER_SECOND,
        span.as_nanos() % NANOS_PER_SECOND,
    ) {
        (seconds, 0) => format!("{seconds}s"),
        (seconds, nanos) if nanos.is_multiple_of(1_000_000) => {
            format!("{seconds}.{:03}s", nanos / 1_000_000)
        }
        (seconds, nanos) if nanos.is_multiple_of(1_000) => {
            format!("{seconds}.{:06}s", nanos / 1_000)
        }
        (seconds, nanos) => format!("{seconds}.{nanos:09}s"),
    }
}

const NANOS_PER_SECOND: u64 = Span::SECOND.as_nanos();

fn status(status: &Status) -> DescriptorStatus {
    match status {
        Status::NoLimit => DescriptorStatus {
            code: Code::Ok.into(),
            ..DescriptorStatus::default()
        },
        Status::Unlimited { .. } => DescriptorStatus {
            code: Code::Ok.into(),
            limit_remaining: u32::MAX,
            ..DescriptorStatus::default()
        },
        Status::Limited(limited) => judged(limited),
    }
}

fn judged(limited: &Limited) -> DescriptorStatus {
    let code = if limited.is_over() {
        Code::OverLimit
    } else {
        Code::Ok
    };
    DescriptorStatus {
        code: code.into(),
        current_limit: Some(RateLimit {
            requests_per_unit: limited.limit.count(),
            unit: unit(&limited.limit).into(),
            name: limited.rule.name.clone().unwrap_or_default(),
        }),
        limit_remaining: limited.remaining(),
        duration_until_reset: Some(exact(limited.decision.reset())),
    }
}

/// The protocol's name for a window; `UNKNOWN` for those that it has no name for.
fn unit(limit: &Limit) -> Unit {
    const UNITS: [(Span, Unit); 7] = [
        (Span::SECOND, Unit::Second),
        (Span::MINUTE, Unit::Minute),
        (Span::HOUR, Unit::Hour),
        (Span::DAY, Unit::Day),
        (Span::DAY.times(7), Unit::Week),
        (Span::DAY.times(30), Unit::Month),
        (Span::DAY.times(365), Unit::Year),
    ];
    let named = UNITS.iter().find(|(window, _)| *window == limit.window());
    named.map_or(Unit::Unknown, |(_, unit)| *unit)
}

fn exact(span: Span) -> Duration {
    let nanos = span.as_nanos();
    Duration {
        seconds: i64::try_from(nanos / NANOS_PER_SECOND).expect("2^64 ns are below 2^63 s"),
        nanos: i32::try_from(nanos % NANOS_PER_SECOND).expect("10^9 is below 2^31"),
    }
}

#[cfg(test)]
mod tests;
