//! A check that holds an allowed request until its turn, for middleware.

use std::future::Future;
use std::time::Duration;

use tollgate_core::{Clock, Cost, Decision, Denial, Key, Span, StoreError, Wait};

use crate::limiter::Limiter;
use crate::queue::Attempt;

impl<C: Clock> Limiter<C> {
    /// Decides on one unit at once, and holds an allowed request until its turn in a leaky bucket.
    /// If as many requests are held as may wait, it is denied, and nothing remains for the key.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_check`]; the failure is counted.
    pub(crate) async fn check_in_turn<S: Future>(
        &self,
        key: Key,
        sleep: impl Fn(Duration) -> S,
    ) -> Result<Decision, StoreError> {
        let attempt = || {
            let terms = self.terms.load();
            let now = self.store.clock().now();
            let decision = match self.try_decide(key, Cost::ONE, Some(now)) {
                Ok(decision) => decision,
                Err(error) => {
                    self.count_failure();
                    return (Err(error), None);
                }
            };
            match self.outcome_of(Ok(decision), 1, &terms, now) {
                Attempt::Held(_, turn) => (Ok(decision), Some(turn)),
                _ => (Ok(decision), None),
            }
        };
        let give_back = |turn| self.give_back(key, turn);
        match self.queues.enter_now(key, attempt, give_back) {
            Ok((decision, place)) => {
                if let Some(place) = place {
                    self.hold(key, place, &sleep).await;
                }
                decision
            }
            Err(_max) => {
                let (limit, newest) = (self.limit(), self.decide(key, Cost::Peek(1)));
                let wait = Wait::For(limit.interval().unwrap_or(Span::SECOND));
                // Whatever the bucket has left, no request would be allowed now.
                Ok(Decision::Deny(Denial::new(wait, 0, newest.reset())))
            }
        }
    }
}
