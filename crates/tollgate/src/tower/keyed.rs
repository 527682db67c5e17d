//! One limit, and a key for each request.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use tollgate_core::{
    Algorithm, Answer, Clock, Decision, DenialReason, Enforcement, Key, Limit, Limited,
    RequestDenial, RuleName, Span, Status,
};
use tollgate_http::{ClientAddress, Problem};

use super::gate::{Decided, Gate, Outcome};
use crate::limiter::Limiter;

/// A limiter of one limit, which a [`RateLimitLayer`](super::RateLimitLayer) asks: a
/// [`Limiter`], or one over Redis (feature `redis`).
pub trait OneLimit: Send + Sync + 'static {
    #[doc(hidden)]
    fn rule_path(&self) -> &str;

    /// The key of a client. All clients without an address, those of Unix sockets, have one.
    #[doc(hidden)]
    fn key_of_client(&self, addresses: &ClientAddress, address: Option<IpAddr>) -> Key;

    #[doc(hidden)]
    fn gate(self: &Arc<Self>, key: Key, rule: &Arc<RuleName>) -> Outcome;
}

/// A limiter of one limit with keys of this type: for one in memory `K` is `Hash`, for one over
/// Redis it is a `redis::SharedKey`.
pub trait KeyedLimit<K: ?Sized>: OneLimit {
    #[doc(hidden)]
    fn key(&self, key: &K) -> Key;
}

/// Decides by one limit.
pub(super) struct Keyed<L, F> {
    limiter: Arc<L>,
    key_of: F,
    /// The limit's name, as answers have it.
    rule: Arc<RuleName>,
}

// === impl Keyed ===

impl<L: OneLimit, F> Keyed<L, F> {
    pub(super) fn new(limiter: Arc<L>, key_of: F) -> Keyed<L, F> {
        let rule = RuleName {
            domain: String::new(),
            path: limiter.rule_path().to_owned(),
            name: None,
        };
        Keyed {
            limiter,
            key_of,
            rule: Arc::new(rule),
        }
    }
}

impl<L, F> Gate for Keyed<L, F>
where
    L: OneLimit,
    F: Fn(&L, &Parts) -> Result<Key, Problem> + Send + Sync + 'static,
{
    fn decide(&self, head: &Parts) -> Outcome {
        match (self.key_of)(&self.limiter, head) {
            Ok(key) => self.limiter.gate(key, &self.rule),
            Err(problem) => Outcome::Failed(problem),
        }
    }
}

// === impl Limiter ===

impl<C: Clock + 'static> OneLimit for Limiter<C> {
    fn rule_path(&self) -> &str {
        self.name()
    }

    fn key_of_client(&self, addresses: &ClientAddress, address: Option<IpAddr>) -> Key {
        let network = address.map(|address| addresses.prefix().network(address));
        self.key_of(&network)
    }

    fn gate(self: &Arc<Self>, key: Key, rule: &Arc<RuleName>) -> Outcome {
        if self.limit().algorithm() != Algorithm::LeakyBucket {
            return Outcome::Decided(decide(self, self.check_key(key), rule));
        }
        let (limiter, rule) = (Arc::clone(self), Arc::clone(rule));
        Outcome::Delayed(Box::pin(async move {
            let decision = limiter.check_in_turn(key, tokio::time::sleep).await;
            Ok(decide(&limiter, decision, &rule))
        }))
    }
}

impl<C: Clock + 'static, K: Hash + ?Sized> KeyedLimit<K> for Limiter<C> {
    fn key(&self, key: &K) -> Key {
        self.key_of(key)
    }
}

/// The decision of a limiter in memory as an answer.
fn decide<C: Clock>(limiter: &Limiter<C>, decision: Decision, rule: &Arc<RuleName>) -> Decided {
    let denial = decision.wait().map(|wait| RequestDenial {
        by: 0,
        wait,
        reason: DenialReason::Exceeded,
    });
    let answer = answer(rule, limiter.limit(), decision, denial);
    Decided::new(answer, limiter.clock())
}

/// The decision of one limit as an answer, after which nothing has to be held any more.
pub(super) fn answer(
    rule: &Arc<RuleName>,
    limit: Limit,
    decision: Decision,
    denial: Option<RequestDenial>,
) -> Answer {
    let limited = Limited {
        rule: Arc::clone(rule),
        limit,
        decision,
        enforcement: Enforcement::Enforce,
    };
    Answer {
        statuses: vec![Status::Limited(limited)].into(),
        denial,
        delay: Span::ZERO,
    }
}
