//! Several limits on the key of a request, over Redis.

use std::net::IpAddr;
use std::sync::Arc;

use tollgate_core::{Key, PerCharge};
use tollgate_http::ClientAddress;

use super::{hold, parts_of, problem};
use crate::redis::{KeyParts, Limiter, Limits, SharedKey};
use crate::tower::gate::{Decided, Outcome, time_of};
use crate::tower::keyed::{ClientLimits, KeyedLimits, RuleNames, answer};

// === impl Limits ===

impl ClientLimits for Limits {
    type Key = PerCharge<Key>;

    fn names(&self) -> impl Iterator<Item = &str> {
        self.limiters().map(Limiter::name)
    }

    fn key_of_client(&self, addresses: &ClientAddress, address: Option<IpAddr>) -> PerCharge<Key> {
        self.keys_of(&parts_of(addresses, address))
    }

    fn gate(self: &Arc<Self>, keys: PerCharge<Key>, rules: &RuleNames) -> Outcome {
        let (limits, rules) = (Arc::clone(self), Arc::clone(rules));
        Outcome::Delayed(Box::pin(async move {
            let revisions = limits.revisions();
            let verdict = limits.decide_keys(&keys).await;
            let verdict = verdict.map_err(|error| problem(&error))?;
            let (at, delay) = (time_of(limits.redis().clock()), verdict.delay());
            if verdict.is_allowed() && !delay.is_zero() {
                let (limits, verdict) = (Arc::clone(&limits), verdict.clone());
                hold(delay, async move |held| {
                    limits.give_up(&keys, &revisions, &verdict, held).await;
                })
                .await;
            }
            let of_each = limits.limiters().map(Limiter::limit);
            let answer = answer(&rules, of_each, &verdict.decisions, verdict.denial);
            Ok(Decided::new(answer, at))
        }))
    }
}

impl<K: SharedKey + ?Sized> KeyedLimits<K> for Limits {
    fn key(&self, key: &K) -> PerCharge<Key> {
        self.keys_of(&KeyParts::of(key))
    }
}
