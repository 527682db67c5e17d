//! One limit or several, and a key for each request.

use std::hash::Hash;
use std::iter;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tollgate_core::{
    Algorithm, Answer, Clock, Decision, DenialReason, Enforcement, Key, Limit, Limited,
    RequestDenial, RuleName, Span, Status, StoreError,
};
use tollgate_http::{ClientAddress, Problem};

use super::gate::{Decided, Gate, Outcome, time_of};
use crate::limiter::{Limiter, denial_without_answer};

/// Limits that a [`RateLimitLayer`](super::RateLimitLayer) asks about one key of each request: a
/// [`Limiter`] or [`Limits`](crate::Limits), or those over Redis (feature `redis`).
pub trait ClientLimits: Send + Sync + 'static {
    /// The key of a request in each limit.
    #[doc(hidden)]
    type Key: Send + 'static;

    #[doc(hidden)]
    fn names(&self) -> impl Iterator<Item = &str>;

    /// The key of a client. All clients without an address, those of Unix sockets, have one.
    #[doc(hidden)]
    fn key_of_client(&self, addresses: &ClientAddress, address: Option<IpAddr>) -> Self::Key;

    #[doc(hidden)]
    fn gate(self: &Arc<Self>, key: Self::Key, rules: &RuleNames) -> Outcome;
}

/// [`ClientLimits`] with keys of this type: for those in memory `K` is `Hash`, for those over Redis
/// it is a `redis::SharedKey`.
pub trait KeyedLimits<K: ?Sized>: ClientLimits {
    #[doc(hidden)]
    fn key(&self, key: &K) -> Self::Key;
}

/// The names of limits, as answers have them.
pub(super) type RuleNames = Arc<[Arc<RuleName>]>;

/// Decides by limits that have a key in common.
pub(super) struct Keyed<L, F> {
    limiter: Arc<L>,
    key_of: F,
    rules: RuleNames,
}

// === impl Keyed ===

impl<L: ClientLimits, F> Keyed<L, F> {
    pub(super) fn new(limiter: Arc<L>, key_of: F) -> Keyed<L, F> {
        let rule = |name: &str| {
            Arc::new(RuleName {
                domain: String::new(),
                path: name.to_owned(),
                name: None,
            })
        };
        let rules = limiter.names().map(rule).collect();
        Keyed {
            limiter,
            key_of,
            rules,
        }
    }
}

impl<L, F> Gate for Keyed<L, F>
where
    L: ClientLimits,
    F: Fn(&L, &Parts) -> Result<L::Key, Problem> + Send + Sync + 'static,
{
    fn decide(&self, head: &Parts) -> Outcome {
        match (self.key_of)(&self.limiter, head) {
            Ok(key) => self.limiter.gate(key, &self.rules),
            Err(problem) => Outcome::Failed(problem),
        }
    }
}

// === impl Limiter ===

impl<C: Clock + 'static> ClientLimits for Limiter<C> {
    type Key = Key;

    fn names(&self) -> impl Iterator<Item = &str> {
        iter::once(self.name())
    }

    fn key_of_client(&self, addresses: &ClientAddress, address: Option<IpAddr>) -> Key {
        let network = address.map(|address| addresses.prefix().network(address));
        self.key_of(&network)
    }

    fn gate(self: &Arc<Self>, key: Key, rules: &RuleNames) -> Outcome {
        if self.limit().algorithm() != Algorithm::LeakyBucket {
            let (decision, at) = (self.try_check_key(key), time_of(self.clock()));
            return Outcome::Decided(decide(self, decision, rules, at));
        }
        let (limiter, rules) = (Arc::clone(self), Arc::clone(rules));
        Outcome::Delayed(Box::pin(async move {
            let at = time_of(limiter.clock());
            // It decides at once; what takes time is the turn of the request.
            let decision = limiter.check_in_turn(key, tokio::time::sleep).await;
            Ok(decide(&limiter, decision, &rules, at))
        }))
    }
}

impl<C: Clock + 'static, K: Hash + ?Sized> KeyedLimits<K> for Limiter<C> {
    fn key(&self, key: &K) -> Key {
        self.key_of(key)
    }
}

/// The decision of a limiter in memory as an answer; a denial if the store failed.
fn decide<C: Clock>(
    limiter: &Limiter<C>,
    decision: Result<Decision, StoreError>,
    rules: &RuleNames,
    at: Duration,
) -> Decided {
    let (decision, reason) = match decision {
        Ok(decision) => (decision, DenialReason::Exceeded),
        Err(_) => (
            Decision::Deny(denial_without_answer()),
            DenialReason::StoreUnavailable,
        ),
    };
    let denial = decision.wait().map(|wait| RequestDenial {
        by: 0,
        wait,
        reason,
    });
    let answer = answer(rules, [limiter.limit()], &[decision], denial);
    Decided::new(answer, at)
}

/// The decisions of limits as an answer, after which nothing has to be held any more.
pub(super) fn answer(
    rules: &[Arc<RuleName>],
    limits: impl IntoIterator<Item = Limit>,
    decisions: &[Decision],
    denial: Option<RequestDenial>,
) -> Answer {
    let decided = rules.iter().zip(limits).zip(decisions);
    let statuses = decided.map(|((rule, limit), decision)| {
        Status::Limited(Limited {
            rule: Arc::clone(rule),
            limit,
            decision: *decision,
            enforcement: Enforcement::Enforce,
        })
    });
    Answer {
        statuses: statuses.collect(),
        denial,
        delay: Span::ZERO,
    }
}
