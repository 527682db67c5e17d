//! The status and the headers of an answer.

use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tollgate_core::Answer;

use crate::policy::{Policy, policies};
use crate::policy_texts::with_texts;

/// What remains of each limit, and for how long.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The limits of the answer.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// How long to delay the request, in milliseconds, rounded up; absent if there is no delay.
pub const DELAY_MS: HeaderName = HeaderName::from_static("x-tollgate-delay-ms");
/// `unavailable` in a denial for which no limit was evaluated: the shared store did not answer, and
/// the limit denies requests meanwhile. Absent in every other answer.
pub const STORE: HeaderName = HeaderName::from_static("x-tollgate-store");
/// The value of [`STORE`].
pub const STORE_UNAVAILABLE: &str = "unavailable";

/// 200 for an allowed request, 429 for a denied one.
pub const fn status(answer: &Answer) -> StatusCode {
    if answer.is_allowed() {
        StatusCode::OK
    } else {
        StatusCode::TOO_MANY_REQUESTS
    }
}

/// The value of `x-tollgate-delay-ms`: how long to delay an allowed request, in milliseconds,
/// rounded up; `None` for one without a delay, and for a denied one.
pub const fn delay_ms(answer: &Answer) -> Option<u64> {
    if answer.is_allowed() && !answer.delay.is_zero() {
        Some(answer.delay.as_nanos().div_ceil(1_000_000))
    } else {
        None
    }
}

/// Adds the headers of an answer.
///
/// `RateLimit: "name";r=R;t=T` has the remaining units and for how many seconds that is all: the
/// retry time of a limit that denies, the reset of another; rounded up. `RateLimit-Policy:
/// "name";q=N;w=W` has the limit and its window in seconds. The draft has whole seconds only, at
/// least one. Another window is rounded up, so a client never expects more than it may have. A
/// bucket whose capacity is not N has it in `tollgate-burst`.
///
/// A name is the rule's own, or else its path; characters that a header cannot contain, and `%`,
/// are percent-encoded. Nothing is added for an answer in which no limit counted. If the store is
/// unavailable, what remains is unknown: `RateLimit` is left out, and [`STORE`] has the reason.
pub fn headers(answer: &Answer, headers: &mut HeaderMap) {
    rate_limit(answer, &policies(answer), headers);
    retry_headers(answer, headers);
}

/// Adds the part of [`headers`] that is the draft's. `policies` are those of the answer. Both
/// fields are lists, so the items of other limiters that the headers have already stay.
pub(crate) fn rate_limit(answer: &Answer, policies: &[Policy<'_>], headers: &mut HeaderMap) {
    if policies.is_empty() {
        return;
    }
    with_texts(policies, |texts, buffer| {
        if !answer.is_store_unavailable() {
            add_items(RATE_LIMIT, texts.remaining(policies, buffer), headers);
        }
        add_items(RATE_LIMIT_POLICY, texts.policy.clone(), headers);
    });
}

/// Adds items to a field that is a list of strings. Anything else in it is replaced: it would make
/// the whole field unreadable.
fn add_items(name: HeaderName, items: HeaderValue, headers: &mut HeaderMap) {
    match headers.entry(name) {
        Entry::Vacant(field) => _ = field.insert(items),
        Entry::Occupied(mut field) => {
            let mut others = field.iter();
            match others.all(|other| other.as_bytes().starts_with(b"\"")) {
                true => field.append(items),
                false => _ = field.insert(items),
            }
        }
    }
}

/// Adds the part of [`headers`] that every dialect has: when to try again, the delay, and whether
/// the store is unavailable.
pub(crate) fn retry_headers(answer: &Answer, headers: &mut HeaderMap) {
    if answer.is_store_unavailable() {
        headers.insert(STORE, HeaderValue::from_static(STORE_UNAVAILABLE));
    }
    if let Some(secs) = answer.retry_after_secs() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
    }
    if let Some(millis) = delay_ms(answer) {
        headers.insert(DELAY_MS, HeaderValue::from(millis));
    }
}

#[cfg(test)]
pub(crate) mod tests;
