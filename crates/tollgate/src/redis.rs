//! Limits over Redis, Redis Cluster or Valkey: any number of processes, one budget (feature
//! `redis`).
//!
//! ```no_run
//! use tollgate::Limit;
//! use tollgate::redis::Redis;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let redis = Redis::open("redis://localhost:6379")?;
//! let limiter = redis.limiter("api", Limit::per_second(10).burst(20))?;
//! if limiter.check("alice").await.is_allowed() {
//!     // serve
//! }
//! redis.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # From memory to Redis
//!
//! | in memory | over Redis |
//! |---|---|
//! | `Limiter::new(limit)` | [`Redis::limiter`]`("name", limit)?` |
//! | `limiter.check("alice")` | `limiter.check("alice").await` |
//! | `limiter.reserve("alice", 400)?` | `limiter.reserve("alice", 400).await?` |
//! | `reservation.settle(120)` | `reservation.settle(120).await` |
//! | [`check_all`](crate::check_all)`(&asks)?` | [`redis::check_all`](check_all)`(&asks).await?` |
//! | `Limits::builder().limit(..).build()` | [`Redis::limits`]`("name").limit(..).build()?` |
//! | `RuleLimiter::from_yaml(text)?` | `redis::RuleLimiter::from_yaml(&redis, text)?` |
//!
//! Methods have the same names, and decisions the same types ([`Decision`](crate::Decision),
//! [`JointDecision`](crate::JointDecision), [`Ask`](crate::Ask)). The limiters are types of their
//! own, because their methods are asynchronous: one type for both would make a decision in memory,
//! which takes nanoseconds and needs no runtime, a future as well.
//!
//! These exist in memory only: `until_ready` and other ways to wait, reservations of several limits
//! and of rules, `check_batch`, `check_each`, `single` (use the key `&()`), and a clock of your
//! choice: Redis's clock decides.
//!
//! # Keys
//!
//! A key is a [`SharedKey`], whose bytes are the same in every process: text, bytes, whole numbers,
//! addresses, or a tuple of them. `Hash`, which limiters in memory use, may differ from one build
//! of a program to the next.
//!
//! A counter's key in Redis is `PREFIX{TAG}REST`: [`Config::prefix`] (`tg:`), and letters from a
//! hash (BLAKE3) of the limiter's name and the key, so no value of a client appears in Redis. In a
//! Cluster, the tag chooses the slot. It depends on the key alone, so all limits on one key are in
//! one slot, and one script call decides on them.
//!
//! # Names and limits
//!
//! Limiters with the same name, in all processes with the same Redis and prefix, count together.
//! Give each limit of a program its own name. Two limiters in one process with the same name are
//! one limiter that is built twice.
//!
//! The limit is not part of the key. When it changes, with the next version of the program or by
//! [`Limiter::set_limit`], consumed units stay consumed, up to the new capacity; if the window or
//! the algorithm changes, they count as consumed now. To start over, change the name.
//!
//! While processes have different limits under one name, each evaluates what all have counted by
//! its own limit. If these limits differ in numbers alone (units, burst, queue), no more is allowed
//! than the largest of them allows; with different windows or algorithms, at most the sum of both.
//!
//! # Modes
//!
//! | [`Mode`] | how a decision is made | over-admission |
//! |---|---|---|
//! | [`Mode::Strict`] (default) | one round trip, shared by concurrent decisions | never |
//! | [`Mode::Leased`] | on units that this process has leased, if the key is busy | never |
//! | [`Mode::WriteBack`] | on local counts, reported every [`Config::sync_interval`] | bounded |
//!
//! Set the mode with [`Builder::mode`] for all limiters or with [`Limiter::mode`] for one. The page
//! `docs/redis.md` of the repository has the details, among them what over-admission is at most.
//!
//! # Without Redis
//!
//! A decision takes at most [`Config::timeout`], 15 ms by default. If Redis has not answered by
//! then, [`OnStoreError`] says what happens; set it with [`Builder::on_store_error`] or
//! [`Limiter::on_store_error`]:
//!
//! | [`OnStoreError`] | decision |
//! |---|---|
//! | [`OnStoreError::Local`] (default) | this process decides on its share of the limit |
//! | [`OnStoreError::Allow`] | allowed, and nothing is charged |
//! | [`OnStoreError::Deny`] | denied for a second |
//! | [`OnStoreError::Error`] | an error of [`Limiter::try_check`]; [`Limiter::check`] denies |
//!
//! A share is the limit divided by the number of processes, rounded down, and at least one unit.
//! All processes with the same Redis and prefix count each other while they reach Redis, services
//! of Tollgate as well, or [`Builder::instances`] sets their number. Give programs that share no
//! limit prefixes of their own.
//! Shares are counted in memory that is allocated when Redis is opened ([`Builder::local_keys`]).
//!
//! A program starts without Redis. Its connections are opened in the background, and again when
//! they break; [`Redis::until_up`] waits for the first.
//!
//! # Runtimes
//!
//! Open a Redis, and await what its limiters decide, in a Tokio runtime with its timer and its I/O
//! enabled: elsewhere, opening is an error, and a decision may panic. The connections belong to the
//! runtime in which the Redis was opened. When that ends, limiters that are used in another one
//! decide as they do without Redis.
//!
//! # Dropped futures
//!
//! A decision whose future is dropped, for instance because a client has gone, is charged to all of
//! its limits or to none, and leaves no reservation behind. If it is that of [`Limiter::reserve`],
//! the units are refunded. If it is that of [`Reservation::settle`], a task in the background
//! settles.
//!
//! # Limits that Redis cannot keep
//!
//! Redis counts time in microseconds. These are errors when the limiter is built
//! ([`InvalidForRedis`]): a bucket that refills more than a million units per second, or that would
//! lose more than 1 % by rounding; a window that is not a whole number of microseconds; a sliding
//! log of more than a million units.

mod background;

mod charged_share;

mod key;

mod store;

mod limiter;

mod joint;

mod limits;

mod reservation;

#[cfg(feature = "rules")]
mod rule_limiter;

pub use background::REFUNDS_MAX;
pub use joint::check_all;
pub use key::{KeyParts, SharedKey};
pub use limiter::Limiter;
pub use limits::{Limits, LimitsBuilder, LimitsError};
pub use reservation::{Reservation, SettleError};
#[cfg(feature = "rules")]
pub use rule_limiter::RuleLimiter;
pub use store::{Builder, LOCAL_KEYS, OpenError, RESERVATION_LASTS, Redis};
pub use tollgate_core::{Mode, OnStoreError};
pub use tollgate_fallback::FallbackCounts;
pub use tollgate_redis::{
    Config, Identity, InvalidConfig, InvalidForRedis, InvalidUrl, Secret, Servers, Tls,
};
