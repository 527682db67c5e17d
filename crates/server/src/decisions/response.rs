//! Answers of the stream, written as the library for messages writes a [`CheckResponse`].
//!
//! [`CheckResponse`]: tollgate_rls::decisions::CheckResponse

use prost::encoding::encode_varint;
use prost::{Message, encoding};
use tollgate_core::{Answer, Decision, Limited, RuleName, Span, Status, Wait};
use tollgate_engine::DescriptorOutcome;
use tollgate_rls::decisions::{CheckResponse, Error, Outcome};
use tonic::Code;

/// The longest message whose length is one byte.
const SHORT_MAX: usize = 0x7f;

/// Appends the answer to a request that was decided. `request_id` is that of a denial that is kept.
pub(super) fn write_response(
    id: u64,
    answer: &Answer,
    request_id: Option<&str>,
    out: &mut Vec<u8>,
) {
    write_number(1, id, out);
    write_flag(2, answer.is_allowed(), out);
    if let Some(denial) = answer.denial {
        write_wait(3, denial.wait, out);
    } else {
        write_number(4, millis(answer.delay), out);
    }
    if let Some(limited) = answer.denied_by() {
        write_text(5, limited.rule.shown(), out);
    }
    write_text(6, request_id.unwrap_or_default(), out);
    for status in &answer.statuses {
        write_message(7, out, |out| write_status(status, answer, out));
    }
    write_flag(8, answer.is_store_unavailable(), out);
}

/// Appends the answer to a request that was not decided.
pub(super) fn write_error(id: u64, code: Code, message: String, out: &mut Vec<u8>) {
    let response = CheckResponse {
        id,
        error: Some(Error {
            code: code.into(),
            message,
        }),
        ..CheckResponse::default()
    };
    response.encode_raw(out);
}

fn write_status(status: &Status, answer: &Answer, out: &mut Vec<u8>) {
    let outcome = DescriptorOutcome::of(status, answer);
    let code = i32::from(outcome_of(outcome));
    write_number(1, u64::from(code.unsigned_abs()), out);
    match status {
        Status::NoLimit => {}
        Status::Unlimited { rule } => write_names(rule, out),
        Status::Limited(limited) => write_limited(limited, out),
    }
    write_flag(9, outcome == DescriptorOutcome::OverSoft, out);
}

/// Appends what a limit decided.
fn write_limited(limited: &Limited, out: &mut Vec<u8>) {
    let Limited {
        rule,
        limit,
        decision,
        ..
    } = limited;
    write_names(rule, out);
    write_number(4, limit.count().into(), out);
    write_number(5, millis(limit.window()), out);
    write_number(6, limited.remaining().into(), out);
    write_number(7, millis(decision.reset()), out);
    if let Decision::Deny(denial) = decision {
        write_wait(8, denial.wait, out);
    }
}

fn write_names(rule: &RuleName, out: &mut Vec<u8>) {
    write_text(2, &rule.path, out);
    write_text(3, rule.name.as_deref().unwrap_or_default(), out);
}

const fn outcome_of(outcome: DescriptorOutcome) -> Outcome {
    match outcome {
        DescriptorOutcome::Allowed | DescriptorOutcome::OverSoft | DescriptorOutcome::Uncharged => {
            Outcome::Allowed
        }
        DescriptorOutcome::Denied => Outcome::Denied,
        DescriptorOutcome::StoreUnavailable => Outcome::StoreUnavailable,
        DescriptorOutcome::QuotaOver => Outcome::QuotaOver,
        DescriptorOutcome::ShadowDenied => Outcome::ShadowDenied,
        DescriptorOutcome::Unlimited => Outcome::Unlimited,
        DescriptorOutcome::NoLimit | DescriptorOutcome::UnknownDomain => Outcome::NoLimit,
    }
}

/// Milliseconds, rounded up: a client that waits for them must not come too early.
const fn millis(span: Span) -> u64 {
    span.as_nanos().div_ceil(1_000_000)
}

// === fields ===

/// Appends a field, unless it has the default value.
fn write_number(field: u8, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        write_present(field, number, out);
    }
}

/// Appends a field, also if it is 0.
fn write_present(field: u8, number: u64, out: &mut Vec<u8>) {
    out.push(field << 3);
    write_varint(number, out);
}

fn write_flag(field: u8, flag: bool, out: &mut Vec<u8>) {
    write_number(field, flag.into(), out);
}

/// Appends how long to wait; nothing, if that is for ever.
fn write_wait(field: u8, wait: Wait, out: &mut Vec<u8>) {
    if let Wait::For(span) = wait {
        write_present(field, millis(span), out);
    }
}

/// Appends a text, unless it is empty.
fn write_text(field: u8, text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() {
        out.push((field << 3) | 2);
        write_length(text.len(), out);
        out.extend_from_slice(text.as_bytes());
    }
}

/// Appends a message, behind its length.
fn write_message(field: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push((field << 3) | 2);
    let at = out.len();
    out.push(0);
    write(out);
    let length = out.len() - at - 1;
    if length > SHORT_MAX {
        let mut long = Vec::with_capacity(encoding::encoded_len_varint(u64::MAX));
        write_length(length, &mut long);
        out.splice(at..=at, long);
    } else {
        out[at] = u8::try_from(length).unwrap_or(0);
    }
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    write_varint(u64::try_from(length).unwrap_or(u64::MAX), out);
}

#[inline]
fn write_varint(number: u64, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(byte @ 0..=0x7f) => out.push(byte),
        _ => encode_varint(number, out),
    }
}

#[cfg(test)]
mod tests;
