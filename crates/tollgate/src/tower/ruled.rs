//! The limits of a rules file, and descriptors for each request.

use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, StatusCode};
use tollgate_core::{Answer, ChargeDenied, Clock, Cost, Descriptor, Entry, Request, Span, Status};
use tollgate_http::{Classifier, Head, Peer, Problem};

use super::gate::{Decided, Gate, Outcome};
use super::missing_peer;
use crate::rule_limiter::{RuleError, RuleLimiter};

/// Decides by the rules of a domain.
pub(super) struct Ruled<C, P> {
    limiter: Arc<RuleLimiter<C>>,
    domain: Arc<str>,
    classifier: Classifier,
    peer: P,
}

/// The keys and values of a descriptor.
type Entries = Vec<(Box<[u8]>, Box<[u8]>)>;

/// An allowed request that is held until its turn in a leaky bucket. If dropped before, it refunds
/// its units.
struct Held<C: Clock> {
    limiter: Arc<RuleLimiter<C>>,
    domain: Arc<str>,
    /// The entries of each descriptor that was charged.
    descriptors: Vec<Entries>,
    has_gone: bool,
}

// === impl Ruled ===

impl<C, P> Ruled<C, P> {
    pub(super) fn new(
        limiter: Arc<RuleLimiter<C>>,
        domain: &str,
        classifier: Classifier,
        peer: P,
    ) -> Ruled<C, P> {
        Ruled {
            limiter,
            domain: domain.into(),
            classifier,
            peer,
        }
    }
}

impl<C, P> Gate for Ruled<C, P>
where
    C: Clock + 'static,
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
        let Some(request) = identity.request(self.domain.as_bytes()) else {
            return Outcome::Unlimited;
        };
        let answer = match self.limiter.decide(&request) {
            Ok(answer) => answer,
            Err(error) => return Outcome::Failed(problem(&error)),
        };
        let delay = answer.delay;
        if delay.is_zero() || !answer.is_allowed() {
            return Outcome::Decided(Decided::new(answer, self.limiter.store().clock()));
        }
        let held = Held {
            limiter: Arc::clone(&self.limiter),
            domain: Arc::clone(&self.domain),
            descriptors: charged_descriptors(&request, &answer),
            has_gone: false,
        };
        let decided = Decided::new(answer, self.limiter.store().clock());
        Outcome::Delayed(Box::pin(async move {
            held.until_turn(delay).await;
            decided
        }))
    }
}

/// The descriptors that an allowed request was charged for: a shadow limit or a quota that would
/// have denied was not.
fn charged_descriptors(request: &Request<'_>, answer: &Answer) -> Vec<Entries> {
    let descriptors = request.descriptors.iter().zip(&answer.statuses);
    let charged = descriptors.filter(|(_, status)| match status {
        Status::Limited(limited) => limited.decision.is_allowed(),
        _ => false,
    });
    let entries = charged.map(|(descriptor, _)| descriptor.entries.iter());
    let owned = entries.map(|entries| {
        let pairs = entries.map(|entry| (entry.key.into(), entry.value.into()));
        pairs.collect()
    });
    owned.collect()
}

/// The response to a request on which the rules have not decided.
fn problem(error: &RuleError) -> Problem {
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
    /// Waits for the turn by the limiter's clock, because a timer may fire early.
    async fn until_turn(mut self, delay: Span) {
        let due = self.limiter.store().clock().now().monotonic + delay;
        loop {
            let wait = due.since(self.limiter.store().clock().now().monotonic);
            if wait.is_zero() {
                break;
            }
            tokio::time::sleep(wait.into()).await;
        }
        self.has_gone = true;
    }
}

impl<C: Clock> Drop for Held<C> {
    fn drop(&mut self) {
        if self.has_gone {
            return;
        }
        let descriptors = self.descriptors.iter().map(|entries| Descriptor {
            entries: entries
                .iter()
                .map(|(key, value)| Entry { key, value })
                .collect(),
            ..Descriptor::default()
        });
        // If the store fails, the units stay charged until they decay.
        let _refunded = self.limiter.decide(&Request {
            domain: self.domain.as_bytes(),
            descriptors: descriptors.collect(),
            cost: Cost::Refund(1),
            charge_denied: ChargeDenied::Never,
        });
    }
}
