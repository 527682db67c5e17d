//! A rate limiter: exact, of bounded memory, lock-free.
//!
//! ```
//! use tollgate::{Limit, Limiter};
//!
//! let limiter = Limiter::new(Limit::per_second(10).burst(20));
//! let decision = limiter.check("alice");
//! if decision.is_allowed() {
//!     println!("200, {} remaining", decision.remaining());
//! } else {
//!     println!("429, Retry-After: {:?}", decision.retry_after_secs());
//! }
//! ```
//!
//! | you have | use |
//! |---|---|
//! | one limit, many keys | [`Limiter`] |
//! | one limit, one counter | [`Limiter::single`] |
//! | costs that are known only afterwards | [`Limiter::reserve`] |
//! | several limits, the same key | [`Limits`] |
//! | several limits, different keys | [`Limiter::sibling`] and [`check_all`] |
//! | limits in a file | `RuleLimiter` (feature `rules`) |
//! | a service of axum, tonic or hyper | `tower::RateLimitLayer` (feature `tower`) |
//! | several processes, one budget | `redis::Redis` (feature `redis`) |
//!
//! # Limits
//!
//! A limit is N units in a window, counted by an [`Algorithm`]: by default a token bucket.
//! [`Limit::per_second`] and similar constructors are for numbers in source code: an invalid limit
//! panics, or does not compile if it is a constant. For numbers from elsewhere, [`Limit::new`],
//! [`Limit::token_bucket`] and [`Limit::with_burst`] return [`InvalidLimit`]. Limits also parse
//! from text.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Limit};
//!
//! const API: Limit = Limit::per_second(10).burst(20);
//! const LOGIN: Limit =
//!     Limit::per(3, Duration::from_secs(900)).counted_by(Algorithm::SlidingLog);
//! const MAIL: Limit = Limit::per_minute(30).counted_by(Algorithm::LeakyBucket).burst(5);
//!
//! assert!(Limit::token_bucket(20_000_000, Duration::from_secs(1)).is_err());
//! assert_eq!("3 per 15m sliding_log".parse(), Ok(LOGIN));
//! ```
//!
//! [`Limiter::set_limit`] replaces a limit while it is in use; consumed units stay consumed.
//!
//! # Decisions
//!
//! A [`Decision`] is a value whether the request is allowed or denied: [`Decision::remaining`] is
//! the largest cost that would be allowed now, [`Decision::reset_after`] the time until the full
//! budget is available. A denial says when to retry: [`Decision::retry_after`] exactly,
//! [`Decision::retry_after_secs`] for a `Retry-After` header. If no other request comes, a retry is
//! allowed after exactly that time, and denied one nanosecond earlier. A request that costs more
//! than the limit ever allows has no such time. [`Decision::into_result`] makes a denial an error,
//! for `?`.
//!
//! [`Limiter::peek`] charges nothing, [`Limiter::refund`] refunds units, [`Limiter::reset`] all of
//! them. [`Limiter::check_batch`] and [`Limiter::check_each`] decide on many keys at once. In one
//! run of `cargo xtask bench`, that was three times as fast as one by one over a million keys, and
//! 1.1 times on a single one.
//!
//! # Reservations
//!
//! The cost of some requests is known only afterwards: the tokens of a language model, the bytes of
//! a response. [`Limiter::reserve`] charges an estimate, and [`Reservation::settle`] the actual
//! number in its place. It refunds the difference, or charges more, until the limit is exhausted.
//! Dropping the [`Reservation`] refunds all of it, so a request that fails or is cancelled costs
//! nothing.
//!
//! ```
//! use tollgate::{Limit, Limiter};
//!
//! let tokens = Limiter::new(Limit::per_hour(10_000));
//! let reservation = tokens.reserve("alice", 4_000)?;
//! // Ask the model; the answer says how many tokens it took.
//! let settlement = reservation.settle(1_200);
//! assert_eq!((settlement.charged, settlement.remaining), (1_200, 8_800));
//! # Ok::<(), tollgate::Denial>(())
//! ```
//!
//! [`Limits::reserve`] and [`reserve_all`] reserve units of several limits, all or nothing. Limits
//! over Redis have reservations as well: see `redis::Limiter::reserve`.
//!
//! Only units that still count are refunded: nothing goes from one fixed window to the next, and a
//! bucket refunds no unit that has refilled already. So reservations allow no more than the limit,
//! with one exception, which [`Reservation`] describes.
//!
//! # Several limits
//!
//! All or nothing: a request is allowed only if all limits allow it, and only then are they
//! charged.
//!
//! ```
//! use tollgate::{Limit, Limits};
//!
//! let limits = Limits::builder()
//!     .limit("second", Limit::per_second(10))
//!     .limit("hour", Limit::per_hour(1_000))
//!     .build();
//! let decision = limits.check("alice");
//! assert!(decision.is_allowed());
//! assert_eq!(decision.remaining(), Some(9));
//! ```
//!
//! # Waiting
//!
//! `until_ready` (feature `async`, on tokio) and [`Limiter::until_ready_with`] (any timer) wait
//! instead of denying: in order of arrival, cancel-safe, without polling, and at the full rate of
//! a token bucket even though timers fire late. [`until_all_ready_with`] waits for several limits.
//!
//! # Redis
//!
//! With the feature `redis`, any number of processes share limits through Redis, Redis Cluster or
//! Valkey. `redis::Redis` makes limiters with the methods of [`Limiter`] and [`Limits`], which are
//! awaited, and with the same decisions. The documentation of the module `redis` has a table of
//! what changes, and says what happens while Redis does not answer.
//!
//! # Keys
//!
//! A key is any value that implements `Hash`: a name, a number, an address, a tuple of them. Only
//! 64 bits of a key's hash are stored. The hash has a random secret in each limiter, so nobody can
//! choose a key that shares another's counter. Two keys share a counter if they hash alike: equal
//! numbers of different types do, and so do a negative number and the unsigned one with the same
//! bits; an address and the same address as another type do not.
//!
//! ```
//! use std::net::{IpAddr, Ipv4Addr};
//! use tollgate::{Limit, Limiter};
//!
//! let limiter = Limiter::new(Limit::per_hour(1));
//! assert!(limiter.check(&1_u32).is_allowed());
//! assert!(!limiter.check(&1_u64).is_allowed(), "the same number");
//! assert!(limiter.check(&-1_i64).is_allowed());
//! assert!(!limiter.check(&u64::MAX).is_allowed(), "the same bits");
//! assert!(limiter.check("ann").is_allowed());
//! assert!(!limiter.check(&"ann".to_owned()).is_allowed(), "the same text");
//!
//! let address = Ipv4Addr::new(192, 0, 2, 7);
//! assert!(limiter.check(&address).is_allowed());
//! assert!(limiter.check(&IpAddr::from(address)).is_allowed(), "another type");
//! assert!(limiter.check(&address.to_ipv6_mapped()).is_allowed(), "another type");
//! ```
//!
//! # Memory
//!
//! Memory is fixed when a limiter is built. [`BYTES_PER_KEY`] (24) bytes for each of
//! [`Builder::max_keys`] are allocated and touched at once: 24 MB for the default of a million. A
//! key whose state fits into one word takes no more: token and leaky buckets, fixed windows aligned
//! to the clock, and sliding windows of one segment, unless they allow very many: more than 15 810
//! a second, 122 473 a minute or 948 682 an hour. Other states take blocks of 64 bytes from an
//! arena while the key is remembered:
//!
//! | algorithm | bytes per key, in total |
//! |---|---|
//! | token bucket, leaky bucket, fixed window on the clock, sliding window of one segment | 24 |
//! | fixed window from the first request, sliding window of 2 to 11 segments | 88 |
//! | sliding window of 60 segments | 344 |
//! | sliding log | 88, and about 5 for each unit in the window |
//!
//! The arena is address space: 256 bytes for each of `max_keys` and 16 MB at least, more for a
//! limit that may need more, up to 4 GiB. It takes physical memory only as it is used, so the
//! process grows when states are large: sliding logs of many units on many keys may take hundreds
//! of megabytes. [`Builder::max_bytes`] sets the maximum; [`Stats::bytes_max`] reports that
//! maximum, not the memory in use.
//!
//! Idle keys cost nothing to evict. Live keys are evicted only when the memory is full, least
//! valuable first, and every such eviction is counted ([`Stats::evicted_keys`]).
//!
//! # Tests
//!
//! Give the limiter a manual clock, or construct decisions:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tollgate::{Decision, Limit, Limiter, ManualClock};
//!
//! let clock = Arc::new(ManualClock::default());
//! let limiter = Limiter::builder(Limit::per_second(1)).clock(Arc::clone(&clock)).build();
//! assert!(limiter.check("alice").is_allowed());
//! assert!(!limiter.check("alice").is_allowed());
//! clock.advance(Duration::from_secs(1));
//! assert!(limiter.check("alice").is_allowed());
//!
//! let denied = Decision::denied(Duration::from_secs(3));
//! assert_eq!(denied.retry_after_secs(), Some(3));
//! ```
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `async` | no | `until_ready` on tokio's timer, `TokioClock` for tests |
//! | `redis` | no | the module `redis`: limits that processes share through Redis |
//! | `rules` | no | `RuleLimiter`: limits from a YAML file, with reload |
//! | `serde` | no | [`Limit`] and [`Span`] as text |
//! | `tower` | no | `tower::RateLimitLayer`: middleware for axum, tonic and hyper; needs `async` |
//!
//! The minimum Rust version is 1.95; a patch release never raises it.
//!
//! # Trade-offs
//!
//! * The memory for keys is allocated when the limiter is built.
//! * All threads that check the same hot key contend for one word; counters are not sharded by CPU.
//! * A `check` does not queue behind callers that wait in `until_ready`, and may come before them.
//! * The keys cannot be listed.
//! * No `no_std`.

