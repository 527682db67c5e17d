//! What all connections of the listener `redis` share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_engine::Engine;
use tollgate_listen::Throttle;
use tollgate_telemetry::{RequestSpan, Tracing, Value, attribute};

use super::passwords::Passwords;
use super::throttles::ThrottleStore;
use crate::config::ListenerKind;
use crate::metrics::{ListenerName, Metrics};

/// The name of this listener in the settings and in metrics.
pub(super) const NAME: ListenerName = ListenerKind::Redis.name();

/// What all of its connections share.
pub(super) struct Service {
    pub(super) engine: Arc<Engine>,
    pub(super) throttles: Arc<ThrottleStore>,
    pub(super) passwords: Passwords,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tracing: Tracing,
    /// HTTP clients may refund units, and so may these.
    pub(super) allow_refund: bool,
    /// How long a command may take to arrive once it has begun.
    pub(super) command_timeout: Duration,
    pub(super) wrong_passwords: Throttle,
    /// The number of the next connection, for `CLIENT ID`.
    pub(super) next_id: AtomicU64,
}

// === impl Service ===

impl Service {
    pub(super) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins the span of commands that are decided together.
    #[inline]
    pub(super) fn begin_span(&self, name: &'static str) -> RequestSpan {
        let mut span = self.tracing.begin_batch(name, None);
        span.set(attribute::LISTENER, || Value::Text(NAME.into()));
        span
    }

    pub(super) fn count_error(&self, kind: &'static str) {
        self.metrics.count_error(NAME, kind);
    }

    /// Counts requests that were decided together and took this long, and those that the store did
    /// not answer.
    pub(super) fn count_decisions(
        &self,
        (answered, failed): (usize, usize),
        took: Duration,
        span: &RequestSpan,
    ) {
        for _decision in 0..answered {
            self.metrics.record_decision(NAME, took, span);
        }
        for _error in 0..failed {
            self.count_error("store");
        }
    }
}
