//! Requests that a leaky bucket has allowed and that wait for their turn.

use std::future::Future;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate_core::{Clock, Cost, Key, Moment, Span, Timeline};

use super::sleep_unless;
use crate::limiter::Limiter;
use crate::queue::{HeldPlace, Turn};

/// An allowed request that is held until its turn. If dropped before, it passes its turn on.
struct Held<'l, C: Clock> {
    limiter: &'l Limiter<C>,
    key: Key,
    place: Option<HeldPlace<'l>>,
}

// === impl Limiter ===

impl<C: Clock> Limiter<C> {
    /// Holds an allowed request until its turn by the limiter's clock, because a timer may fire
    /// early.
    pub(super) async fn hold<'l, S: Future>(
        &'l self,
        key: Key,
        place: HeldPlace<'l>,
        sleep: &impl Fn(Duration) -> S,
    ) {
        let mut held = Held {
            limiter: self,
            key,
            place: Some(place),
        };
        while let Some(due) = held.due().await {
            let wait = due.since(self.now_in_turn());
            if wait.is_zero() {
                break;
            }
            let has_moved = |context: &Context<'_>| match held.due_in(context) {
                Some(now_due) if now_due == due => Poll::Pending,
                _ => Poll::Ready(()),
            };
            sleep_unless(sleep(wait.into()), has_moved).await;
        }
        held.go();
    }

    /// Refunds the units of a turn to the bucket, unless a `check` was given a later turn; returns
    /// whether it did. The line of the key is locked, so that no request that is held gets one
    /// meanwhile.
    ///
    /// After a change of the limit, the units stay consumed: under another one, they may have left
    /// the bucket long before the turn, and a refund would be of units of others.
    ///
    /// After a `check`, the units stay consumed until the turn is over: after a refund, the next
    /// request would be given the same turn as that `check`. So it is if the `check`, which takes
    /// no lock, comes between the look at the bucket and the refund.
    pub(super) fn give_back(&self, key: Key, turn: Turn) -> bool {
        let terms = self.terms.load();
        if terms.revision() != turn.revision {
            return false;
        }
        let now = self.store.clock().now();
        let Ok(newest) = self.try_decide(key, Cost::Peek(1), Some(now)) else {
            return false;
        };
        let ends = now.monotonic + newest.reset();
        let interval = terms.limit.interval().unwrap_or(Span::ZERO);
        if ends.since(turn.ends) >= interval {
            return false;
        }
        // A failure is only counted: there is no request left to answer.
        self.decide(key, Cost::Refund(turn.units)).is_allowed()
    }

    /// The time on the clock of turns, which only buckets give, whatever the limit is now.
    fn now_in_turn(&self) -> Moment {
        self.store.clock().on(Timeline::Monotonic)
    }
}

// === impl Held ===

impl<C: Clock> Held<'_, C> {
    async fn due(&self) -> Option<Moment> {
        poll_fn(|context| Poll::Ready(self.due_in(context))).await
    }

    fn due_in(&self, context: &Context<'_>) -> Option<Moment> {
        self.place.as_ref().and_then(|place| place.due(context))
    }

    /// Ends the hold because the turn has come; its units are spent.
    fn go(&mut self) {
        if let Some(place) = self.place.take() {
            place.go();
        }
    }
}

impl<C: Clock> Drop for Held<'_, C> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let give_back = |turn| self.limiter.give_back(self.key, turn);
            place.cancel(self.limiter.now_in_turn(), give_back);
        }
    }
}
