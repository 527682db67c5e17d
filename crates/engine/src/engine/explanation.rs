//! Why a request is allowed or denied: the same look-ups and the same stores as for a decision, and
//! nothing is charged or counted.

use std::ops::ControlFlow;

use tollgate_core::{Answer, Charge, Cost, OnDenial, Request, Store, StoreError, Verdict};
use tollgate_rules::{Attempt, Explained, Finding, Walk};

use super::{ActiveRules, Engine, charges};

/// Why a request would be allowed or denied now.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an explanation is made to be read"]
pub struct Explanation {
    /// For each descriptor, in their order, how its rule was searched and what came of it.
    pub findings: Vec<(Walk, Finding)>,
    /// What would be decided. The cost is not charged, so an allowed one is still remaining, and a
    /// leaky bucket has no delay.
    pub answer: Answer,
    /// The name of the domain's store in the settings.
    pub store: String,
    /// Whether other instances share it.
    pub is_shared: bool,
}

// === impl Engine ===

impl Engine {
    /// Explains what would be decided on `request` now. Charges nothing and counts no decision; a
    /// refund is left out.
    ///
    /// # Errors
    ///
    /// As [`Engine::decide`].
    pub async fn explain(&self, request: &Request<'_>) -> Result<Explanation, StoreError> {
        let mut attempt = Attempt::first(self.rules.load());
        loop {
            let (active, is_current) = (attempt.rules(), attempt.is_current());
            let explained = self.explain_under(active, request, is_current).await;
            match attempt.next(explained, || self.rules.load()) {
                ControlFlow::Break(explained) => return explained,
                ControlFlow::Continue(next) => attempt = next,
            }
        }
    }

    /// Explains under these rules, even if they are replaced meanwhile.
    async fn explain_under(
        &self,
        active: &ActiveRules,
        request: &Request<'_>,
        is_current: bool,
    ) -> Result<Explanation, StoreError> {
        let named = self.stores.of(request.domain_name());
        let explained = active.rules.explain(request, &named.store);
        let Explained { resolved, findings } = explained;
        let mut charges = charges(&resolved, is_current);
        charges.iter_mut().for_each(peek);
        let verdict = if charges.is_empty() {
            Verdict::default()
        } else {
            named.store.decide(&charges).await?
        };
        Ok(Explanation {
            answer: resolved.answer(&verdict),
            findings,
            store: named.name.clone(),
            is_shared: named.is_shared(),
        })
    }
}

/// Makes a charge one that only looks.
pub fn peek(charge: &mut Charge<'_>) {
    charge.on_denial = OnDenial::Keep;
    charge.cost = match charge.cost {
        Cost::Take(units) | Cost::Peek(units) => Cost::Peek(units),
        // A refund never fails, so it has no part in the decision.
        Cost::Refund(_) => Cost::Refund(0),
    };
}
