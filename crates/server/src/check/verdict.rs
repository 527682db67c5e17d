//! The answer of `/v1/check`, written straight into bytes. `openapi.json` documents the members,
//! which come in the order of their names.

use std::fmt::Display;

use axum::response::Response;
use http::StatusCode;
use serde::{Serialize, Serializer};
use tollgate_core::{
    Answer, Decision, Denial, Escaped, Grant, Limited, Request, RuleName, Span, Status, Wait,
};
use tollgate_engine::{DescriptorOutcome, ReservationReceipt};
use tollgate_http::{MEDIA_TYPE, Problem};
use tollgate_rls::DurationText;

use crate::reply::reply;

/// The members of an answer; those of a problem document, if the request is denied.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VerdictBody<'a> {
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Text<DurationText>>,
    /// `null` if no limit is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    denied_by: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    domain: Text<Escaped<'a>>,
    limits: Statuses<'a>,
    matched: bool,
    #[serde(skip_serializing_if = "is_false")]
    over_soft: bool,
    /// In a batch: where a single answer has a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<ReservationBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<WaitText>,
    /// In a denial; in a batch, in every answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated_policies: Vec<String>,
}

/// The reservation that an allowed request made.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReservationBody {
    expires_in: Text<DurationText>,
    id: String,
}

/// The entry of one descriptor in `limits`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<Text<tollgate_core::Algorithm>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Text<DurationText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "is_false")]
    over_soft: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset: Option<Text<DurationText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<WaitText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Text<Span>>,
}

/// A value that is written as what it displays.
struct Text<T>(T);

/// A wait: a duration, or `never`.
struct WaitText(Wait);

/// The entries of all descriptors.
struct Statuses<'a>(&'a Answer);

/// The response: 200, or 429 with a problem document that has the same members.
pub(crate) fn verdict(
    request: &Request<'_>,
    answer: &Answer,
    receipt: Option<&ReservationReceipt>,
) -> Response {
    let body = VerdictBody::new(request, answer, receipt);
    let mut bytes = serde_json::to_vec(&body).expect("text and numbers can be written");
    bytes.push(b'\n');
    let media_type = match answer.is_allowed() {
        true => "application/json",
        false => MEDIA_TYPE,
    };
    let mut response = reply(tollgate_http::status(answer), media_type, bytes);
    tollgate_http::headers(answer, response.headers_mut());
    response
}

const fn is_false(flag: &bool) -> bool {
    !*flag
}

// === impl VerdictBody ===

impl<'a> VerdictBody<'a> {
    /// Its members, as `openapi.json` describes them.
    pub(super) fn new(
        request: &Request<'a>,
        answer: &'a Answer,
        receipt: Option<&ReservationReceipt>,
    ) -> VerdictBody<'a> {
        let problem = Problem::denial(answer);
        let (status, title, kind) = match &problem {
            Some(Problem {
                status,
                title,
                kind,
                ..
            }) => (Some(status.as_u16()), Some(*title), Some(*kind)),
            None => (None, None, None),
        };
        let (detail, violated_policies) = match problem {
            Some(problem) => (Some(problem.detail), problem.violated_policies),
            None => (None, Vec::new()),
        };
        let is_matched = |status: &Status| !matches!(status, Status::NoLimit);
        let is_delayed = answer.is_allowed() && !answer.delay.is_zero();
        let by = || answer.denied_by().map(|limited| limited.rule.shown());
        VerdictBody {
            allowed: answer.is_allowed(),
            delay: is_delayed.then_some(Text(DurationText(answer.delay))),
            denied_by: answer.denial.map(|_| by()),
            detail,
            domain: Text(Escaped(request.domain)),
            limits: Statuses(answer),
            matched: answer.statuses.iter().any(is_matched),
            over_soft: answer.is_over_soft(),
            request_id: None,
            reservation: receipt.map(ReservationBody::new),
            retry_after: answer.denial.map(|denial| WaitText(denial.wait)),
            status,
            title,
            kind,
            violated_policies,
        }
    }

    /// The same in a list of answers: with the status, and with the id of a denial that is kept.
    pub(super) fn in_batch(self, request_id: Option<Box<str>>) -> VerdictBody<'a> {
        let status = match self.allowed {
            true => StatusCode::OK,
            false => StatusCode::TOO_MANY_REQUESTS,
        };
        VerdictBody {
            request_id,
            status: Some(status.as_u16()),
            ..self
        }
    }
}

// === impl ReservationBody ===

impl ReservationBody {
    fn new(receipt: &ReservationReceipt) -> ReservationBody {
        ReservationBody {
            expires_in: Text(DurationText(receipt.expires_in)),
            id: receipt.id.to_string(),
        }
    }
}

// === impl StatusBody ===

impl<'a> StatusBody<'a> {
    fn new(status: &'a Status, answer: &Answer) -> StatusBody<'a> {
        match status {
            Status::NoLimit => StatusBody::of_rule(DescriptorOutcome::NoLimit, None),
            Status::Unlimited { rule } => {
                StatusBody::of_rule(DescriptorOutcome::Unlimited, Some(rule))
            }
            Status::Limited(limited) => StatusBody::of_limited(limited, answer),
        }
    }

    fn of_rule(outcome: DescriptorOutcome, rule: Option<&'a RuleName>) -> StatusBody<'a> {
        StatusBody {
            algorithm: None,
            delay: None,
            limit: None,
            name: rule.and_then(|rule| rule.name.as_deref()),
            outcome: outcome.name(),
            over_soft: false,
            remaining: None,
            reset: None,
            rule: rule.map(|rule| &*rule.path),
            wait: None,
            window: None,
        }
    }

    /// One descriptor that met a limit.
    fn of_limited(limited: &'a Limited, answer: &Answer) -> StatusBody<'a> {
        // Other members say whether it was charged and whether in the soft part.
        let outcome = match DescriptorOutcome::of_limited(limited, answer) {
            DescriptorOutcome::OverSoft | DescriptorOutcome::Uncharged => {
                DescriptorOutcome::Allowed
            }
            outcome => outcome,
        };
        let (delay, over_soft, wait) = match limited.decision {
            Decision::Deny(Denial { wait, .. }) => (Span::ZERO, false, Some(WaitText(wait))),
            Decision::Allow(Grant {
                delay, over_soft, ..
            }) => (delay, over_soft, None),
        };
        let limit = &limited.limit;
        StatusBody {
            algorithm: Some(Text(limit.algorithm())),
            delay: (!delay.is_zero()).then_some(Text(DurationText(delay))),
            limit: Some(limit.count()),
            over_soft,
            remaining: Some(limited.remaining()),
            reset: Some(Text(DurationText(limited.decision.reset()))),
            wait,
            window: Some(Text(limit.window())),
            ..StatusBody::of_rule(outcome, Some(&limited.rule))
        }
    }
}

// === values ===

impl Serialize for Statuses<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let statuses = self.0.statuses.iter();
        serializer.collect_seq(statuses.map(|status| StatusBody::new(status, self.0)))
    }
}

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for WaitText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Wait::For(span) => serializer.collect_str(&DurationText(span)),
            Wait::Never => serializer.serialize_str("never"),
        }
    }
}
