//! The headers by which clients learn of their limits, in the dialects that clients know.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use tollgate_core::{Answer, Span};

use crate::headers::{RATE_LIMIT, RATE_LIMIT_POLICY, rate_limit};
use crate::policy::Policy;

/// A set of headers that say what a client may still do.
///
/// All but the first can name one limit only: the one that denied the request, or else the one with
/// the least remaining. Their limit is the largest number of units at once without its soft part,
/// their reset is when more becomes available: the retry time of a limit that denies, and the reset
/// of another, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// `RateLimit` and `RateLimit-Policy`, as in draft 11 of the IETF: all limits, in seconds.
    Ratelimit,
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, as in the draft until its
    /// version 6: in seconds.
    #[serde(rename = "ratelimit_draft_06")]
    RatelimitDraft06,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset`: in seconds.
    XRatelimitSeconds,
    /// The same headers, but the reset is a time: seconds since 1970.
    XRatelimitEpoch,
    /// `X-Rate-Limit-Limit`, `X-Rate-Limit-Remaining`, `X-Rate-Limit-Reset`: the reset is a time.
    XRateLimitEpoch,
}

/// How a dialect writes when more becomes available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reset {
    Seconds,
    Epoch,
}

// === impl Dialect ===

impl Dialect {
    /// The headers that it has.
    pub fn names(self) -> Vec<HeaderName> {
        match self.fields() {
            None => vec![RATE_LIMIT, RATE_LIMIT_POLICY],
            Some((names, _)) => names.map(HeaderName::from_static).into(),
        }
    }

    /// Adds its headers. `policies` are the answer's, `now` is the wall-clock time since 1970.
    ///
    /// The headers may be those of a response that has passed another limiter. Fields that are
    /// lists then name the limits of both. The others name one limit: that of a denial, or else the
    /// one with the least remaining, so that no client expects more than it may have.
    pub(crate) fn write(
        self,
        answer: &Answer,
        policies: &[Policy<'_>],
        now: Duration,
        headers: &mut HeaderMap,
    ) {
        let Some(([limit, remaining, reset], form)) = self.fields() else {
            rate_limit(answer, policies, headers);
            return;
        };
        let Some(policy) = tightest(answer, policies) else {
            return;
        };
        if is_tighter(headers, limit, remaining, policy.remaining) {
            return;
        }
        headers.remove(remaining);
        headers.remove(reset);
        headers.insert(limit, HeaderValue::from(policy.limit.nominal()));
        // Without the store, nobody knows what remains.
        if answer.is_store_unavailable() {
            return;
        }
        let until = match form {
            Reset::Seconds => policy.effective,
            Reset::Epoch => Span::from(now) + policy.effective,
        };
        headers.insert(remaining, HeaderValue::from(policy.remaining));
        headers.insert(reset, HeaderValue::from(until.as_secs_ceil()));
    }

    /// The names of limit, remaining and reset; `None` for the dialect that names all limits.
    const fn fields(self) -> Option<([&'static str; 3], Reset)> {
        let draft = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
        let github = [
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        ];
        let dashed = [
            "x-rate-limit-limit",
            "x-rate-limit-remaining",
            "x-rate-limit-reset",
        ];
        match self {
            Self::Ratelimit => None,
            Self::RatelimitDraft06 => Some((draft, Reset::Seconds)),
            Self::XRatelimitSeconds => Some((github, Reset::Seconds)),
            Self::XRatelimitEpoch => Some((github, Reset::Epoch)),
            Self::XRateLimitEpoch => Some((dashed, Reset::Epoch)),
        }
    }
}

/// Whether the headers say already that no more is left than `own` units: another limiter, behind
/// this one, denied the request or has no more units than that.
fn is_tighter(headers: &HeaderMap, limit: &str, remaining: &str, own: u32) -> bool {
    if !headers.contains_key(limit) {
        return false;
    }
    let Some(value) = headers.get(remaining) else {
        // Without its store, a limiter denies requests and does not know what remains.
        return headers.contains_key(RETRY_AFTER);
    };
    let value = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    headers.contains_key(RETRY_AFTER) || value.is_some_and(|value: u64| value <= own.into())
}

/// The limit that matters most to the client.
fn tightest<'a>(answer: &Answer, policies: &'a [Policy<'a>]) -> Option<&'a Policy<'a>> {
    match answer.is_allowed() {
        // The one that denied is the first.
        false => policies.first(),
        true => policies
            .iter()
            .min_by_key(|policy| (policy.remaining, std::cmp::Reverse(policy.effective))),
    }
}
