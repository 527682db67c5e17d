//! The one way from a request to an answer, whatever the door.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use tollgate_core::{Answer, RESOLUTIONS_MAX, Request, Store, StoreError, Verdict};
use tollgate_rules::RuleSet;

use crate::metrics::{Decisions, Tallies};
use crate::stores::Stores;

/// Rules, and the stores that remember what was consumed under them.
///
/// The rules are swapped as a whole: a decision sees the old ones or the new ones.
pub(crate) struct Engine {
    rules: ArcSwap<InForce>,
    stores: Arc<Stores>,
    decisions: Arc<Decisions>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an answer nobody reads enforces nothing"]
pub(crate) struct Decided {
    /// The answer.
    pub(crate) answer: Answer,
    /// The metadata of the rules that say yes, merged.
    pub(crate) metadata: Option<Map<String, Value>>,
}

/// The rules, and where each of them is counted.
struct InForce {
    rules: RuleSet,
    tallies: Tallies,
}

// === impl Engine ===

impl Engine {
    /// An engine over `stores`, as yet without rules.
    pub(crate) fn new(stores: Stores) -> Engine {
        let decisions = Arc::new(Decisions::default());
        let rules = RuleSet::default();
        let tallies = decisions.take_up(&rules);
        Engine {
            rules: ArcSwap::from_pointee(InForce { rules, tallies }),
            stores: Arc::new(stores),
            decisions,
        }
    }

    /// Decides on a request, and charges it if it may pass.
    ///
    /// A leaky bucket's delay is told in the answer; nobody is held here.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store has no answer and nothing stands in for it; a refusal is an
    /// answer.
    pub(crate) async fn decide(&self, request: &Request<'_>) -> Result<Decided, StoreError> {
        let mut in_force = self.rules.load();
        let mut is_current = false;
        for _ in 0..RESOLUTIONS_MAX {
            match self.decide_under(&in_force, request, is_current).await {
                Err(StoreError::Superseded) => {
                    // A decision under later rules came first. If there are none, the state is of a
                    // rule that was removed and forgotten since.
                    let latest = self.rules.load();
                    is_current = Arc::ptr_eq(&in_force, &latest);
                    in_force = latest;
                }
                decided => return decided,
            }
        }
        Err(StoreError::Superseded)
    }

    async fn decide_under(
        &self,
        in_force: &InForce,
        request: &Request<'_>,
        is_current: bool,
    ) -> Result<Decided, StoreError> {
        let domain = request.domain_name();
        let store = &self.stores.of(domain).store;
        let resolved = in_force.rules.resolve(request, store);
        let mut charges = resolved.charges();
        charges
            .iter_mut()
            .for_each(|charge| charge.is_current = is_current);
        let verdict = if charges.is_empty() {
            Verdict::default()
        } else {
            store.decide(&charges).await?
        };
        let answer = resolved.answer(&verdict);
        in_force
            .tallies
            .count(&self.decisions, domain, &resolved, &answer);
        let metadata = resolved.metadata(&answer);
        Ok(Decided { answer, metadata })
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> RuleSet {
        self.rules.load().rules.clone()
    }

    /// Puts other rules in force, for every decision that begins from now on.
    pub(crate) fn replace_rules(&self, rules: RuleSet) {
        let tallies = self.decisions.take_up(&rules);
        self.rules.store(Arc::new(InForce { rules, tallies }));
    }

    /// The stores.
    pub(crate) const fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }

    pub(crate) const fn decisions(&self) -> &Arc<Decisions> {
        &self.decisions
    }
}
