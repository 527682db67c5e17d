//! What happens when Redis has no answer.

use std::num::NonZeroU32;

use tollgate_core::{
    Charge, Decision, Denial, DenialReason, Enforcement, Grant, Key, KeyHasher, Limit,
    LimitHistory, OnStoreError, RequestDenial, Span, Store, StoreError, Verdict, Wait,
};

use crate::store::Redis;

/// How long a caller is told to wait who is denied because Redis has no answer.
pub const DENIED_FOR: Span = Span::SECOND;

/// A shared store, and what it does when Redis has no answer.
///
/// `local` is any store of this process. It is asked with keys that it has made itself of those
/// that Redis would be asked with: those are hashes without a secret, for which anybody can find
/// values that collide in a table. And it is asked with this node's share of the limit: an N-th of
/// its units, if there are N nodes ([`Sharing::nodes`](tollgate_core::Sharing::nodes), or else
/// [`Redis::nodes`]). If N changes meanwhile, a window keeps the units that it has counted, and a
/// bucket the time that it needs to be full again, which is the same part of the new share. If the
/// limit changes, its share does as every limit does.
#[derive(Debug)]
pub struct Fallback<L> {
    redis: Redis,
    local: L,
}

// === impl Fallback ===

impl<L: Store> Fallback<L> {
    /// Of several charges in one request, the first that says `Deny` denies it; if there is none,
    /// the first that says `Error` makes it an error; then `Local` decides over those that say so.
    /// From now on the store counts among the nodes ([`Redis::nodes`]), until it is closed.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn new(redis: Redis, local: L) -> Fallback<L> {
        redis.join_nodes();
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

    async fn without_redis(
        &self,
        charges: &[Charge<'_>],
        error: StoreError,
    ) -> Result<Verdict, StoreError> {
        // A shadow limit never decides about a request, so it does not when the store is away.
        let first = |choice: OnStoreError| {
            charges.iter().position(|charge| {
                charge.sharing.on_store_error == choice && charge.enforcement != Enforcement::Shadow
            })
        };
        if let Some(by) = first(OnStoreError::Deny) {
            self.redis.fell_back(OnStoreError::Deny);
            return Ok(denied(charges, by));
        }
        if first(OnStoreError::Error).is_some() {
            self.redis.fell_back(OnStoreError::Error);
            return Err(error);
        }
        let shares: Vec<Option<Share>> = charges
            .iter()
            .map(|charge| match charge.sharing.on_store_error {
                OnStoreError::Local => Some(Share::of(charge, self.nodes(charge))),
                OnStoreError::Allow | OnStoreError::Deny | OnStoreError::Error => None,
            })
            .collect();
        let mut places = Vec::new();
        let mut local = Vec::new();
        for (place, (charge, share)) in charges.iter().zip(&shares).enumerate() {
            if let Some(Share { limit, history }) = share {
                places.push(place);
                local.push(Charge {
                    key: self.own_key(charge.key),
                    limit,
                    history: history.as_ref().unwrap_or_else(|| LimitHistory::none()),
                    ..*charge
                });
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
        let denial = verdict.denial.map(|denial| RequestDenial {
            by: places[denial.by],
            ..denial
        });
        Ok(Verdict { decisions, denial })
    }
}

impl<L: KeyHasher> Fallback<L> {
    /// The key under which the store of this process counts what Redis counts under `key`.
    fn own_key(&self, key: Key) -> Key {
        let bits = key.bits().to_le_bytes();
        self.local.key(std::iter::once(&bits[..]))
    }
}

impl<L> Fallback<L> {
    /// How many nodes share a limit: as it says, or as many as were counted.
    fn nodes(&self, charge: &Charge<'_>) -> u32 {
        let counted = || self.redis.nodes();
        charge.sharing.nodes.map_or_else(counted, NonZeroU32::get)
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
            // Redis is there: other requests have reserved what this one asks for, and nothing was
            // charged. A share of its own beside theirs would be more than the limit.
            Err(error @ StoreError::Contended) => Err(error),
            Err(error) => self.without_redis(charges, error).await,
            Ok(verdict) => Ok(verdict),
        }
    }
}

/// A node's part of a limit, and of those that the rule had before, if it had any.
struct Share {
    limit: Limit,
    history: Option<LimitHistory>,
}

// === impl Share ===

impl Share {
    fn of(charge: &Charge<'_>, nodes: u32) -> Share {
        let was_changed = charge.history != LimitHistory::none();
        Share {
            limit: share(charge.limit, nodes),
            history: was_changed.then(|| charge.history.map(|former| share(former, nodes))),
        }
    }
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
        OnStoreError::Allow | OnStoreError::Error | OnStoreError::Local => allowed(charge),
    };
    Verdict {
        decisions: charges.iter().map(decide).collect(),
        denial: Some(RequestDenial {
            by,
            wait: Wait::For(DENIED_FOR),
            reason: DenialReason::StoreUnavailable,
        }),
    }
}
