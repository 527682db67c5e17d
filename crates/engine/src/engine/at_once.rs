//! Decisions in the memory of this process: made at once, without a task that could wait.

use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tollgate_core::{PerCharge, Request, Resolution, StoreError, Verdict};
use tollgate_rules::{Attempt, Resolved};

use super::{Decided, Engine};
use crate::stores::{DomainStore, EngineMemory};

/// Requests that are resolved before the first of them is decided, so that the memory of their keys
/// is on its way meanwhile.
const BLOCK: usize = 8;

// === impl Engine ===

impl Engine {
    /// Whether all requests are decided in the memory of this process, whatever their domain:
    /// [`Engine::decide_at_once`] then decides on them.
    pub fn is_in_memory(&self) -> bool {
        !self.stores.has_shared()
    }

    /// Whether a request is decided in the memory of this process.
    pub fn decides_in_memory(&self, request: &Request<'_>) -> bool {
        let store = &self.stores.of(request.domain_name()).store;
        matches!(store, DomainStore::Memory(_))
    }

    /// Whether a limit of the request's domain may delay requests.
    pub fn may_delay(&self, request: &Request<'_>) -> bool {
        self.rules.load().rules.may_delay(request.domain)
    }

    /// Decides on independent requests as [`Engine::decide`] would, one after the other in their
    /// order, and passes each with its answer to `take`. Returns whether it did: nothing is decided
    /// unless [`Engine::is_in_memory`].
    ///
    /// The caller must bound the number of requests: nothing else is decided by this thread
    /// meanwhile.
    #[must_use = "nothing is decided without the memory"]
    pub fn decide_at_once<'r, 'q: 'r>(
        &self,
        requests: &'r [Request<'q>],
        mut take: impl FnMut(&'r Request<'q>, Result<Decided, StoreError>),
    ) -> bool {
        if !self.is_in_memory() {
            return false;
        }
        let active = self.rules.load();
        let memory = self.stores.memory();
        for block in requests.chunks(BLOCK) {
            let mut resolved: SmallVec<[Resolved<'_>; BLOCK]> = SmallVec::new();
            for request in block {
                let one = active
                    .rules
                    .resolve_with_headroom(request, memory, &self.headroom());
                one.keys().for_each(|key| memory.prefetch(key));
                resolved.push(one);
            }
            for (request, resolved) in block.iter().zip(&resolved) {
                let mut verdict = Verdict::default();
                match charge(resolved, Resolution::First, memory, &mut verdict) {
                    // The rules were replaced meanwhile, so it is resolved again.
                    Err(StoreError::Superseded) => {
                        take(request, self.decide_in(memory, request, None));
                    }
                    charged => take(
                        request,
                        charged.map(|()| self.conclude(&active, request, resolved, &verdict)),
                    ),
                }
            }
        }
        true
    }

    /// Decides, and again if the rules are replaced meanwhile. How long the store takes is added to
    /// `store_time`.
    pub(super) fn decide_in(
        &self,
        memory: &EngineMemory,
        request: &Request<'_>,
        mut store_time: Option<&mut Duration>,
    ) -> Result<Decided, StoreError> {
        let mut attempt = Attempt::first(self.rules.load());
        loop {
            let next = {
                let (active, resolution) = (attempt.rules(), attempt.resolution());
                let resolved =
                    active
                        .rules
                        .resolve_with_headroom(request, memory, &self.headroom());
                let began = store_time.is_some().then(Instant::now);
                let mut verdict = Verdict::default();
                let charged = charge(&resolved, resolution, memory, &mut verdict);
                if let (Some(store_time), Some(began)) = (store_time.as_deref_mut(), began) {
                    *store_time += began.elapsed();
                }
                match attempt.next(&charged, || self.rules.load()) {
                    Some(next) => next,
                    None => {
                        return charged
                            .map(|()| self.conclude(active, request, &resolved, &verdict));
                    }
                }
            };
            attempt = next;
        }
    }
}

/// Decides on a request that was resolved, even if the rules are replaced meanwhile.
///
/// Lists of charges, verdicts and answers have room for several limits, hundreds of bytes, which
/// are copied when they are returned. So none is returned here.
fn charge(
    resolved: &Resolved<'_>,
    resolution: Resolution,
    memory: &EngineMemory,
    verdict: &mut Verdict,
) -> Result<(), StoreError> {
    let mut charges = PerCharge::new();
    resolved.append_charges(resolution, &mut charges);
    if charges.is_empty() {
        return Ok(());
    }
    memory.decide_into(&charges, verdict)
}
