//! The limits of a rules file, and descriptors for each request.

use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, StatusCode};
use tollgate_core::{Clock, Request, Span};
use tollgate_http::{Classifier, Head, Peer, Problem};
use tollgate_rules::ReservedPart;

use super::gate::{Decided, Gate, Outcome, missing_peer, time_of};
use crate::joint::hold;
use crate::rule_limiter::{RuleError, RuleLimiter};

/// The limits of a rules file, which
/// [`RateLimitLayer::by_rules`](super::RateLimitLayer::by_rules) asks: a [`RuleLimiter`], or one
/// over Redis (feature `redis`).
pub trait RuleLimits: Send + Sync + 'static {
    #[doc(hidden)]
    fn gate(self: &Arc<Self>, request: &Request<'_>) -> Outcome;
}

/// Decides by the rules of a domain.
pub(super) struct Ruled<L, P> {
    limiter: Arc<L>,
    domain: Box<str>,
    classifier: Classifier,
    peer: P,
}

/// An allowed request that is held until its turn in a leaky bucket. If dropped before, it refunds
/// its units, as far as they still count.
struct Held<C: Clock> {
    limiter: Arc<RuleLimiter<C>>,
    charged: Vec<ReservedPart>,
    has_gone: bool,
}

// === impl Ruled ===

impl<L, P> Ruled<L, P> {
    pub(super) fn new(
        limiter: Arc<L>,
        domain: &str,
        classifier: Classifier,
        peer: P,
    ) -> Ruled<L, P> {
        Ruled {
            limiter,
            domain: domain.into(),
            classifier,
            peer,
        }
    }
}

impl<L, P> Gate for Ruled<L, P>
where
    L: RuleLimits,
    P: Fn(&Extensions) -> Option<Peer> + Send + Sync + 'static,
{
    fn decide(&self, head: &Parts) -> Outcome {
        let Some(peer) = (self.peer)(&head.extensions) else {
            return Outcome::Failed(missing_peer());
        };
        let identity = match self.classifier.identify(Head::of(head, peer)) {
            Ok(identity) => identity,
            Err(rejection) => return Outcome::Failed(rejection.problem()),
        };
        match identity.request(self.domain.as_bytes()) {
            None => Outcome::Unlimited,
            Some(request) => self.limiter.gate(&request),
        }
    }
}

// === impl RuleLimiter ===

impl<C: Clock + 'static> RuleLimits for RuleLimiter<C> {
    fn gate(self: &Arc<Self>, request: &Request<'_>) -> Outcome {
        let (answer, charged) = match self.decide_held(request) {
            Ok(decided) => decided,
            Err(error) => return Outcome::Failed(problem(&error)),
        };
        let delay = answer.delay;
        let is_held = !delay.is_zero() && answer.is_allowed();
        let decided = Decided::new(answer, time_of(self.clock()));
        if !is_held {
            return Outcome::Decided(decided);
        }
        let held = Held {
            limiter: Arc::clone(self),
            charged,
            has_gone: false,
        };
        Outcome::Delayed(Box::pin(async move {
            held.until_turn(delay).await;
            Ok(decided)
        }))
    }
}

/// The response to a request on which the rules have not decided.
pub(super) fn problem(error: &RuleError) -> Problem {
    let status = match error {
        RuleError::UnknownDomain { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        RuleError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Problem::new(
        status,
        format!("there is no decision on the request: {error}"),
    )
}

// === impl Held ===

impl<C: Clock> Held<C> {
    async fn until_turn(mut self, delay: Span) {
        hold(self.limiter.clock(), delay.into(), &tokio::time::sleep).await;
        self.has_gone = true;
    }
}

impl<C: Clock> Drop for Held<C> {
    fn drop(&mut self) {
        if self.has_gone {
            return;
        }
        for part in &self.charged {
            self.limiter.release(part);
        }
    }
}
