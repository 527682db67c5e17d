//! The quotas of a request that is decided without its shared store.

use tollgate_core::{Charge, Enforcement, OnStoreError};

/// What the quotas of a request do together. The request needs only one of them, so it is not
/// denied, and no error, if another one can still allow it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quotas {
    /// One of them allows the request: `Allow`.
    has_allowing: bool,
    /// One of them may allow the request: `Local`.
    has_local: bool,
}

// === impl Quotas ===

impl Quotas {
    pub(crate) fn of(charges: &[Charge<'_>]) -> Quotas {
        let has = |choice: OnStoreError| {
            charges.iter().any(|charge| {
                let is_quota = charge.enforcement == Enforcement::Quota;
                let is_judged = !charge.cost.is_refund();
                is_quota && is_judged && charge.sharing.on_store_error == choice
            })
        };
        Quotas {
            has_allowing: has(OnStoreError::Allow),
            has_local: has(OnStoreError::Local),
        }
    }

    /// Whether this charge is a quota that cannot be decided, in place of which another one can.
    pub(crate) const fn is_dispensable(self, charge: &Charge<'_>) -> bool {
        let is_undecided = matches!(
            charge.sharing.on_store_error,
            OnStoreError::Deny | OnStoreError::Error
        );
        let is_quota = matches!(charge.enforcement, Enforcement::Quota);
        is_quota && is_undecided && (self.has_allowing || self.has_local)
    }

    /// What a denial of this instance's share does: nothing, if another quota allows the request.
    pub(crate) fn local_enforcement(self, charge: &Charge<'_>) -> Enforcement {
        match charge.enforcement {
            Enforcement::Quota if self.has_allowing => Enforcement::Shadow,
            enforcement => enforcement,
        }
    }
}
