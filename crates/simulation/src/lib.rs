//! Several Tollgate instances over a simulated network and a simulated Redis, all time and chance
//! from one seed.
//!
//! What is simulated is the world: the network, the servers, and the clocks. What runs in it is
//! real: the `redis` crate with its connections, batches, leases and own counts, its fallback, the
//! store in memory, and the scripts, in the Lua that Redis has. Each run draws a deployment, some
//! limits, some hundred requests and some faults, and keeps an account of every unit
//! ([`run`], `account`). A seed that breaks a promise is printed with its history, and replays
//! exactly.
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

mod plan;

mod account;

mod world;

mod run;

mod subject;

pub use run::{Report, run};
pub use subject::{Bare, Simulated};
