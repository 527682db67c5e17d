//! Requests with several limits. Redis decides them, and counts the units that this instance holds
//! of their keys as consumed. So that this denies nothing, those leases are returned.

use tokio::time::{Instant, timeout_at};
use tollgate_core::{Charge, Cost, Key, OnDenial, Verdict, Wait};

use super::{Leased, Renewer};
use crate::join::join_all;
use crate::leases::{Renewal, Spend};
use crate::stage::Budget;

/// Whether a request changes something even if it is denied. Then the leases of its keys are
/// returned before it is decided, which takes a round trip more; otherwise, only if it is denied.
pub(crate) fn acts_if_denied(charges: &[Charge<'_>]) -> bool {
    charges.iter().any(|charge| {
        matches!(charge.cost, Cost::Refund(1..)) || charge.on_denial == OnDenial::Charge
    })
}

// === impl Leased ===

impl Leased {
    /// Returns the leases of all keys of a request; says whether there were any.
    pub(crate) async fn return_leases(&self, charges: &[Charge<'_>], budget: &mut Budget) -> bool {
        let keys = charges.iter().map(|charge| charge.key);
        self.return_all(keys, budget).await
    }

    /// Returns the leases of those keys that deny a request, if it fits their limits at all; says
    /// whether there were any: then it is to be decided again.
    pub(crate) async fn return_denying(
        &self,
        charges: &[Charge<'_>],
        denied: &Verdict,
        budget: &mut Budget,
    ) -> bool {
        let decided = charges.iter().zip(&denied.decisions);
        let denying = decided.filter(|(_, one)| matches!(one.wait(), Some(Wait::For(_))));
        let keys = denying.map(|(charge, _)| charge.key);
        self.return_all(keys, budget).await
    }

    async fn return_all(&self, keys: impl Iterator<Item = Key>, budget: &mut Budget) -> bool {
        let leased = keys.filter(|key| self.leases.is_leased(*key));
        let returns: Vec<_> = leased
            .map(|key| self.return_lease(key, budget.since()))
            .collect();
        !returns.is_empty() && join_all(returns).await.contains(&true)
    }

    /// Returns the lease of a key, after a renewal in flight; says whether Redis holds less for
    /// this instance than before.
    async fn return_lease(&self, key: Key, since: Instant) -> bool {
        let deadline = since + self.renewer.router.reply_timeout();
        let mut has_waited = false;
        loop {
            match self.leases.begin_return(key) {
                Spend::Renew(renewal) => {
                    // Its own task: a caller that goes away does not lose the lease.
                    let returned = self.renewer.clone().return_lease(renewal, since);
                    return tokio::spawn(returned).await.unwrap_or(false);
                }
                Spend::Wait(renewed) => {
                    if timeout_at(deadline, renewed).await.is_err() {
                        return false;
                    }
                    has_waited = true;
                }
                _ => return has_waited,
            }
        }
    }
}

// === impl Renewer ===

impl Renewer {
    async fn return_lease(self, renewal: Renewal, since: Instant) -> bool {
        self.renew(renewal, super::Caller::NONE, since)
            .await
            .is_ok()
    }
}
