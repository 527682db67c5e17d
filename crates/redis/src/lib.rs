//! Tollgate's shared store: Redis, Redis Cluster and Valkey.
//!
//! Any number of processes, one budget. Every decision is one atomic script inside Redis, by
//! Redis's own clock, and the answer is the one that `tollgate-core` gives: the script says what
//! it remembered, and core's own functions make the verdict of it.
//!
//! * [`Mode::Strict`](tollgate_core::Mode::Strict): Redis is asked for each decision. Those that
//!   arrive together share script calls and round trips; a key that was denied is denied here
//!   until its wait is over.
//! * [`Mode::Leased`](tollgate_core::Mode::Leased): a node takes units of warm keys ahead, and
//!   spends them without asking.
//! * [`Mode::WriteBack`](tollgate_core::Mode::WriteBack): a node decides on its own count, and
//!   reports what it allowed every [`Config::sync_interval`].
//! * A request over several slots of a Cluster is all or nothing as well: every slot reserves,
//!   then every slot confirms.
//! * Without Redis, the engine's fallback does what the operator chose, within the time of a
//!   decision ([`tollgate_core::SharedStore`]).
//!
//! # Trade-offs
//!
//! * Redis tells the time in microseconds. Intervals of buckets are rounded up to whole
//!   microseconds; limits that would lose more than 1 % by that are denied ([`check`]).
//! * Lua counts in doubles. All numbers in the scripts are whole and below 2^53: moments until the
//!   year 2255, buckets of up to 100 years, windows of up to 366 days.
//! * A changed bucket keeps the part of a unit that it has, where the store in memory rounds it up
//!   to a whole unit if the window has changed as well.
//! * While units are leased, a denial's wait may be longer than it turns out to be, and what a
//!   node that dies has leased and not spent is charged.
//! * A refund through one node is not seen by another that remembers a denial.
//! * Nodes that decide on their own count ([`Mode::WriteBack`](tollgate_core::Mode::WriteBack))
//!   may allow too much together: per window, or of a bucket at once, at most (nodes - 1) x min(N,
//!   units that one node is asked for within [`Config::sync_interval`] and [`Config::timeout`]).
//!   All of it is paid back: a bucket owes it, a fixed window's surplus is the first that the next
//!   one has consumed, a sliding window allows nothing until what leaves makes room. A report
//!   whose connection breaks before it is answered is not repeated; if Redis never had it, one
//!   node's units of one interval are not charged. One node alone is as exact as Redis. A node that
//!   is not closed loses what it has not yet reported. Of more keys than can be reported in half
//!   an interval, those that are asked seldom are decided by Redis, as in `strict`.
//! * They count token buckets, fixed and sliding windows, of [`WRITE_BACK_KEYS_MAX`] keys (about
//!   450 bytes each; a sliding window 250 more). Refunds, requests that also meet limits of
//!   another mode, and other keys are asked of Redis, after a report.
//! * A failover may lose what was allowed and not yet replicated.
//!
//! # What Redis is asked
//!
//! `AUTH`, `HELLO`, `SCRIPT LOAD`, `EVALSHA` and `PING`; of a Cluster `CLUSTER SLOTS` and `ASKING`;
//! of a sentinel `SENTINEL GET-MASTER-ADDR-BY-NAME`, `SENTINEL MASTER` and `SUBSCRIBE`. In the
//! scripts `TIME`, `GET`, `MGET`, `SET`, `DEL`, `APPEND`, `GETRANGE`, `SETRANGE`, `STRLEN` and
//! `PEXPIREAT`. Nodes are counted ([`Redis::nodes`]) with `EVAL`, and `TIME`, `ZADD`, `ZREM`,
//! `ZREMRANGEBYSCORE`, `ZCARD` and `PEXPIRE`, in the key `PREFIX{nodes}`. Who looks
//! ([`tollgate_core::InspectStore`]) needs `EVAL`, `PTTL` and `DEL` as well.

mod config;

mod fit;

mod keys;

mod script_request;

mod marked_window;

mod snapshot;

mod script_reply;

mod script;

mod resp;

mod failure;

mod connection;

mod request_queue;

mod connection_task;

mod sentinel;

mod session;

mod sharded;

mod cluster;

mod random;

mod names;

mod join;

mod cross_slot;

mod denial_cache;

mod denials;

mod key_map;

mod environment;

mod monotonic;

mod leases;

mod leased;

mod watched;

mod window;

mod write_back;

mod membership;

mod stats;

mod router;

mod stage;

mod strict;

mod settlement;

mod store;

mod shared_store;

mod trouble;

mod inspect;

#[doc(hidden)]
pub mod fuzzed;

#[doc(hidden)]
pub mod simulated;

#[cfg(test)]
mod behaviour;

pub use config::{
    BATCH, BATCH_MAX, CONNECTIONS, CONNECTIONS_MAX, Config, Identity, InvalidConfig, InvalidUrl,
    PREFIX, SYNC_INTERVAL, SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN, Secret, Servers, TIMEOUT, Tls,
    UNIX, is_address,
};
pub use denials::DENIAL_CACHE_MAX;
pub use failure::ERROR_CODES;
pub use fit::{GRAIN, InvalidForRedis, LOG_UNITS_MAX, check};
pub use leases::{
    CAPACITY_MIN as LEASE_CAPACITY_MIN, KEYS_MAX as LEASE_KEYS_MAX, LASTS as LEASE_LASTS,
};
pub use membership::HEARTBEAT;
pub use stats::{BATCH_SIZES, CALL_MICROS, Counts, Histogram};
pub use store::Redis;
pub use trouble::ErrorCount;
pub use write_back::KEYS_MAX as WRITE_BACK_KEYS_MAX;
