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
struct Held<R, F>
where
    R: FnOnce(Span) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    refund: Option<R>,
    began: Instant,
    delay: Duration,
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
            let revision = limiter.revision();
            let verdict = limiter.decide_key(key, Cost::ONE).await;
            let verdict = verdict.map_err(|error| problem(&error))?;
            let (at, delay) = (time_of(limiter.redis().clock()), verdict.delay());
            if verdict.is_allowed() && !delay.is_zero() {
                let (limiter, charged_by) = (Arc::clone(&limiter), verdict.decided_by);
                hold(delay, async move |_held| {
                    // After a change of the limit, the unit may count no more. If the refund fails,
                    // it stays charged until it decays.
                    if limiter.revision() == revision {
                        let _refunded = limiter.refund_key(key, 1, charged_by).await;
                    }
                })
                .await;
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

/// Holds a request for so long. If this is dropped before, `refund` becomes a task, and gets the
/// time for which the request was held.
async fn hold<R, F>(delay: Span, refund: R)
where
    R: FnOnce(Span) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let (began, delay) = (Instant::now(), Duration::from(delay));
    let mut held = Held {
        refund: Some(refund),
        began,
        delay,
        runtime: Handle::current(),
    };
    sleep_until(began + delay).await;
    held.refund = None;
}

// === impl Held ===

impl<R, F> Drop for Held<R, F>
where
    R: FnOnce(Span) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    fn drop(&mut self) {
        let (began, delay) = (self.began, self.delay);
        if let (Some(refund), Ok(permit)) = (self.refund.take(), REFUNDS.try_acquire()) {
            self.runtime.spawn(async move {
                let held = began.elapsed();
                // From its turn on, its units leave the bucket: a refund would be of others.
                if held < delay {
                    refund(held.into()).await;
                }
                drop(permit);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Waker};

    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;

    /// Drops a request after so many of the ten seconds of its delay, and returns the seconds that
    /// were passed to its refund; 0 if nothing was refunded.
    async fn passed_after(seconds: u64) -> u64 {
        let passed = Arc::new(AtomicU64::new(0));
        let refund = {
            let passed = Arc::clone(&passed);
            async move |held: Span| passed.store(held.as_nanos(), Ordering::Relaxed)
        };
        {
            let mut held = pin!(hold(Span::from_secs(10), refund));
            let mut context = Context::from_waker(Waker::noop());
            assert!(held.as_mut().poll(&mut context).is_pending());
            // Its task is not polled meanwhile: its thread is busy.
            advance(Duration::from_secs(seconds)).await;
        }
        yield_now().await;
        passed.load(Ordering::Relaxed) / 1_000_000_000
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_turn_has_come_is_not_refunded() {
        assert_eq!(passed_after(1).await, 1);
        assert_eq!(passed_after(9).await, 9);
        assert_eq!(passed_after(10).await, 0);
        assert_eq!(passed_after(12).await, 0);
    }
}
