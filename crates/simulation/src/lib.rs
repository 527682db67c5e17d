//! Several Tollgate instances over a simulated network and a simulated Redis; all time and
//! randomness come from one seed.
//!
//! The network, the servers and the clocks are simulated. The code that runs in this world is real:
//! the engine with its rules and reloads, the `redis` crate with its connections, batches, leases
//! and local counts, the fallback, the store in memory, and the scripts, in the version of Lua that
//! Redis has. Each run draws a deployment, a rules file in some versions, some hundred requests,
//! reloads and faults, and keeps an account of every unit ([`run`], `account`). A seed that breaks
//! a promise is printed with its history, and replays exactly.
//!
//! The same world predicts what several instances do to given traffic ([`Fleet`]):
//! `tollgate simulate --instances`. `cargo xtask simulate` compares that with real instances, and
//! `cargo xtask simulate-faults` runs seeds; both are examples of this crate.

mod random;

mod resp;

mod keyspace;

mod slots;

mod locality;

mod redis_memory;

mod script;

mod server;

mod deployment;

mod network;

mod shared_redis;

mod instance;

mod until_cancelled;

mod outcome;

mod fault_kind;

mod plan;

mod rules_file;

mod account;

mod world;

mod run;

mod subject;

mod fleet;

pub use fault_kind::{FaultCount, FaultCounts, FaultKind};
pub use fleet::{
    Fleet, INCIDENTS_MAX, INSTANCE_EVENTS_MAX, INSTANCES_MAX, Incident, Load, Played, RealRedis,
    SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN, TIMEOUT_MAX, TIMEOUT_MIN,
};
pub use plan::Draws;
pub use redis_memory::RedisMemory;
pub use run::{Changes, Report, fingerprint, run, run_with};
pub use subject::{Bare, Simulated};
