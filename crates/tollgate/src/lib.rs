//! An exact, bounded, fast rate limiter.
//!
//! # Ten lines to a decision
//!
//! ```
//! use tollgate::{Limit, Limiter};
//!
//! let limiter = Limiter::new(Limit::per_second(10).burst(20));
//! let decision = limiter.check("alice");
//! if decision.is_allowed() {
//!     println!("go on, {} more", decision.remaining());
//! } else {
//!     println!("429, Retry-After: {:?}", decision.retry_after());
//! }
//! ```
//!
//! # Guide
//!
//! **A limit** is N units in a window, counted by an [`Algorithm`]: a token bucket unless told
//! otherwise. [`Limit::per_second`] and its like are for numbers in the source: what cannot be had
//! panics, in a constant at compile time. For numbers from elsewhere [`Limit::new`],
//! [`Limit::token_bucket`], [`Limit::with_burst`] return an [`InvalidLimit`] that says why.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Limit};
//!
//! const API: Limit = Limit::per_second(10).burst(20);
//! const LOGIN: Limit = Limit::per(3, Duration::from_secs(900)).counted_by(Algorithm::SlidingLog);
//! const MAIL: Limit = Limit::per_minute(30).counted_by(Algorithm::LeakyBucket).burst(5);
//! assert!(Limit::token_bucket(20_000_000, Duration::from_secs(1)).is_err());
//! ```
//!
//! **A key** is anything that can be hashed: a name, a number, an address, a tuple of them. Its
//! hash is keyed at random in each limiter, so nobody can aim at another's counter.
//!
//! **A decision** says whether the request may pass, and in both cases what
//! [`remaining`](Decision::remaining) is and when everything is back
//! ([`reset_after`](Decision::reset_after)). A refusal says when to come back
//! ([`retry_after`](Decision::retry_after)): alone you are admitted then, and not a nanosecond
//! sooner. A request that costs more than the limit ever holds is refused without a wait.
//!
//! **Several limits** on one request are all or nothing: [`check_all`]. Units that were not used go
//! back with [`Limiter::refund`]; [`Limiter::peek`] asks without charging;
//! [`Limiter::check_batch`] and [`Limiter::check_each`] decide for many keys at once, twice as fast
//! as one by one.
//!
//! **Waiting** instead of refusing: `until_ready` (feature `async`, on tokio) and
//! [`Limiter::until_n_ready_with`] (any timer). Fair, cancel-safe, without polling.
//!
//! **A rules file** in place of limits in the source: `RuleLimiter` (feature `rules`, on by
//! default), with reload.
//!
//! **Memory** is fixed when a limiter is built: [`BYTES_PER_KEY`] bytes for each of `max_keys`. A
//! key that has recovered is forgotten for free. Only when there are more live keys than that, one
//! is given up, and counted ([`Stats::evicted_keys`]).
//!
//! **Tests** give the limiter a clock that stands still:
//!
//! ```
//! use std::sync::Arc;
//! use tollgate::{Limit, Limiter, ManualClock, Span};
//!
//! let clock = Arc::new(ManualClock::default());
//! let limiter = Limiter::builder(Limit::per_second(1)).clock(Arc::clone(&clock)).build();
//! assert!(limiter.check("alice").is_allowed());
//! assert!(!limiter.check("alice").is_allowed());
//! clock.advance(Span::SECOND);
//! assert!(limiter.check("alice").is_allowed());
//! ```
//!
//! # Trade-offs
//!
//! * The memory is taken when the limiter is built, whether keys come or not.
//! * At a single hot key from many threads everybody changes one word; nothing here spreads it out.
//! * A `check` does not stand in the line of those who wait in `until_ready`, and may come between.
//! * No `no_std`.

mod limiter;

mod single;

mod joint;

mod limits;

mod queue;

#[cfg(feature = "rules")]
mod rule_limiter;

#[cfg(feature = "async")]
mod tokio_clock;

#[cfg(feature = "async")]
pub use joint::until_all_ready;
pub use joint::{Ask, JointDecision, JointError, check_all, until_all_ready_with};
pub use limiter::{BuildError, Builder, FAILURE_WAIT, Limiter, NotReady};
pub use limits::{Limits, LimitsBuilder};
pub use queue::WAITING_MAX;
#[cfg(feature = "rules")]
pub use rule_limiter::{InvalidRules, LoadError, OnUnknownDomain, RuleError, RuleLimiter};
pub use single::SingleLimiter;
#[cfg(feature = "async")]
pub use tokio_clock::TokioClock;
pub use tollgate_core::{
    Algorithm, Anchor, ChargeDenied, Clock, Decision, Denial, Grant, InvalidLimit, Limit, Moment,
    Now, ParseLimitError, ParseSpanError, Segments, Span, StoreError, Timeline, Wait,
};
#[cfg(feature = "rules")]
pub use tollgate_core::{
    Answer, Cost, DenialReason, Descriptor, Enforcement, Entry, Escaped, Limited, Override,
    Request, RequestDenial, RuleName, Status,
};
pub use tollgate_memory::{
    BYTES_PER_KEY, Builder as MemoryBuilder, ManualClock, Memory, Stats, SystemClock,
};
#[cfg(feature = "rules")]
pub use tollgate_rules::{Changed, Changes, Diagnostic, ReadError, RuleSet, Severity, Source};

/// The examples of the README, as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
