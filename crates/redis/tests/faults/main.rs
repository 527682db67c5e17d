//! What callers see while Redis, its network, its Cluster or its clock fail under load.
//!
//! Every decision is recorded. `cargo test -p tollgate-redis --test faults -- --nocapture
//! --test-threads 1` prints the rows of `docs/fault-tests.md`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod alone;

mod clock;

mod cluster;

mod record;

mod traffic;

use tollgate_core::{Limit, Span};
use tollgate_redis::Config;

/// A budget that no test empties.
fn wide() -> Limit {
    Limit::token_bucket(1_000_000, Span::MINUTE).unwrap()
}

/// A budget that never comes back within a test.
fn narrow() -> Limit {
    Limit::fixed_window(300, Span::DAY).unwrap()
}

/// For what is counted, not for how long it takes.
fn patient(config: Config) -> Config {
    Config {
        timeout: Span::from_secs(10),
        ..config
    }
}
