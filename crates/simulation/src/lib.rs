//! Several Tollgate instances over a simulated network and a simulated Redis; all time and
//! randomness come from one seed.
//!
//! The network, the servers and the clocks are simulated. The code that runs in this world is real:
//! the `redis` crate with its connections, batches, leases and local counts, the fallback, the
//! store in memory, and the scripts, in the version of Lua that Redis has. Each run draws a
//! deployment, some limits, some hundred requests and some faults, and keeps an account of every
//! unit ([`run`],
//! `account`). A seed that breaks a promise is printed with its history, and replays exactly.
//!
//! For tests only: `cargo xtask simulate-faults`.

mod resp;

mod keyspace;

mod script;

mod slots;

mod server;

mod deployment;

mod network;

mod instance;

mod outcome;

mod plan;

mod account;

mod world;

mod run;

mod subject;

pub use run::{Report, run};
pub use subject::{Bare, Simulated};