#![deny(missing_docs)]

mod limiter;

mod single;

mod joint;

mod limits;

mod queue;

#[cfg(feature = "redis")]
pub mod redis;

#[cfg(feature = "rules")]
mod rule_limiter;

#[cfg(feature = "async")]
mod tokio_clock;

#[cfg(feature = "tower")]
pub mod tower;

pub use joint::reservation::{JointReservation, NotReserved, reserve_all};
#[cfg(feature = "async")]
pub use joint::until_all_ready;
pub use joint::{
    Ask, JointDecision, JointDenial, JointError, JointGrant, check_all, until_all_ready_with,
};
pub use limiter::reservation::Reservation;
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
    Now, ParseLimitError, ParseSpanError, Segments, Settlement, Span, StoreError, Timeline,
    TooManyCharges, Wait,
};
#[cfg(feature = "rules")]
pub use tollgate_core::{
    Answer, Cost, DenialReason, Descriptor, Enforcement, Entry, Escaped, Limited, Override,
    PerDescriptor, Request, RequestDenial, RuleName, Status,
};
pub use tollgate_memory::{
    BYTES_PER_KEY, Builder as MemoryBuilder, ManualClock, Memory, Shortage, Stats, SystemClock,
};
#[cfg(feature = "rules")]
pub use tollgate_rules::{
    Changed, Changes, Diagnostic, Loaded, Options, ReadError, RuleSet, Severity, Source,
};

/// The examples of this crate's README, as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrateReadme;

/// The examples of the README, as doc tests.
#[cfg(doctest)]
#[allow(rustdoc::invalid_codeblock_attributes)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples of the page about Redis, as doc tests.
#[cfg(all(doctest, feature = "redis"))]
#[allow(rustdoc::invalid_codeblock_attributes)]
#[doc = include_str!("../../../docs/redis.md")]
struct OverRedis;

/// The examples of the page about reservations, as doc tests.
#[cfg(all(doctest, feature = "redis"))]
#[allow(rustdoc::invalid_codeblock_attributes)]
#[doc = include_str!("../../../docs/reservations.md")]
struct ReservationsPage;

/// The examples of the page about middleware, as doc tests.
#[cfg(all(doctest, feature = "redis", feature = "tower"))]
#[doc = include_str!("../../../docs/middleware.md")]
struct Middleware;

/// What a program cannot write, so that results may have more fields later.
///
/// ```compile_fail
/// let stats = tollgate::Limiter::new(tollgate::Limit::per_second(1)).stats();
/// let tollgate::Stats { live_keys: _, evicted_keys: _, arena_bytes: _, bytes_max: _ } = stats;
/// ```
#[cfg(doctest)]
struct Extensible;
