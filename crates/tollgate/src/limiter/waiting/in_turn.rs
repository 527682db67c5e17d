//! A check that holds an allowed request until its turn, for middleware.

use std::future::Future;
use std::time::Duration;

use tollgate_core::{Clock, Cost, Decision, Denial, Key, Span, Wait};

use crate::limiter::Limiter;
use crate::queue::Attempt;

impl<C: Clock> Limiter<C> {
    /// Decides on one unit at once, and holds an allowed request until its turn in a leaky bucket.
    /// If as many requests are held as may wait, it is denied, and nothing remains for the key.
    pub(crate) async fn check_in_turn<S: Future>(
        &self,
        key: Key,
        sleep: impl Fn(Duration) -> S,
    ) -> Decision {
        let attempt = || {
            let now = self.store.clock().now();
            let decision = self.try_decide(key, Cost::ONE, Some(now));
            let decision = self.or_recover(decision, key, Cost::ONE);
            match self.outcome_of(Ok(decision), 1, &self.limit(), now) {
                Attempt::Held(_, turn) => (decision, Some(turn)),
                _ => (decision, None),
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
                Decision::Deny(Denial::new(wait, 0, newest.reset()))
            }
        }
    }
}
