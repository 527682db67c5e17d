//! Limiters over real Redis servers.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used)]

mod access;

mod cancelled;

mod exact;

mod limit;

mod reservation;

#[cfg(feature = "rules")]
mod rules;

mod without_redis;

use std::time::Duration;

use tollgate::Span;
use tollgate::redis::{Config, Redis};

/// Longer than anything takes here.
const PATIENT: Duration = Duration::from_secs(60);

/// An instance that waits for Redis for long, and that is connected.
async fn connect(config: Config) -> Redis {
    let config = Config {
        timeout: Span::from_secs(20),
        ..config
    };
    let redis = Redis::builder(config).local_keys(1_000).open().unwrap();
    assert!(redis.until_up(PATIENT).await, "{:?}", redis.trouble());
    redis
}

/// Polls until `holds` returns true.
async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let latest = tokio::time::Instant::now() + PATIENT;
    while !holds().await {
        assert!(tokio::time::Instant::now() < latest, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
