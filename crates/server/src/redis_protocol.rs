//! The Redis protocol: `CL.THROTTLE` of redis-cell, `TG.CHECK` and its like for the rules, and what
//! clients ask when they connect.
//!
//! What has arrived of a pipeline is decided in batches, in order, and its replies leave in one
//! write. Nothing is read while replies wait for the client, so a client that does not read uses
//! bounded memory.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ring::error::Unspecified;
use tollgate_engine::Engine;
use tollgate_listen::{Connection, ConnectionCounts, Stream, StreamHandler, Throttle};

use tollgate_telemetry::Tracing;

use crate::config::Config;
use crate::metrics::Metrics;

mod ask;
mod command_table;
mod conversation;
mod description;
pub(crate) mod fuzzed;
mod greeting;
mod input;
mod passwords;
mod service;
mod session;
mod throttles;
mod transaction;
mod word;

use passwords::Passwords;
use service::{NAME, Service};
pub(crate) use throttles::ThrottleStore;

/// Serves the connections of the listener `redis`.
#[derive(Clone)]
pub(crate) struct RedisHandler(Arc<Service>);

// === impl RedisHandler ===

impl RedisHandler {
    /// What serves the listener `redis`, if there is a store for it.
    ///
    /// # Errors
    ///
    /// The system has no random numbers, which comparing passwords needs.
    pub(crate) fn open(
        config: &Config,
        engine: &Arc<Engine>,
        throttles: Option<Arc<ThrottleStore>>,
        metrics: &Arc<Metrics>,
        tracing: &Tracing,
    ) -> Result<Option<RedisHandler>, Unspecified> {
        let Some(throttles) = throttles else {
            return Ok(None);
        };
        let service = Service {
            engine: Arc::clone(engine),
            throttles,
            passwords: Passwords::new(&config.redis_protocol)?,
            metrics: Arc::clone(metrics),
            tracing: tracing.clone(),
            allow_refund: config.allow_refund,
            command_timeout: config.limits.header_timeout,
            wrong_passwords: Throttle::default(),
            next_id: AtomicU64::new(1),
        };
        Ok(Some(RedisHandler(Arc::new(service))))
    }
}

impl StreamHandler for RedisHandler {
    async fn run(&self, stream: &mut impl Stream, connection: &Arc<Connection>) {
        conversation::converse(&self.0, stream, connection).await;
    }
}

impl ConnectionCounts for RedisHandler {
    fn count_open(&self) {
        self.0.metrics.connections(NAME).inc();
    }

    fn count_end(&self) {
        self.0.metrics.connections(NAME).dec();
    }

    fn count_close(&self, reason: &'static str) {
        self.0.metrics.count_close(NAME, reason);
    }

    fn count_reset(&self) {
        self.0.metrics.count_reset(NAME);
    }

    fn count_error(&self, kind: &'static str) {
        self.0.metrics.count_error(NAME, kind);
    }
}
