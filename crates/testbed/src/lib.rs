//! Real servers for tests, and a network between them with injected faults.
//!
//! Every server listens on a free port of 127.0.0.1, keeps its files in a folder of its own, and
//! ends when its value is dropped: also when a test panics, and when the test's process is killed.
//!
//! For tests and benchmarks only: it panics where a server is not available, and says what to
//! install.

mod port;
mod process;

mod clock;

mod folder;

mod redis;

mod cluster;

mod sentinel;

mod tls;

mod proxy;

pub mod tool;

#[cfg(feature = "collector")]
pub mod collector;

#[cfg(feature = "journal")]
mod journal;

pub use clock::window_hours;
pub use cluster::{Cluster, MASTERS, NODES};
pub use folder::Folder;
#[cfg(feature = "journal")]
pub use journal::Journal;
pub use port::free_port;
pub use process::Process;
pub use proxy::{Faults, Proxy};
pub use redis::{Program, Redis, Setup};
pub use sentinel::Sentinels;
pub use tls::{Certificates, PASSWORD, USER};
