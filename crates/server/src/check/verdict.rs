//! The answer of `/v1/check`, written straight into bytes. `openapi.json` documents the members,
//! which come in the order of their names.

use bytes::Bytes;
use http::Response;
use tollgate_core::{Answer, Decision, Denial, Limited, Request, RuleName, Status, Wait};
use tollgate_engine::{DescriptorOutcome, ReservationReceipt};
use tollgate_http::{MEDIA_TYPE, Problem};

use super::json_text::{
    write_duration, write_escaped, write_flag, write_number, write_plain, write_span, write_text,
};
use crate::reply::reply;

/// The bytes that the answer to a check of one descriptor seldom exceeds, if it is allowed.
pub(super) const ANSWER_BYTES: usize = 256;

/// What an answer has beside the decision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extra<'a> {
    /// The reservation that the request made.
    pub(super) receipt: Option<&'a ReservationReceipt>,
    /// Whether it is one of several, in a list. Then it has what a response has outside its body:
    /// the status, and the id of a denial that is kept.
    pub(super) is_in_list: bool,
    pub(super) request_id: Option<&'a str>,
}

/// The response: 200, or 429 with a problem document that has the same members.
pub(crate) fn verdict(
    request: &Request<'_>,
    answer: &Answer,
    receipt: Option<&ReservationReceipt>,
) -> Response<Bytes> {
    let extra = Extra {
        receipt,
        ..Extra::default()
    };
    // A problem document has a text and the names of its limits beside the entry of a descriptor.
    let parts = answer.statuses.len().max(1) + usize::from(answer.denial.is_some());
    let mut bytes = Vec::with_capacity(ANSWER_BYTES * parts);
    write_verdict(request, answer, extra, &mut bytes);
    bytes.push(b'\n');
    let media_type = match answer.is_allowed() {
        true => "application/json",
        false => MEDIA_TYPE,
    };
    let mut response = reply(tollgate_http::status(answer), media_type, bytes);
    tollgate_http::headers(answer, response.headers_mut());
    response
}

/// Appends an answer; a problem document, if the request is denied.
pub(super) fn write_verdict(
    request: &Request<'_>,
    answer: &Answer,
    extra: Extra<'_>,
    out: &mut Vec<u8>,
) {
    let problem = Problem::denial(answer);
    out.extend_from_slice(b"{\"allowed\":");
    write_flag(answer.is_allowed(), out);
    if answer.is_allowed() && !answer.delay.is_zero() {
        out.extend_from_slice(b",\"delay\":");
        write_duration(answer.delay, out);
    }
    if answer.denial.is_some() {
        out.extend_from_slice(b",\"deniedBy\":");
        match answer.denied_by() {
            Some(limited) => write_text(limited.rule.shown(), out),
            // No limit is the reason.
            None => out.extend_from_slice(b"null"),
        }
    }
    if let Some(problem) = &problem {
        out.extend_from_slice(b",\"detail\":");
        write_text(&problem.detail, out);
    }
    out.extend_from_slice(b",\"domain\":");
    write_escaped(request.domain, out);
    out.extend_from_slice(b",\"limits\":[");
    for (index, status) in answer.statuses.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_status(status, answer, out);
    }
    out.extend_from_slice(b"],\"matched\":");
    let is_matched = |status: &Status| !matches!(status, Status::NoLimit);
    write_flag(answer.statuses.iter().any(is_matched), out);
    if answer.is_over_soft() {
        out.extend_from_slice(b",\"overSoft\":true");
    }
    if let Some(id) = extra.request_id {
        out.extend_from_slice(b",\"requestId\":");
        write_text(id, out);
    }
    if let Some(receipt) = extra.receipt {
        write_receipt(receipt, out);
    }
    write_outcome(answer, problem.as_ref(), extra.is_in_list, out);
    out.push(b'}');
}

