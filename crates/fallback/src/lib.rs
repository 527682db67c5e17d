//! What happens when a shared store has no answer.
//!
//! A [`Fallback`] is a shared store and a store of this process: while the former does not answer,
//! each limit does what its [`OnStoreError`] says. The engine and the library decide through it.

use std::num::NonZeroU32;

use tollgate_core::{
    Charge, DecidedBy, Decision, Denial, DenialReason, Enforcement, Grant, Key, KeyHasher, Limit,
    LimitHistory, OnStoreError, PerCharge, RequestDenial, SharedStore, Span, Store, StoreError,
    Verdict, Wait,
};

mod counts;
mod quotas;
mod reservation;
mod share;

use counts::Counters;
pub use counts::FallbackCounts;
use quotas::Quotas;
use share::Share;
pub use share::share;

/// The retry time of a request that is denied because the shared store has no answer.
pub const DENIED_FOR: Span = Span::SECOND;

/// A shared store, and what each limit does when that store has no answer.
///
/// `local` is any store of this process. Its keys are made from the shared store's keys, which are
/// hashes without a secret: anyone can find values that collide in a table. It decides on this
/// instance's share of the limit: an N-th of its units, if there are N instances
/// ([`Sharing::instances`](tollgate_core::Sharing::instances), or else
/// [`SharedStore::instances`]). If N changes meanwhile, a window keeps the units that it has
/// counted; a bucket keeps the time that it needs to be full again, so the same fraction of the
/// new share is used. If the limit changes, its share migrates as every limit does.
#[derive(Debug)]
pub struct Fallback<S, L> {
    shared: S,
    local: L,
    decided: Counters,
}

/// What decides on the shares of a request, and what counts how it was decided.
struct Shares<'a, L> {
    store: &'a L,
    counters: &'a Counters,
}

// === impl Fallback ===

impl<S: SharedStore, L: Store> Fallback<S, L> {
    /// Joins the instances that share the store ([`SharedStore::join`]), until it is closed.
    ///
    /// # Panics
    ///
    /// If the store's `join` panics, as that of Redis does outside a Tokio runtime.
    pub fn new(shared: S, local: L) -> Fallback<S, L> {
        shared.join();
        Fallback {
            shared,
            local,
            decided: Counters::default(),
        }
    }

    /// The shared store that was given to [`Fallback::new`], for what only its own type offers.
    pub const fn shared(&self) -> &S {
        &self.shared
    }

    /// The store of this process that was given to [`Fallback::new`].
    pub const fn local(&self) -> &L {
        &self.local
    }

    /// How many requests were decided without the shared store.
    pub fn counts(&self) -> FallbackCounts {
        self.decided.counts()
    }

    /// As [`Store::decide`]. The request is not one of [`Fallback::counts`]: it is asked by an
    /// operator, not by a client.
    ///
    /// # Errors
    ///
    /// As [`Store::decide`].
    pub async fn explain(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let uncounted = Counters::default();
        let decided = self.ask(charges).await;
        self.fall_back(charges, decided, self.shares(&uncounted))
            .await
    }

