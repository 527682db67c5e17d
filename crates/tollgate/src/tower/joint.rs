//! Several limits on the key of a request, in memory: all or nothing.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Clock, Key, PerCharge};
use tollgate_http::ClientAddress;

use super::gate::{Decided, Outcome, time_of};
use super::keyed::{ClientLimits, KeyedLimits, RuleNames, answer};
use crate::joint::{JointDecision, hold};
use crate::limiter::Limiter;
use crate::limits::Limits;

// === impl Limits ===

impl<C: Clock + 'static> ClientLimits for Limits<C> {
    type Key = PerCharge<Key>;

    fn names(&self) -> impl Iterator<Item = &str> {
        self.limiters().map(Limiter::name)
    }

    fn key_of_client(&self, addresses: &ClientAddress, address: Option<IpAddr>) -> PerCharge<Key> {
        self.keys_of(&address.map(|address| addresses.prefix().network(address)))
    }

    fn gate(self: &Arc<Self>, keys: PerCharge<Key>, rules: &RuleNames) -> Outcome {
        let Some(clock) = self.clock() else {
            return Outcome::Unlimited;
        };
        if !self.may_delay() {
            let decision = self.decide_keys(&keys);
            return Outcome::Decided(decide(self, &decision, rules, time_of(clock)));
        }
        let (limits, rules) = (Arc::clone(self), Arc::clone(rules));
        Outcome::Delayed(Box::pin(async move {
            let clock = limits.clock().expect("it has limits");
            let at = time_of(clock);
            // If this is dropped before the turn of the request, what still counts is refunded.
            let decision = match limits.reserve_keys(&keys) {
                Ok(reservation) => {
                    let delay = reservation.decision().delay();
                    hold(clock, delay, &tokio::time::sleep).await;
                    reservation.keep()
                }
                Err(denial) => denial.into_decision(),
            };
            Ok(decide(&limits, &decision, &rules, at))
        }))
    }
}

impl<C: Clock + 'static, K: Hash + ?Sized> KeyedLimits<K> for Limits<C> {
    fn key(&self, key: &K) -> PerCharge<Key> {
        self.keys_of(key)
    }
}

/// The decision as an answer.
fn decide<C: Clock>(
    limits: &Limits<C>,
    decision: &JointDecision,
    rules: &RuleNames,
    at: Duration,
) -> Decided {
    let verdict = decision.verdict();
    let of_each = limits.limiters().map(Limiter::limit);
    let answer = answer(rules, of_each, &verdict.decisions, verdict.denial);
    Decided::new(answer, at)
}
