//! Answers as HTTP: status, headers, problem documents.
//!
//! * [`status`]: 200 or 429.
//! * [`headers`]: `RateLimit` and `RateLimit-Policy` as in draft-ietf-httpapi-ratelimit-headers-11,
//!   `Retry-After`, `x-tollgate-delay-ms` and `x-tollgate-store`.
//! * [`Problem`]: a denial or an error as `application/problem+json` (RFC 9457).
//!
//! Pure functions from an [`tollgate_core::Answer`]. Knows nothing about sockets, rules or stores.

mod policy;

mod headers;

mod problem;

pub use headers::{
    DELAY_MS, RATE_LIMIT, RATE_LIMIT_POLICY, STORE, STORE_UNAVAILABLE, delay_ms, headers,
    retry_after_secs, status,
};
pub use policy::{NAME_BYTES_MAX, POLICIES_MAX};
pub use problem::{MEDIA_TYPE, Problem, QUOTA_EXCEEDED, REDUCED_CAPACITY};
