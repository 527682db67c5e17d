//! An attempt to decide under the limits in effect, and further ones if a limit is replaced
//! meanwhile.

use tollgate_core::{Charge, Clock, PerCharge, RESOLUTIONS_MAX, Resolution, StoreError, Verdict};
use tollgate_memory::Memory;

use super::ask::Ask;
use crate::limiter::{Limiter, LoadedTerms};

/// Decides under the limits in effect, into `verdict`.
pub(super) fn decide<C: Clock>(
    asks: &[Ask<'_, Limiter<C>>],
    verdict: &mut Verdict,
) -> Result<(), StoreError> {
    decide_by(asks, |store, charges| store.decide_into(charges, verdict))
}

/// Calls `decide` under the limits in effect. If a limit is replaced meanwhile, the decision starts
/// again. Without limits, there is nothing to decide.
pub(super) fn decide_by<C: Clock, T: Default>(
    asks: &[Ask<'_, Limiter<C>>],
    decide: impl FnMut(&Memory<C>, &[Charge<'_>]) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let Some(first) = asks.first() else {
        return Ok(T::default());
    };
    let store = first.limiter.store();
    // Nearly all limiters keep their first limit, which needs no counted reference. And most
    // requests with several limits have two, for which an array takes less time than a list.
    let resolution = Resolution::First;
    if let [one, other] = asks
        && let Some(one_terms) = one.limiter.first_terms()
        && let Some(other_terms) = other.limiter.first_terms()
    {
        let charges = [
            one.charge(one_terms, resolution),
            other.charge(other_terms, resolution),
        ];
        return decide_first(asks, store, &charges, decide);
    }
    let mut charges = PerCharge::new();
    let first_terms = asks
        .iter()
        .map_while(|ask| Some((ask, ask.limiter.first_terms()?)));
    charges.extend(first_terms.map(|(ask, terms)| ask.charge(terms, resolution)));
    if charges.len() == asks.len() {
        return decide_first(asks, store, &charges, decide);
    }
    decide_replaced(asks, store, decide)
}

/// Calls `decide` with `charges`, which are under the limiters' first limits.
fn decide_first<C: Clock, T>(
    asks: &[Ask<'_, Limiter<C>>],
    store: &Memory<C>,
    charges: &[Charge<'_>],
    mut decide: impl FnMut(&Memory<C>, &[Charge<'_>]) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match decide(store, charges) {
        Err(StoreError::Superseded) => decide_replaced(asks, store, decide),
        answer => answer,
    }
}

/// As [`decide_by`], where limits have been replaced.
#[cold]
fn decide_replaced<C: Clock, T>(
    asks: &[Ask<'_, Limiter<C>>],
    store: &Memory<C>,
    mut decide: impl FnMut(&Memory<C>, &[Charge<'_>]) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut resolution = Resolution::First;
    let mut terms: PerCharge<LoadedTerms<'_>> =
        asks.iter().map(|ask| ask.limiter.terms()).collect();
    for _ in 0..RESOLUTIONS_MAX {
        let answer = {
            let mut charges = PerCharge::new();
            for (ask, terms) in asks.iter().zip(&terms) {
                charges.push(ask.charge(terms, resolution));
            }
            decide(store, &charges)
        };
        let Err(StoreError::Superseded) = answer else {
            return answer;
        };
        let latest: PerCharge<LoadedTerms<'_>> =
            asks.iter().map(|ask| ask.limiter.terms()).collect();
        // If the limits have not changed, a state only looks later, because revisions wrap.
        resolution = Resolution::after(terms.iter().zip(&latest).all(|(old, new)| old.are(new)));
        terms = latest;
    }
    Err(StoreError::Superseded)
}
