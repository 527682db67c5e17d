//! Tollgate's shared store: Redis, Redis Cluster and Valkey.
//!
//! Any number of processes, one budget. Every decision is one atomic script inside Redis, by
//! Redis's own clock, and the answer is the one that `tollgate-core` gives: the script says what it
//! remembered, and core's own functions make the verdict of it.
//!
//! # Trade-offs
//!
//! * Redis tells the time in microseconds. Intervals of buckets are rounded up to whole
//!   microseconds; limits that would lose more than 1 % by that are refused ([`check`]).
//! * Lua counts in doubles. All numbers in the scripts are whole and below 2^53: moments until
//!   the year 2255, buckets of up to 100 years, windows of up to 366 days.
//! * A changed bucket keeps the part of a unit that it has, where the store in memory rounds it up
//!   to a whole unit if the window has changed as well.
//! * A failover may lose what was admitted and not yet replicated.

mod config;

mod fit;

mod keys;

mod question;

mod seen;

mod told;

mod script;

mod resp;

mod failure;

mod connection;

mod lane;

mod driver;

mod session;

mod cluster;

mod apart;

mod refusals;

mod leases;

mod leased;

mod fallback;

mod stats;

mod reach;

mod store;

#[cfg(test)]
mod behaviour;

pub use config::{
    BATCH, BATCH_MAX, CONNECTIONS_MAX, Config, InvalidConfig, Mode, PREFIX, Secret, Servers,
    TIMEOUT, Tls,
};
pub use fallback::{DENIED_FOR, Fallback, OnStoreError};
pub use fit::{GRAIN, InvalidForRedis, LOG_UNITS_MAX, check};
pub use leased::is_leasable;
pub use stats::Counts;
pub use store::Redis;