    /// Refunds units where they were charged, whether the shared store answers now or not. A refund
    /// elsewhere would be of units that other requests have consumed. It is not one of
    /// [`Fallback::counts`].
    ///
    /// # Errors
    ///
    /// As [`Store::decide`], and if the shared store has charged them and has no answer: the units
    /// stay charged.
    pub async fn refund(
        &self,
        charges: &[Charge<'_>],
        charged_by: DecidedBy,
    ) -> Result<Verdict, StoreError> {
        match charged_by {
            DecidedBy::Store => self.ask(charges).await,
            DecidedBy::Fallback => {
                let quotas = Quotas::of(charges);
                let uncounted = Counters::default();
                let shares = self.shares(&uncounted);
                self.decide_shares(charges, quotas, shares).await
            }
        }
    }

    /// What the shared store decides.
    async fn ask(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        match is_resolved_again(charges) {
            true => Err(StoreError::Unanswered),
            false => self.shared.decide(charges).await,
        }
    }

    /// This instance's share of a charge's limit, on which it decides while the shared store has no
    /// answer; `None` if the limit does something else then.
    pub fn share(&self, charge: &Charge<'_>) -> Option<Limit> {
        let is_local = charge.sharing.on_store_error == OnStoreError::Local;
        is_local.then(|| Share::of(charge, self.instances(charge)).limit)
    }

    /// What the shared store decided; without it, what [`Fallback::decide_without`] decides.
    async fn fall_back(
        &self,
        charges: &[Charge<'_>],
        decided: Result<Verdict, StoreError>,
        shares: Shares<'_, impl Store>,
    ) -> Result<Verdict, StoreError> {
        match decided {
            // Not an outage: the store answers, but other requests have reserved the units that
            // this one needs. Charging a local share as well would allow more than the limit. But
            // what must not be allowed uncounted is denied: a caller may allow what is an error.
            Err(StoreError::Contended) => {
                let denied = deny_uncounted(charges, Quotas::of(charges), shares.counters);
                denied.ok_or(StoreError::Contended)
            }
            Err(error) if !is_final(&error) => self.decide_without(charges, error, shares).await,
            decided => decided,
        }
    }

    /// Decides by the charges' `on_store_error`. The first `Deny` denies the request; without one,
    /// the first `Error` makes it an error; without that, the charges with `Local` are decided on
    /// this instance's share. Of several quotas, those with `Allow` or `Local` suffice.
    ///
    /// A refund is an error, whatever its charge says: its units were charged in the shared store.
    /// If it were answered, they would stay charged, and nobody would ask again.
    async fn decide_without(
        &self,
        charges: &[Charge<'_>],
        error: StoreError,
        shares: Shares<'_, impl Store>,
    ) -> Result<Verdict, StoreError> {
        let quotas = Quotas::of(charges);
        if let Some(denied) = deny_uncounted(charges, quotas, shares.counters) {
            return Ok(denied);
        }
        let has_refund = charges.iter().any(|charge| charge.cost.is_refund());
        if has_refund || first(OnStoreError::Error, charges, quotas).is_some() {
            shares.counters.add(OnStoreError::Error);
            return Err(error);
        }
        self.decide_shares(charges, quotas, shares).await
    }

    /// Decides the charges with `Local` on this instance's share, and allows the others.
    async fn decide_shares(
        &self,
        charges: &[Charge<'_>],
        quotas: Quotas,
        shares: Shares<'_, impl Store>,
    ) -> Result<Verdict, StoreError> {
        let limits: Vec<Option<Share>> = charges
            .iter()
            .map(|charge| match charge.sharing.on_store_error {
                OnStoreError::Local => Some(Share::of(charge, self.instances(charge))),
                OnStoreError::Allow | OnStoreError::Deny | OnStoreError::Error => None,
            })
            .collect();
        let mut indices = Vec::new();
        let mut local = Vec::new();
        for (index, (charge, share)) in charges.iter().zip(&limits).enumerate() {
            if let Some(share) = share {
                indices.push(index);
                local.push(Charge {
                    enforcement: quotas.local_enforcement(charge),
                    ..self.charge_of(share, charge)
                });
            }
        }
        let mut verdict = decide_locally(&local, shares).await?;
        let wholes = indices.iter().map(|index| charges[*index].limit);
        share::let_retry(&mut verdict, &local, wholes)?;
        let decide = |charge: &Charge<'_>| match quotas.is_dispensable(charge) {
            true => unavailable(),
            false => allow(charge),
        };
        let mut decisions: PerCharge<Decision> = charges.iter().map(decide).collect();
        for (index, decision) in indices.iter().zip(verdict.decisions) {
            decisions[*index] = decision;
        }
        let denial = verdict.denial.map(|denial| RequestDenial {
            by: indices[denial.by],
            ..denial
        });
        Ok(Verdict {
            decisions,
            denial,
            decided_by: DecidedBy::Fallback,
        })
    }

    /// The same charge, of this instance's share.
    fn charge_of<'a>(&self, share: &'a Share, charge: &Charge<'a>) -> Charge<'a> {
        let none = || LimitHistory::none();
        Charge {
            key: self.local_key(charge.key),
            limit: &share.limit,
            history: share.history.as_ref().unwrap_or_else(none),
            ..*charge
        }
    }

    /// The store of this process, whose decisions `counters` count.
    const fn shares<'a>(&'a self, counters: &'a Counters) -> Shares<'a, L> {
        let store = &self.local;
        Shares { store, counters }
    }

    /// The key under which the store of this process counts what the shared one counts under `key`.
    fn local_key(&self, key: Key) -> Key {
        let bits = key.bits().to_le_bytes();
        self.local.key(std::iter::once(&bits[..]))
    }

    /// How many instances share a limit: what its rule says, or else as many as the store counts.
    fn instances(&self, charge: &Charge<'_>) -> u32 {
        let counted = || self.shared.instances();
        charge
            .sharing
            .instances
            .map_or_else(counted, NonZeroU32::get)
    }
}

impl<S: SharedStore, L: Store> KeyHasher for Fallback<S, L> {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.shared.key(parts)
    }
}

impl<S: SharedStore, L: Store> Store for Fallback<S, L> {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let decided = self.ask(charges).await;
        self.fall_back(charges, decided, self.shares(&self.decided))
            .await
    }

    async fn decide_batch(&self, batch: &[&[Charge<'_>]]) -> Vec<Result<Verdict, StoreError>> {
        let is_asked = |charges: &&&[Charge<'_>]| !is_resolved_again(charges);
        let asked: Vec<&[Charge<'_>]> = batch.iter().filter(is_asked).copied().collect();
        let mut decided = self.shared.decide_batch(&asked).await.into_iter();
        let mut verdicts = Vec::with_capacity(batch.len());
        for charges in batch {
            let decided = match is_resolved_again(charges) {
                true => None,
                false => decided.next(),
            };
            let decided = decided.unwrap_or(Err(StoreError::Unanswered));
            let shares = self.shares(&self.decided);
            verdicts.push(self.fall_back(charges, decided, shares).await);
        }
        verdicts
    }
}

/// Decides on shares, if there are any, and counts that.
async fn decide_locally(
    charges: &[Charge<'_>],
    shares: Shares<'_, impl Store>,
) -> Result<Verdict, StoreError> {
    if charges.is_empty() {
        shares.counters.add(OnStoreError::Allow);
        return Ok(Verdict::default());
    }
    let decided = shares.store.decide(charges).await;
    // What is resolved again is counted then.
    if !matches!(decided, Err(StoreError::Superseded)) {
        shares.counters.add(OnStoreError::Local);
    }
    decided
}

/// Whether the shared store has had no answer to this request. Only then is a request resolved
/// again: of the two stores, only that of this process looks for state of later limits.
fn is_resolved_again(charges: &[Charge<'_>]) -> bool {
    charges.iter().any(|charge| !charge.resolution.is_first())
}

/// Whether this is an error also while the store is not out of order.
const fn is_final(error: &StoreError) -> bool {
    match error {
        // A request that this store cannot decide, no other store can.
        StoreError::Unfit { .. } | StoreError::TooManyCharges(_) => true,
        _ => false,
    }
}

/// The first charge with this choice that can decide the outcome of the request. A shadow limit
/// never does, so its `on_store_error` is not looked at; a refund denies nothing, but it can be an
/// error, which says that nothing was refunded.
fn first(choice: OnStoreError, charges: &[Charge<'_>], quotas: Quotas) -> Option<usize> {
    charges.iter().position(|charge| {
        charge.sharing.on_store_error == choice
            && charge.enforcement != Enforcement::Shadow
            && !quotas.is_dispensable(charge)
            && !(charge.cost.is_refund() && choice == OnStoreError::Deny)
    })
}

fn allow(charge: &Charge<'_>) -> Decision {
    Decision::Allow(Grant::new(charge.limit.available(), Span::ZERO))
}

fn unavailable() -> Decision {
    Decision::Deny(Denial::new(Wait::For(DENIED_FOR), 0, DENIED_FOR))
}

/// A denial, if one of the charges has `Deny`.
fn deny_uncounted(charges: &[Charge<'_>], quotas: Quotas, counters: &Counters) -> Option<Verdict> {
    let by = first(OnStoreError::Deny, charges, quotas)?;
    counters.add(OnStoreError::Deny);
    Some(deny(charges, by))
}

/// Denies every charge whose `on_store_error` is `deny`; `by` is the first of them. Quotas deny
/// only together, so one with `error` does not count as allowed.
fn deny(charges: &[Charge<'_>], by: usize) -> Verdict {
    let decide = |charge: &Charge<'_>| match (charge.sharing.on_store_error, charge.enforcement) {
        // Nothing was refunded, and nobody knows what remains.
        _ if charge.cost.is_refund() => Decision::Allow(Grant::new(0, Span::ZERO)),
        (OnStoreError::Deny, _) | (OnStoreError::Error, Enforcement::Quota) => unavailable(),
        _ => allow(charge),
    };
    Verdict {
        decisions: charges.iter().map(decide).collect(),
        denial: Some(RequestDenial {
            by,
            wait: Wait::For(DENIED_FOR),
            reason: DenialReason::StoreUnavailable,
        }),
        decided_by: DecidedBy::Fallback,
    }
}
