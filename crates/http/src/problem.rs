//! Problem documents (RFC 9457).

use http::StatusCode;
use serde_json::json;
use tollgate_core::{Answer, Wait};

use crate::policy::{POLICIES_MAX, display_name, name};

/// The media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";
/// The problem type of a denial.
pub const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
/// The problem type of a denial while the shared store does not answer.
pub const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// The title of [`QUOTA_EXCEEDED`].
const QUOTA_EXCEEDED_TITLE: &str =
    "Request cannot be satisfied as assigned quota has been exceeded";

/// A problem document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind of problem: a URI, or `about:blank` if the status says it all.
    pub kind: &'static str,
    /// A summary of the kind, the same for every problem of it.
    pub title: &'static str,
    /// The response's status.
    pub status: StatusCode,
    /// What happened to this request, and what to do.
    pub detail: String,
    /// The limits that were exceeded, as `RateLimit-Policy` names them; empty for other problems.
    pub violated_policies: Vec<String>,
}

// === impl Problem ===

impl Problem {
    /// A problem whose kind is its status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            detail: detail.into(),
            violated_policies: Vec::new(),
        }
    }

    /// The problem of a denied answer; `None` if it is allowed.
    pub fn denial(answer: &Answer) -> Option<Problem> {
        let wait = answer.denial?.wait;
        if answer.is_store_unavailable() {
            return Some(Problem::store_unavailable(wait));
        }
        let by = answer.denied_by().map_or("", display_name);
        // As in `Retry-After`.
        let detail = match wait.as_secs_ceil() {
            Some(secs) => {
                format!("limit \"{by}\" is exceeded; the same request is allowed in {secs} s")
            }
            None if answer
                .denied_by()
                .is_some_and(|over| over.limit.capacity() == 0) =>
            {
                format!("limit \"{by}\" is 0, so it denies everything")
            }
            None if answer
                .denied_by()
                .is_some_and(|over| over.limit.available() == 0) =>
            {
                format!("all of limit \"{by}\" is kept for requests with priority")
            }
            None => {
                format!("limit \"{by}\" never allows that much at once; request less")
            }
        };
        let over = answer.limited().filter(|limited| limited.is_over());
        let mut violated_policies: Vec<String> = Vec::new();
        for limited in answer.denied_by().into_iter().chain(over) {
            let name = name(limited);
            let is_known = violated_policies.iter().any(|known| *known == name);
            if !is_known && violated_policies.len() < POLICIES_MAX {
                violated_policies.push(name.into_owned());
            }
        }
        Some(Problem {
            kind: QUOTA_EXCEEDED,
            title: QUOTA_EXCEEDED_TITLE,
            status: StatusCode::TOO_MANY_REQUESTS,
            detail,
            violated_policies,
        })
    }

    /// The problem of a request whose key has as many requests in flight as the concurrency limit
    /// `name` allows. Nobody knows when one of them ends, so there is no retry time.
    pub fn in_flight(name: &str, most: u32) -> Problem {
        let requests = if most == 1 {
            "request is"
        } else {
            "requests are"
        };
        Problem {
            kind: QUOTA_EXCEEDED,
            title: QUOTA_EXCEEDED_TITLE,
            status: StatusCode::TOO_MANY_REQUESTS,
            detail: format!(
                "concurrency limit \"{name}\" is reached: {most} {requests} in flight; send the \
                 same request again when one has ended"
            ),
            violated_policies: vec![name.to_owned()],
        }
    }

    /// A denial for which no limit is the reason.
    fn store_unavailable(wait: Wait) -> Problem {
        let again = match wait.as_secs_ceil() {
            Some(secs) => format!("; try again in {secs} s"),
            None => String::new(),
        };
        Problem {
            kind: REDUCED_CAPACITY,
            title: "Request cannot be satisfied due to temporary server capacity constraints",
            status: StatusCode::TOO_MANY_REQUESTS,
            detail: format!(
                "the rate limit store is unavailable, and the limit denies requests \
                 meanwhile{again}"
            ),
            violated_policies: Vec::new(),
        }
    }

    /// The document.
    pub fn json(&self) -> serde_json::Value {
        let mut json = json!({
            "type": self.kind,
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if !self.violated_policies.is_empty() {
            json["violated-policies"] = json!(self.violated_policies);
        }
        json
    }
}

#[cfg(test)]
mod tests;
