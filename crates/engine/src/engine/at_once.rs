//! Decisions in the memory of this process: made at once, without a task that could wait.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tollgate_core::{Request, Resolution, StoreError, Verdict};
use tollgate_rules::{Attempt, Resolved};

use super::{ActiveRules, Decided, Engine};
use crate::stores::EngineMemory;

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
                let decided =
                    self.decide_resolved(&active, request, resolved, Resolution::First, memory);
                let decided = match decided {
                    // The rules were replaced meanwhile, so it is resolved again.
                    Err(StoreError::Superseded) => self.decide_in(memory, request, None),
                    decided => decided,
                };
                take(request, decided);
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
            let decided = {
                let (active, resolution) = (attempt.rules(), attempt.resolution());
                let resolved =
                    active
                        .rules
                        .resolve_with_headroom(request, memory, &self.headroom());
                let began = store_time.is_some().then(Instant::now);
                let decided = self.decide_resolved(active, request, &resolved, resolution, memory);
                if let (Some(store_time), Some(began)) = (store_time.as_deref_mut(), began) {
                    *store_time += began.elapsed();
                }
                decided
            };
            match attempt.next(decided, || self.rules.load()) {
                ControlFlow::Break(decided) => return decided,
                ControlFlow::Continue(next) => attempt = next,
            }
        }
    }

    /// Decides under these rules, even if they are replaced meanwhile.
    fn decide_resolved(
        &self,
        active: &ActiveRules,
        request: &Request<'_>,
        resolved: &Resolved<'_>,
        resolution: Resolution,
        memory: &EngineMemory,
    ) -> Result<Decided, StoreError> {
        let mut verdict = Verdict::default();
        let charges = resolved.charges_under(resolution);
        if !charges.is_empty() {
            memory.decide_into(&charges, &mut verdict)?;
        }
        Ok(self.conclude(active, request, resolved, &verdict))
    }
}
