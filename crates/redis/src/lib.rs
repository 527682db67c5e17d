//! Tollgate's shared store: Redis, Redis Cluster and Valkey.
//!
//! Any number of instances share one budget. Every decision is one atomic script in Redis, by
//! Redis's own clock, and equals the decision of `tollgate-core`: the script returns the state it
//! found, and core's own functions derive the verdict from it.
//!
//! * [`Mode::Strict`](tollgate_core::Mode::Strict): Redis makes every decision. Decisions that
//!   arrive together share script calls and round trips. A denied key is denied locally until its
//!   retry time.
//! * [`Mode::Leased`](tollgate_core::Mode::Leased): an instance leases units of busy keys in
//!   advance, and spends them without a round trip.
//! * [`Mode::WriteBack`](tollgate_core::Mode::WriteBack): an instance decides on local counts, and
//!   reports what it allowed every [`Config::sync_interval`].
//! * A request over several slots of a Cluster is all or nothing too: in one call if one node
//!   serves all of them, otherwise by two-phase commit. Every slot reserves, then every slot
//!   confirms.
//! * While Redis is unavailable, the engine applies the configured fallback, within the timeout of
//!   the decision ([`tollgate_core::SharedStore`]).
//!
//! # Trade-offs
//!
//! * Redis's clock has a resolution of one microsecond. Intervals of buckets are rounded up to
//!   whole microseconds; limits that would lose more than 1 % by that are rejected ([`check`]).
//! * Lua's numbers are doubles. All numbers in the scripts are integers below 2^53: times until the
//!   year 2255, buckets of up to 100 years, windows of up to 366 days.
//! * A bucket whose limit changes keeps its fraction of a unit, where the store in memory rounds it
//!   up to a whole unit if the window has changed as well.
//! * While units are leased, a denial's retry time may be later than necessary. If an instance
//!   crashes, the unspent units of its leases stay charged.
//! * A refund through one instance does not clear the denial cache of another.
//! * Instances that decide on local counts ([`Mode::WriteBack`](tollgate_core::Mode::WriteBack))
//!   may over-admit together: per window, or per burst of a bucket, at most (instances - 1) x
//!   min(N, units requested from one instance within [`Config::sync_interval`] and
//!   [`Config::timeout`]). All of it is paid back: a bucket goes into debt, a fixed window carries
//!   the excess into the next window, a sliding window allows nothing until enough has left it. A
//!   report whose connection breaks before the reply is not repeated; if Redis never received it,
//!   one interval's units of one instance are not charged. A single instance is as exact as Redis.
//!   An instance that stops without [`Redis::close`] loses what it has not yet reported. If there
//!   are more keys than can be reported in half an interval, Redis decides the least used ones, as
//!   in `strict`.
//! * Local counts cover token buckets, fixed and sliding windows, of [`WRITE_BACK_KEYS_MAX`] keys
//!   (about 450 bytes each; 250 more for a sliding window). Refunds, requests that also have limits
//!   in another mode, and all other keys go to Redis, after a report.
//! * A failover may lose decisions that were not yet replicated.
//!
//! # Redis commands
//!
//! `AUTH`, `HELLO`, `SCRIPT LOAD` and `EVALSHA`; for a Cluster `CLUSTER SLOTS`, `ASKING`
//! and `EVAL`; for a sentinel `SENTINEL GET-MASTER-ADDR-BY-NAME`, `SENTINEL MASTER` and
//! `SUBSCRIBE`. In the scripts `TIME`, `GET`, `MGET`, `SET`, `DEL`, `GETRANGE`, `SETRANGE`,
//! `STRLEN` and `PEXPIREAT`. Membership ([`Redis::instances`]) uses `EVAL`, and `TIME`, `ZADD`,
//! `ZREM`, `ZREMRANGEBYSCORE`, `ZCARD` and `PEXPIRE`, on the key `PREFIX{nodes}`. Inspection
//! ([`tollgate_core::InspectStore`]) needs `EVAL`, `PTTL` and `DEL` as well, and settling a
//! reservation `GETEX`.

mod completion;

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

mod caches;

mod cluster;

mod random;

mod names;

mod join;

mod cross_slot;

mod denial_cache;

mod denials;

mod generations;

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

mod single;

mod stage;

mod strict;

mod settlement;

mod store;

mod shared_store;

mod trouble;

mod turn;

mod inspect;

#[doc(hidden)]
pub mod fuzzed;

#[doc(hidden)]
pub mod simulated;

#[cfg(test)]
mod behaviour;

pub use completion::complete;
pub use config::{
    BATCH, BATCH_MAX, CONNECTIONS, CONNECTIONS_MAX, Config, Identity, InvalidConfig, InvalidUrl,
    PREFIX, SYNC_INTERVAL, SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN, Secret, Servers, TIMEOUT,
    TIMEOUT_MAX, TIMEOUT_MIN, Tls, UNIX, is_address,
};
pub use denials::DENIAL_CACHE_MAX;
pub use failure::ERROR_CODES;
pub use fit::{GRAIN, InvalidForRedis, LOG_UNITS_MAX, check};
pub use leases::{
    CAPACITY_MIN as LEASE_CAPACITY_MIN, KEYS_MAX as LEASE_KEYS_MAX, LASTS as LEASE_LASTS,
};
pub use membership::HEARTBEAT;
pub use random::random_word;
pub use stats::{BATCH_SIZES, CALL_MICROS, Counts, Histogram};
pub use store::Redis;
pub use trouble::ErrorCount;
pub use write_back::KEYS_MAX as WRITE_BACK_KEYS_MAX;
