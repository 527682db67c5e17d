//! What happens when Redis has no answer.

use tollgate_core::{
    Charge, Decision, Denial, Enforcement, Grant, Key, KeyHasher, Limit, Refusal, Span, Store,
    StoreError, Verdict, Wait,
};

use crate::store::Redis;

/// How long a caller is told to wait who is denied because Redis has no answer.
pub const DENIED_FOR: Span = Span::SECOND;

/// What happens when Redis has no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// The request passes, and nothing is charged. Over-admits without bound for as long as it
    /// lasts.
    Allow,
    /// The request is refused, to come back after [`DENIED_FOR`]. Over-admits nothing.
    #[default]
    Deny,
    /// This node alone decides, on its share of every limit: a `nodes`-th of the units, rounded
    /// down, and one unit at least. Over-admits as long as it lasts, per window at most what all
    /// shares together hold.
    Local {
        /// How many nodes share the limits; 0 counts as 1.
        nodes: u32,
    },
}

/// A shared store, and what it does when Redis has no answer.
///
/// `local` is any store of this process. It is asked with the keys that Redis would be asked with.
#[derive(Debug)]
pub struct Fallback<L> {
    redis: Redis,
    local: L,
    choose: fn(&Charge<'_>) -> OnStoreError,
}

// === impl Fallback ===

impl<L: Store> Fallback<L> {
    /// `choose` says what happens to a charge; of several in one request, the first that says
    /// `Deny` refuses it, then `Local` decides over those that say so.
    pub const fn new(
        redis: Redis,
        local: L,
        choose: fn(&Charge<'_>) -> OnStoreError,
    ) -> Fallback<L> {
        Fallback {
            redis,
            local,
            choose,
        }
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
        self.redis.fell_back();
        let choices: Vec<OnStoreError> = charges.iter().map(self.choose).collect();
        let refuses = |(charge, choice): (&Charge<'_>, &OnStoreError)| {
            *choice == OnStoreError::Deny && charge.enforcement != Enforcement::Shadow
        };
        if let Some(by) = charges.iter().zip(&choices).position(refuses) {
            return Ok(denied(charges, &choices, by));
        }
        let shares: Vec<Option<Limit>> = charges
            .iter()
            .zip(&choices)
            .map(|(charge, choice)| match choice {
                OnStoreError::Local { nodes } => Some(share(charge.limit, *nodes)),
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
            true => Verdict::default(),
            false => self.local.decide(&local).await?,
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

/// A node's part of a limit: rounded down, but one unit at least where there is any.
fn share(limit: &Limit, nodes: u32) -> Limit {
    let part = |units: u32| match units {
        0 => 0,
        units => (units / nodes.max(1)).max(1),
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
fn denied(charges: &[Charge<'_>], choices: &[OnStoreError], by: usize) -> Verdict {
    let decide = |(charge, choice): (&Charge<'_>, &OnStoreError)| match choice {
        OnStoreError::Deny => Decision::Deny(Denial {
            wait: Wait::For(DENIED_FOR),
            remaining: 0,
            reset: DENIED_FOR,
        }),
        OnStoreError::Allow | OnStoreError::Local { .. } => allowed(charge),
    };
    Verdict {
        decisions: charges.iter().zip(choices).map(decide).collect(),
        refusal: Some(Refusal {
            by,
            wait: Wait::For(DENIED_FOR),
        }),
    }
}