/// Appends the members of a denial, and the status.
fn write_outcome(answer: &Answer, problem: Option<&Problem>, is_in_list: bool, out: &mut Vec<u8>) {
    if let Some(denial) = answer.denial {
        out.extend_from_slice(b",\"retryAfter\":");
        write_wait(denial.wait, out);
    }
    let Some(problem) = problem else {
        if is_in_list {
            out.extend_from_slice(b",\"status\":200");
        }
        return;
    };
    out.extend_from_slice(b",\"status\":");
    write_number(problem.status.as_u16(), out);
    out.extend_from_slice(b",\"title\":");
    write_text(problem.title, out);
    out.extend_from_slice(b",\"type\":");
    write_text(problem.kind, out);
    for (index, policy) in problem.violated_policies.iter().enumerate() {
        let before: &[u8] = match index {
            0 => b",\"violated-policies\":[",
            _ => b",",
        };
        out.extend_from_slice(before);
        write_text(policy, out);
    }
    if !problem.violated_policies.is_empty() {
        out.push(b']');
    }
}

/// Appends the reservation that an allowed request made.
fn write_receipt(receipt: &ReservationReceipt, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"reservation\":{\"expiresIn\":");
    write_duration(receipt.expires_in, out);
    out.extend_from_slice(b",\"id\":");
    write_text(&receipt.id.to_string(), out);
    out.push(b'}');
}

/// Appends the entry of one descriptor in `limits`.
fn write_status(status: &Status, answer: &Answer, out: &mut Vec<u8>) {
    match status {
        Status::NoLimit => {
            out.push(b'{');
            write_outcome_name(DescriptorOutcome::NoLimit, out);
        }
        Status::Unlimited { rule } => {
            out.push(b'{');
            write_name(rule, out);
            write_outcome_name(DescriptorOutcome::Unlimited, out);
            write_rule(rule, out);
        }
        Status::Limited(limited) => write_limited(limited, answer, out),
    }
    out.push(b'}');
}

/// Appends the members of a descriptor that met a limit, and the brace before them.
fn write_limited(limited: &Limited, answer: &Answer, out: &mut Vec<u8>) {
    // Other members say whether it was charged and whether in the soft part.
    let outcome = match DescriptorOutcome::of_limited(limited, answer) {
        DescriptorOutcome::OverSoft | DescriptorOutcome::Uncharged => DescriptorOutcome::Allowed,
        outcome => outcome,
    };
    let Limited {
        rule,
        limit,
        decision,
        ..
    } = limited;
    out.extend_from_slice(b"{\"algorithm\":");
    write_plain(limit.algorithm().name().as_bytes(), out);
    if let Decision::Allow(grant) = decision
        && !grant.delay.is_zero()
    {
        out.extend_from_slice(b",\"delay\":");
        write_duration(grant.delay, out);
    }
    out.extend_from_slice(b",\"limit\":");
    write_number(limit.count(), out);
    out.push(b',');
    write_name(rule, out);
    write_outcome_name(outcome, out);
    if let Decision::Allow(grant) = decision
        && grant.over_soft
    {
        out.extend_from_slice(b",\"overSoft\":true");
    }
    out.extend_from_slice(b",\"remaining\":");
    write_number(limited.remaining(), out);
    out.extend_from_slice(b",\"reset\":");
    write_duration(decision.reset(), out);
    write_rule(rule, out);
    if let Decision::Deny(Denial { wait, .. }) = decision {
        out.extend_from_slice(b",\"wait\":");
        write_wait(*wait, out);
    }
    out.extend_from_slice(b",\"window\":");
    write_span(limit.window(), out);
}

/// Appends a rule's own name and a comma, if it has one.
fn write_name(rule: &RuleName, out: &mut Vec<u8>) {
    if let Some(name) = &rule.name {
        out.extend_from_slice(b"\"name\":");
        write_text(name, out);
        out.push(b',');
    }
}

fn write_outcome_name(outcome: DescriptorOutcome, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"outcome\":");
    write_plain(outcome.name().as_bytes(), out);
}

fn write_rule(rule: &RuleName, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"rule\":");
    write_text(&rule.path, out);
}

/// Appends a wait: a duration, or `never`.
fn write_wait(wait: Wait, out: &mut Vec<u8>) {
    match wait {
        Wait::For(span) => write_duration(span, out),
        Wait::Never => out.extend_from_slice(b"\"never\""),
    }
}

#[cfg(test)]
mod tests;
