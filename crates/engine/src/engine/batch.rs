//! Several requests at once.

use tollgate_core::{Charge, Request, Resolution, Store, StoreError, Verdict};
use tollgate_rules::{Attempt, Resolved};

use super::{ActiveRules, Decided, Engine};
use crate::stores::NamedStore;

/// How many requests are best decided at once if all of them are decided in memory.
///
/// More save little, and what describes them, some hundred bytes each, would leave the processor's
/// first cache before it is used again.
const BATCH_IN_MEMORY: usize = 32;

/// Requests of which each has its store and its charges.
struct Batch<'b> {
    stores: Vec<&'b NamedStore>,
    /// The charges of all requests.
    charges: Vec<Charge<'b>>,
    /// Where those of each request end.
    ends: Vec<usize>,
}

// === impl Engine ===

impl Engine {
    /// How many requests [`Engine::decide_batch`] is best called with, if there are more: all of
    /// them for a shared store, because one call then asks it about all; few otherwise.
    pub fn batch_size(&self) -> usize {
        match self.stores.has_shared() {
            true => usize::MAX,
            false => BATCH_IN_MEMORY,
        }
    }

    /// Decides on independent requests as [`Engine::decide`] would, one after the other in their
    /// order, with one call of each store: a shared store is asked about all of them at once. The
    /// answers are in the same order.
    ///
    /// The caller must bound the number of requests: nothing else is decided in this task
    /// meanwhile.
    pub async fn decide_batch(&self, requests: &[Request<'_>]) -> Vec<Result<Decided, StoreError>> {
        let mut decided = {
            let active = self.rules.load();
            self.decide_batch_under(&active, requests).await
        };
        for (request, decided) in requests.iter().zip(&mut decided) {
            // The rules were replaced meanwhile, so it is resolved again.
            if matches!(decided, Err(StoreError::Superseded)) {
                let again = Attempt::again(self.rules.load());
                *decided = self.decide_from(again, request, None).await;
            }
        }
        decided
    }

    /// Decides under these rules, even if they are replaced meanwhile.
    async fn decide_batch_under(
        &self,
        active: &ActiveRules,
        requests: &[Request<'_>],
    ) -> Vec<Result<Decided, StoreError>> {
        let headroom = self.headroom();
        let mut batch = Batch::with_capacity(requests.len());
        let resolved: Vec<Resolved<'_>> = requests
            .iter()
            .map(|request| {
                let named = self.stores.of(request.domain_name());
                batch.stores.push(named);
                active
                    .rules
                    .resolve_with_headroom(request, &named.store, &headroom)
            })
            .collect();
        for resolved in &resolved {
            resolved.append_charges(Resolution::First, &mut batch.charges);
            batch.ends.push(batch.charges.len());
        }
        let verdicts = batch.decide().await.into_iter();
        let requests = requests.iter().zip(&resolved).zip(verdicts);
        requests
            .map(|((request, resolved), verdict)| {
                verdict.map(|verdict| self.conclude(active, request, resolved, &verdict))
            })
            .collect()
    }
}

// === impl Batch ===

impl Batch<'_> {
    fn with_capacity(requests: usize) -> Self {
        Batch {
            stores: Vec::with_capacity(requests),
            charges: Vec::with_capacity(requests),
            ends: Vec::with_capacity(requests),
        }
    }

    /// Decides on all requests, with one call of each store. Requests that meet no limit are
    /// allowed without one.
    async fn decide(&self) -> Vec<Result<Verdict, StoreError>> {
        let mut verdicts: Vec<Result<Verdict, StoreError>> = Vec::new();
        verdicts.resize_with(self.ends.len(), || Ok(Verdict::default()));
        let mut rest: Vec<usize> = (0..self.ends.len())
            .filter(|at| !self.charges_of(*at).is_empty())
            .collect();
        while let Some(first) = rest.first() {
            let named = self.stores[*first];
            let is_of_store = |at: &usize| std::ptr::eq(self.stores[*at], named);
            let (of_store, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_of_store);
            let charges: Vec<_> = of_store.iter().map(|at| self.charges_of(*at)).collect();
            let decided = named.store.decide_batch(&charges).await;
            for (at, verdict) in of_store.into_iter().zip(decided) {
                verdicts[at] = verdict;
            }
            rest = others;
        }
        verdicts
    }

    fn charges_of(&self, at: usize) -> &[Charge<'_>] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.charges[start..self.ends[at]]
    }
}
