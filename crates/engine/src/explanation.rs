//! Why a request is allowed or denied: the same look-ups and the same stores as for a decision, and
//! nothing is charged or counted.

use tollgate_core::{
    Answer, Charge, Cost, Limit, OnDenial, Request, Resolution, Span, Status, StoreError, Verdict,
};
use tollgate_rules::{Attempt, Explained, Finding, Walk};

use crate::denied_requests::DeniedRequest;

use crate::engine::{ActiveRules, Engine};

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
    /// If the shared store had no answer: for each descriptor, in their order, this instance's
    /// share of its limit, if it is decided on that.
    pub shares: Option<Vec<Option<Limit>>>,
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
            let (active, resolution) = (attempt.rules(), attempt.resolution());
            let explained = self.explain_under(active, request, resolution).await;
            match attempt.next(&explained, || self.rules.load()) {
                None => return explained,
                Some(next) => attempt = next,
            }
        }
    }

    /// Keeps a request that was denied, for [`Engine::find_denials`]: under `id`, that of the
    /// client, if it is short and plain, or under a new one. Returns the id, for the answer. `None`
    /// if it was allowed, is too large or nothing is kept.
    pub fn keep_denial(
        &self,
        id: Option<&[u8]>,
        request: &Request<'_>,
        answer: &Answer,
    ) -> Option<Box<str>> {
        if answer.is_allowed() {
            return None;
        }
        let now = self.stores().now();
        let has_answered = || {
            let store = &self.stores().of(request.domain_name()).store;
            !answer.is_store_unavailable() && store.is_up()
        };
        self.denied_requests
            .keep(id, request, answer, has_answered, now)
    }

    /// The requests with this id that were denied in the last [`DENIED_REQUEST_KEPT`] and are not
    /// replaced by later ones, the latest first, each with the time since.
    ///
    /// [`DENIED_REQUEST_KEPT`]: crate::DENIED_REQUEST_KEPT
    pub fn find_denials(&self, id: &str) -> Vec<(DeniedRequest, Span)> {
        let now = self.stores().now();
        let found = self.denied_requests.find(id, now).into_iter();
        found
            .map(|denied| (now.since(denied.at), denied))
            .map(|(ago, denied)| (denied, ago))
            .collect()
    }

    /// Explains under these rules, even if they are replaced meanwhile.
    async fn explain_under(
        &self,
        active: &ActiveRules,
        request: &Request<'_>,
        resolution: Resolution,
    ) -> Result<Explanation, StoreError> {
        let named = self.stores().of(request.domain_name());
        let explained = active
            .rules
            .explain(request, &named.store, &self.headroom());
        let Explained { resolved, findings } = explained;
        let mut charges = resolved.charges_under(resolution);
        charges.iter_mut().for_each(peek);
        let (verdict, shares) = if charges.is_empty() {
            (Verdict::default(), None)
        } else {
            named.store.explain(&charges).await?
        };
        let answer = resolved.answer(&verdict);
        Ok(Explanation {
            shares: shares.map(|shares| of_descriptors(&answer, shares)),
            answer,
            findings,
            store: named.name.clone(),
            is_shared: named.is_shared(),
        })
    }
}

/// What belongs to charges, by the descriptors that have them.
fn of_descriptors(answer: &Answer, shares: Vec<Option<Limit>>) -> Vec<Option<Limit>> {
    let mut shares = shares.into_iter();
    let statuses = answer.statuses.iter();
    let shares = statuses.map(|status| match status {
        Status::Limited(_) => shares.next().flatten(),
        _ => None,
    });
    shares.collect()
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
