//! Converts an answer to the protocol's response.

mod json;

use std::fmt;

use pbjson_types::Duration;
use tollgate_core::{Answer, Limit, Limited, Span, Status};

use crate::RateLimitResponse;
use crate::rate_limit_response::rate_limit::Unit;
use crate::rate_limit_response::{Code, DescriptorStatus, RateLimit};

pub use json::{json, write_members};

/// The protocol's response: a code for each descriptor and one for the request.
///
/// Limit, remaining and reset are set for every limit that was evaluated, also when it allows. A
/// shadow limit that would deny has the code `OK` with nothing remaining. No code is ever
/// `UNKNOWN`, which Envoy takes for a broken service.
///
/// `duration_until_reset` is in whole seconds, rounded up: Envoy truncates it, and a client that
/// waits for the time in the header must not come too early.
pub fn response(answer: &Answer) -> RateLimitResponse {
    RateLimitResponse {
        overall_code: overall_code(answer).into(),
        statuses: answer.statuses.iter().map(status).collect(),
        ..RateLimitResponse::default()
    }
}

/// A span in the JSON of proto3: seconds with 0, 3, 6 or 9 decimals, `60s` or `0.800s`.
pub fn duration(span: Span) -> String {
    DurationText(span).to_string()
}

/// How the times of an answer are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Whole seconds, rounded up: Envoy's protocol, whose clients truncate.
    WholeSeconds,
    /// To the nanosecond.
    Exact,
}

/// Displays as the text of [`duration`], without a string of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationText(pub Span);

impl DurationText {
    /// Appends the text. Every answer has several, and formatting takes several times as long.
    pub fn write(self, out: &mut Vec<u8>) {
        let (seconds, fraction) = self.parts();
        out.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
        out.extend_from_slice(fraction.bytes());
        out.push(b's');
    }

    fn parts(self) -> (u64, Fraction) {
        let nanos = self.0.as_nanos();
        (
            nanos / NANOS_PER_SECOND,
            Fraction::new(nanos % NANOS_PER_SECOND),
        )
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, fraction) = self.parts();
        let fraction = str::from_utf8(fraction.bytes()).map_err(|_| fmt::Error)?;
        write!(f, "{seconds}{fraction}s")
    }
}

/// The part of a second as text: a point and 3, 6 or 9 digits, or nothing.
struct Fraction {
    text: [u8; FRACTION_BYTES],
    length: usize,
}

const FRACTION_BYTES: usize = ".123456789".len();

impl Fraction {
    fn new(mut nanos: u64) -> Fraction {
        let length = match nanos {
            0 => 0,
            nanos if nanos.is_multiple_of(1_000_000) => 4,
            nanos if nanos.is_multiple_of(1_000) => 7,
            _ => FRACTION_BYTES,
        };
        let mut text = [b'.'; FRACTION_BYTES];
        for digit in text[1..].iter_mut().rev() {
            *digit = b'0' + u8::try_from(nanos % 10).unwrap_or(0);
            nanos /= 10;
        }
        Fraction { text, length }
    }

    fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

const NANOS_PER_SECOND: u64 = Span::SECOND.as_nanos();

fn overall_code(answer: &Answer) -> Code {
    if answer.is_allowed() {
        Code::Ok
    } else {
        Code::OverLimit
    }
}

fn code(status: &Status) -> Code {
    match status {
        Status::Limited(limited) if limited.is_over() => Code::OverLimit,
        _ => Code::Ok,
    }
}

fn status(status: &Status) -> DescriptorStatus {
    let reported = DescriptorStatus {
        code: code(status).into(),
        ..DescriptorStatus::default()
    };
    match status {
        Status::NoLimit => reported,
        Status::Unlimited { .. } => DescriptorStatus {
            limit_remaining: u32::MAX,
            ..reported
        },
        Status::Limited(limited) => DescriptorStatus {
            current_limit: Some(current_limit(limited)),
            limit_remaining: limited.remaining(),
            duration_until_reset: Some(whole(limited.decision.reset())),
            ..reported
        },
    }
}

fn current_limit(limited: &Limited) -> RateLimit {
    RateLimit {
        requests_per_unit: limited.limit.count(),
        unit: unit(&limited.limit).into(),
        name: limited.rule.name.clone().unwrap_or_default(),
    }
}

/// The protocol's name for a window; `UNKNOWN` for one without a name.
fn unit(limit: &Limit) -> Unit {
    const UNITS: [(Span, Unit); 7] = [
        (Span::SECOND, Unit::Second),
        (Span::MINUTE, Unit::Minute),
        (Span::HOUR, Unit::Hour),
        (Span::DAY, Unit::Day),
        (Span::WEEK, Unit::Week),
        (Span::MONTH, Unit::Month),
        (Span::YEAR, Unit::Year),
    ];
    let named = UNITS.iter().find(|(window, _)| *window == limit.window());
    named.map_or(Unit::Unknown, |(_, unit)| *unit)
}

/// Whole seconds, rounded up.
fn whole(span: Span) -> Duration {
    Duration {
        seconds: i64::try_from(span.as_secs_ceil()).expect("2^64 ns are below 2^63 s"),
        nanos: 0,
    }
}

#[cfg(test)]
mod tests;
