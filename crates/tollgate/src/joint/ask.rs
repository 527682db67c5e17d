//! What is asked of one limit in a request to several.

use std::fmt;

use tollgate_core::{Charge, ChargeDenied, Cost, Enforcement, Key, Resolution};

use crate::limiter::{Limiter, Priority, Terms};

/// The part of a request that concerns one limit; made by [`Limiter::ask`], or by
/// that of a limiter over Redis.
///
/// # Example
///
/// ```
/// use tollgate::{ChargeDenied, Limit, Limiter, check_all};
///
/// let tokens = Limiter::builder(Limit::per_hour(1_000)).name("tokens").build();
/// let trial = tokens.sibling("a stricter limit on trial", Limit::per_hour(500));
/// let report = |used| {
///     let charged = tokens.ask_n("bob", used).charge_denied(ChargeDenied::Always);
///     check_all(&[charged, trial.ask_n("bob", used).shadow()])
/// };
/// assert!(report(600)?.is_allowed(), "the limit on trial denies nothing");
/// assert!(!report(600)?.is_allowed());
/// // The tokens are used up, although their report was denied.
/// assert!(!check_all(&[tokens.ask_n("bob", 1).peek()])?.is_allowed());
/// # Ok::<(), tollgate::JointError>(())
/// ```
#[must_use = "nothing is asked before `check_all`"]
pub struct Ask<'l, L = Limiter> {
    pub(super) limiter: &'l L,
    pub(super) key: Key,
    pub(super) cost: Cost,
    pub(super) enforcement: Enforcement,
    pub(super) charge_denied: ChargeDenied,
    pub(super) priority: Priority,
}

// === impl Ask ===

impl<'l, L> Ask<'l, L> {
    pub(crate) const fn new(limiter: &'l L, key: Key, cost: Cost) -> Ask<'l, L> {
        Ask {
            limiter,
            key,
            cost,
            enforcement: Enforcement::Enforce,
            charge_denied: ChargeDenied::Never,
            priority: Priority::Without,
        }
    }

    /// Lets the request use the share of the limit that [`Limit::priority_share`] keeps for
    /// requests with priority. Without effect if it also asks the same key of this limit without
    /// priority: all of these units must then fit without the share.
    ///
    /// [`Limit::priority_share`]: tollgate_core::Limit::priority_share
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, check_all};
    ///
    /// let limiter = Limiter::new(Limit::per_hour(10).priority_share(20));
    /// assert!(!check_all(&[limiter.ask_n("bob", 9)])?.is_allowed());
    /// assert!(check_all(&[limiter.ask_n("bob", 9).with_priority()])?.is_allowed());
    /// # Ok::<(), tollgate::JointError>(())
    /// ```
    pub const fn with_priority(mut self) -> Ask<'l, L> {
        self.priority = Priority::With;
        self
    }

    /// Only peeks: charges nothing.
    pub const fn peek(mut self) -> Ask<'l, L> {
        self.cost = Cost::Peek(self.cost.units());
        self
    }

    /// Makes this a shadow limit, which never denies the request. It is charged only if its units
    /// fit. Without effect if the request also asks the same key of this limit without `shadow`:
    /// all of these units must then fit.
    pub const fn shadow(mut self) -> Ask<'l, L> {
        self.enforcement = Enforcement::Shadow;
        self
    }

    /// Sets whether a denied request is charged to this limit. Default: [`ChargeDenied::Never`].
    /// Without effect on a request that waits until it is allowed.
    pub const fn charge_denied(mut self, charge_denied: ChargeDenied) -> Ask<'l, L> {
        self.charge_denied = charge_denied;
        self
    }

    /// The same part of a request that waits, and so is not denied before it is given up.
    pub(super) const fn without_charge_for_denial(&self) -> Ask<'l, L> {
        Ask {
            charge_denied: ChargeDenied::Never,
            ..*self
        }
    }

    /// What is charged under `terms`, those of its limiter.
    pub(crate) const fn charge<'t>(&self, terms: &'t Terms, resolution: Resolution) -> Charge<'t> {
        Charge {
            enforcement: self.enforcement,
            on_denial: self.charge_denied.on_denial(self.cost),
            resolution,
            ..terms.charge_as(self.priority, self.key, self.cost)
        }
    }

    pub(crate) const fn limiter(&self) -> &'l L {
        self.limiter
    }
}

impl<L: fmt::Debug> fmt::Debug for Ask<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("limiter", &self.limiter)
            .field("cost", &self.cost)
            .field("enforcement", &self.enforcement)
            .field("charge_denied", &self.charge_denied)
            .finish_non_exhaustive()
    }
}
