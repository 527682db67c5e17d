//! What callers observe while Redis, its network, its Cluster or its clock fails under load.
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
use tollgate_redis::{Config, Tls};
use tollgate_testbed as testbed;

/// A limit that no test exhausts.
fn wide() -> Limit {
    Limit::token_bucket(1_000_000, Span::MINUTE).unwrap()
}

/// A limit whose units are not refilled within a test.
fn narrow() -> Limit {
    Limit::fixed_window(300, Span::HOUR.times(testbed::window_hours())).unwrap()
}

/// A long timeout, for tests of counts, not of times.
fn patient(config: Config) -> Config {
    Config {
        timeout: Span::from_secs(10),
        ..config
    }
}

/// The same over TLS, with servers whose certificates are of this authority, if there is one.
fn over(config: Config, certificates: Option<&testbed::Certificates>) -> Config {
    let tls = certificates.map(|certificates| Tls {
        authorities: Some(certificates.authority().into()),
        ..Tls::default()
    });
    Config { tls, ..config }
}

/// What is printed about a fault, with or without TLS.
fn named(fault: &str, certificates: Option<&testbed::Certificates>) -> String {
    match certificates {
        None => fault.to_owned(),
        Some(_) => format!("{fault}, over TLS"),
    }
}
