//! `/v1/check`: its requests and its responses.

use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_core::{
    Answer, ChargeDenied, Cost, Decision, Denial, Descriptor, Escaped, Grant, Limited, Request,
    RuleName, Status, Wait,
};
use tollgate_engine::{DescriptorOutcome, ReservationReceipt};
use tollgate_http::{MEDIA_TYPE, Problem};
use tollgate_rls::duration;

use crate::check::described::Described;
use crate::reply::{Failure, read_object, reply};

mod described;

/// The body of a request.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    domain: String,
    descriptors: Vec<Described>,
    /// Units; a negative cost is a refund.
    #[serde(default = "one")]
    cost: i64,
    /// Decide without charging.
    #[serde(default)]
    peek: bool,
    /// The cost is an estimate, which `/v1/settle` settles.
    #[serde(default)]
    reserve: bool,
}

const fn one() -> i64 {
    1
}

// === impl Check ===

impl Check {
    pub(crate) fn read(body: &[u8]) -> Result<Check, Failure> {
        read_object(
            body,
            r#"{"domain": "shop", "descriptors": [{"user": "ann"}]}"#,
        )
    }

    /// Whether the cost is an estimate that is settled later.
    pub(crate) const fn is_reservation(&self) -> bool {
        self.reserve
    }

    /// Converts the body of `/v1/check` to a request within the bounds of [`Request`]: a negative
    /// cost is a refund.
    pub(crate) fn request(&self) -> Result<Request<'_>, Failure> {
        if self.reserve && (self.peek || self.cost < 0) {
            let detail = "`reserve` with `peek` or with a negative cost; the cost of a reservation \
                is an estimate of what the request will consume";
            return Err(Failure::bad_request(detail));
        }
        let cost = match (u64::try_from(self.cost), self.peek) {
            (Ok(units), true) => Cost::Peek(units),
            (Ok(units), false) => Cost::Take(units),
            (Err(_), false) => Cost::Refund(self.cost.unsigned_abs()),
            (Err(_), true) => {
                let detail = "`peek` with a negative cost; leave out `peek` or the sign";
                return Err(Failure::bad_request(detail));
            }
        };
        let descriptors = self.descriptors.iter().map(|described| Descriptor {
            entries: described.entries(),
            is_unordered: described.is_unordered,
            ..Descriptor::default()
        });
        let request = Request {
            domain: self.domain.as_bytes(),
            descriptors: descriptors.collect(),
            cost,
            charge_denied: ChargeDenied::Never,
        };
        request.check_bounds()?;
        Ok(request)
    }
}

/// The response: 200, or 429 with a problem document that has the same members.
pub(crate) fn verdict(
    request: &Request<'_>,
    answer: &Answer,
    receipt: Option<&ReservationReceipt>,
) -> Response {
    let problem = Problem::denial(answer);
    let mut members = Map::new();
    if let Some(Value::Object(of_problem)) = problem.as_ref().map(Problem::json) {
        members = of_problem;
    }
    members.insert(
        "domain".to_owned(),
        json!(Escaped(request.domain).to_string()),
    );
    members.insert("allowed".to_owned(), json!(answer.is_allowed()));
    if let Some(denial) = answer.denial {
        let by = answer.denied_by().map(|limited| limited.rule.shown());
        members.insert("deniedBy".to_owned(), json!(by));
        members.insert("retryAfter".to_owned(), json!(wait_text(denial.wait)));
    } else if !answer.delay.is_zero() {
        members.insert("delay".to_owned(), json!(duration(answer.delay)));
    }
    if let Some(ReservationReceipt { id, expires_in }) = receipt {
        let reservation = json!({"id": id.to_string(), "expiresIn": duration(*expires_in)});
        members.insert("reservation".to_owned(), reservation);
    }
    if answer.is_over_soft() {
        members.insert("overSoft".to_owned(), json!(true));
    }
    let is_matched = |status: &Status| !matches!(status, Status::NoLimit);
    let matched = answer.statuses.iter().any(is_matched);
    members.insert("matched".to_owned(), json!(matched));
    let limits = answer
        .statuses
        .iter()
        .map(|status| status_json(status, answer));
    members.insert("limits".to_owned(), limits.collect());
    let media_type = problem.map_or("application/json", |_| MEDIA_TYPE);
    let body = format!("{}\n", Value::Object(members));
    let mut response = reply(tollgate_http::status(answer), media_type, body);
    tollgate_http::headers(answer, response.headers_mut());
    response
}

/// The entry of one descriptor in `limits`.
fn status_json(status: &Status, answer: &Answer) -> Value {
    match status {
        Status::NoLimit => json!({"outcome": "no_limit"}),
        Status::Unlimited { rule } => with_rule(rule, json!({"outcome": "unlimited"})),
        Status::Limited(limited) => with_rule(&limited.rule, limited_json(limited, answer)),
    }
}

fn with_rule(rule: &RuleName, mut entry: Value) -> Value {
    entry["rule"] = json!(rule.path);
    if let Some(name) = &rule.name {
        entry["name"] = json!(name);
    }
    entry
}

/// One descriptor that met a limit, in the response of `/v1/check`; `openapi.json` documents the
/// members.
fn limited_json(limited: &Limited, answer: &Answer) -> Value {
    // Other members say whether it was charged and whether in the soft part.
    let outcome = match DescriptorOutcome::of_limited(limited, answer) {
        DescriptorOutcome::OverSoft | DescriptorOutcome::Uncharged => DescriptorOutcome::Allowed,
        outcome => outcome,
    };
    let limit = &limited.limit;
    let mut entry = json!({
        "outcome": outcome.name(),
        "limit": limit.count(),
        "window": limit.window().to_string(),
        "algorithm": limit.algorithm().to_string(),
        "remaining": limited.remaining(),
        "reset": duration(limited.decision.reset()),
    });
    match limited.decision {
        Decision::Deny(Denial { wait, .. }) => entry["wait"] = json!(wait_text(wait)),
        Decision::Allow(Grant {
            delay, over_soft, ..
        }) => {
            if !delay.is_zero() {
                entry["delay"] = json!(duration(delay));
            }
            if over_soft {
                entry["overSoft"] = json!(true);
            }
        }
    }
    entry
}

fn wait_text(wait: Wait) -> String {
    match wait {
        Wait::For(span) => duration(span),
        Wait::Never => "never".to_owned(),
    }
}

#[cfg(test)]
mod tests;
