//! Limits over Redis: a decision takes time, and may come with a delay.

mod limits;

#[cfg(feature = "rules")]
mod rules;

use std::future::Future;
use std::iter;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};
use tollgate_core::{Cost, Key, Span, StoreError};
use tollgate_http::{ClientAddress, Problem};

use super::gate::{Decided, Outcome, time_of};
use super::keyed::{ClientLimits, KeyedLimits, RuleNames, answer};
use crate::redis::{KeyParts, Limiter, SharedKey};

/// How many requests that were dropped while they were held are refunded at a time. The units of
/// others stay charged until they decay.
const REFUNDS_MAX: usize = 1_024;

static REFUNDS: Semaphore = Semaphore::const_new(REFUNDS_MAX);

/// An allowed request that is held until its turn in a leaky bucket. If dropped before, its refund
/// becomes a task.
struct Held<R: Future<Output = ()> + Send + 'static> {
    refund: Option<R>,
    runtime: Handle,
}

// === impl Limiter ===

impl ClientLimits for Limiter {
    type Key = Key;

    fn names(&self) -> impl Iterator<Item = &str> {
        iter::once(self.name())
    }

    fn key_of_client(&self, addresses: &ClientAddress, address: Option<IpAddr>) -> Key {
        self.key_of_parts(&parts_of(addresses, address))
    }

    fn gate(self: &Arc<Self>, key: Key, rules: &RuleNames) -> Outcome {
        let (limiter, rules) = (Arc::clone(self), Arc::clone(rules));
        Outcome::Delayed(Box::pin(async move {
            let verdict = limiter.decide_key(key, Cost::ONE).await;
            let verdict = verdict.map_err(|error| problem(&error))?;
            let (at, delay) = (time_of(limiter.redis().clock()), verdict.delay());
            if verdict.is_allowed() && !delay.is_zero() {
                let (limiter, charged_by) = (Arc::clone(&limiter), verdict.decided_by);
                let refund = async move {
                    // If it fails, the unit stays charged until it decays.
                    let _refunded = limiter.refund_key(key, 1, charged_by).await;
                };
                hold(delay, refund).await;
            }
            let limit = [limiter.limit()];
            let answer = answer(&rules, limit, &verdict.decisions, verdict.denial);
            Ok(Decided::new(answer, at))
        }))
    }
}

impl<K: SharedKey + ?Sized> KeyedLimits<K> for Limiter {
    fn key(&self, key: &K) -> Key {
        self.key_of(key)
    }
}

/// The key of a client: its network as text. All clients without an address have one.
fn parts_of(addresses: &ClientAddress, address: Option<IpAddr>) -> KeyParts {
    match address {
        Some(address) => KeyParts::of(&addresses.prefix().key(address)),
        None => KeyParts::of(&()),
    }
}

/// The response to a request on which Redis has not decided. Clients must not learn its address.
fn problem(error: &StoreError) -> Problem {
    let error = error.without_address();
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!(
            "there is no decision on the request: the rate limit store is unavailable: {error}"
        ),
    )
}

/// Holds a request for so long. If this is dropped before, `refund` becomes a task.
async fn hold(delay: Span, refund: impl Future<Output = ()> + Send + 'static) {
    let due = Instant::now() + Duration::from(delay);
    let mut held = Held {
        refund: Some(refund),
        runtime: Handle::current(),
    };
    sleep_until(due).await;
    held.refund = None;
}

// === impl Held ===

impl<R: Future<Output = ()> + Send + 'static> Drop for Held<R> {
    fn drop(&mut self) {
        if let (Some(refund), Ok(permit)) = (self.refund.take(), REFUNDS.try_acquire()) {
            self.runtime.spawn(async move {
                refund.await;
                drop(permit);
            });
        }
    }
}
