//! What happens when Redis has no answer.

use std::num::NonZeroU32;

use tollgate_core::{
    Charge, Decision, Denial, Enforcement, Grant, Key, KeyHasher, Limit, OnStoreError, Refusal,
    Span, Store, StoreError, Verdict, Wait,
};

use crate::store::Redis;

/// How long a caller is told to wait who is denied because Redis has no answer.
pub const DENIED_FOR: Span = Span::SECOND;

/// A shared store, and what it does when Redis has no answer.
///
/// `local` is any store of this process. It is asked with the keys that Redis would be asked with.
#[derive(Debug)]
pub struct Fallback<L> {
    redis: Redis,
    local: L,
}

// === impl Fallback ===

impl<L: Store> Fallback<L> {
    /// Of several charges in one request, the first that says `Deny` refuses it, then `Local` decides
    /// over those that say so.
    pub const fn new(redis: Redis, local: L) -> Fallback<L> {
        Fallback { redis, local }
    }

    /// The shared store.
    pub const fn redis(&self) -> &Redis {
        &self.redis
    }

    /// The store of this process.
    pub const fn local(&self) -> &L {
        &self.local
    }

    async fn without_redis(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let refuses = |charge: &Charge<'_>| {
            charge.sharing.on_store_error == OnStoreError::Deny
                && charge.enforcement != Enforcement::Shadow
        };
        if let Some(by) = charges.iter().position(refuses) {
            self.redis.fell_back(OnStoreError::Deny);
            return Ok(denied(charges, by));
        }
        let shares: Vec<Option<Limit>> = charges
            .iter()
            .map(|charge| match charge.sharing.on_store_error {
                OnStoreError::Local => Some(share(charge.limit, nodes(charge))),
                OnStoreError::Allow | OnStoreError::Deny => None,
            })
            .collect();
        let mut places = Vec::new();
        let mut local = Vec::new();
        for (place, (charge, limit)) in charges.iter().zip(&shares).enumerate() {
            if let Some(limit) = limit {
                places.push(place);
                local.push(Charge { limit, ..*charge });
            }
        }
        let verdict = match local.is_empty() {
            true => {
                self.redis.fell_back(OnStoreError::Allow);
                Verdict::default()
            }
            false => {
                self.redis.fell_back(OnStoreError::Local);
                self.local.decide(&local).await?
            }
        };
        let mut decisions: Vec<Decision> = charges.iter().map(allowed).collect();
        for (place, decision) in places.iter().zip(verdict.decisions) {
            decisions[*place] = decision;
        }
        let refusal = verdict.refusal.map(|refusal| Refusal {
            by: places[refusal.by],
            ..refusal
        });
        Ok(Verdict { decisions, refusal })
    }
}

impl<L: Store> KeyHasher for Fallback<L> {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.redis.key(parts)
    }
}

impl<L: Store> Store for Fallback<L> {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        match self.redis.decide(charges).await {
            // A question that was wrong is wrong wherever it is asked.
            Err(error @ (StoreError::Unfit { .. } | StoreError::TooManyCharges(_))) => Err(error),
            Err(_without_an_answer) => self.without_redis(charges).await,
            Ok(verdict) => Ok(verdict),
        }
    }
}

/// How many nodes share a limit; one, if nobody says.
fn nodes(charge: &Charge<'_>) -> u32 {
    charge.sharing.nodes.map_or(1, NonZeroU32::get)
}

/// A node's part of a limit: rounded down, but one unit at least where there is any.
fn share(limit: &Limit, nodes: u32) -> Limit {
    let part = |units: u32| match units {
        0 => 0,
        units => (units / nodes).max(1),
    };
    let shared = Limit::new(limit.algorithm(), part(limit.count()), limit.window());
    let shared = shared.and_then(|shared| match shared.is_bucket() {
        true => shared.with_burst(part(limit.nominal())),
        false => Ok(shared),
    });
    // A smaller limit of the same window is valid, or else the whole one stands.
    shared
        .and_then(|shared| shared.with_soft(limit.soft_percent()))
        .unwrap_or(*limit)
}

fn allowed(charge: &Charge<'_>) -> Decision {
    Decision::Allow(Grant {
        remaining: charge.limit.capacity(),
        ..Grant::default()
    })
}

/// Every charge that says so is denied; the first of them is told.
fn denied(charges: &[Charge<'_>], by: usize) -> Verdict {
    let decide = |charge: &Charge<'_>| match charge.sharing.on_store_error {
        OnStoreError::Deny => Decision::Deny(Denial {
            wait: Wait::For(DENIED_FOR),
            remaining: 0,
            reset: DENIED_FOR,
        }),
        OnStoreError::Allow | OnStoreError::Local => allowed(charge),
    };
    Verdict {
        decisions: charges.iter().map(decide).collect(),
        refusal: Some(Refusal {
            by,
            wait: Wait::For(DENIED_FOR),
        }),
    }
}
