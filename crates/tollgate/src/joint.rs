//! Several limits on one request: all or nothing.

mod waiting;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{
    Charge, ChargeDenied, Clock, Cost, Decision, Denial, DenialReason, Enforcement, Key,
    RESOLUTIONS_MAX, RequestDenial, Span, StoreError, Verdict, Wait,
};
use tollgate_memory::SystemClock;

use crate::limiter::{FAILURE_WAIT, Limiter, LoadedTerms};

#[cfg(feature = "async")]
pub use waiting::until_all_ready;
pub use waiting::until_all_ready_with;

/// The part of a request that concerns one limit; made by [`Limiter::ask`].
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
pub struct Ask<'l, C = SystemClock> {
    limiter: &'l Limiter<C>,
    key: Key,
    cost: Cost,
    enforcement: Enforcement,
    charge_denied: ChargeDenied,
}

/// The decision of several limits on one request.
///
/// It owns the limits' names, so it can be stored with the request, for instance in the extensions
/// of an HTTP request.
#[must_use = "a decision that is not read enforces nothing"]
#[derive(Clone, Debug)]
pub struct JointDecision {
    names: Arc<[Arc<str>]>,
    verdict: Verdict,
}

/// Why several limits could not decide together. Nothing was charged.
#[derive(Debug)]
#[non_exhaustive]
pub enum JointError {
    /// Two limiters count in different memory, so they cannot be charged together. Make the second
    /// with [`Limiter::sibling`], or all of them with [`crate::Limits`].
    NotSiblings {
        /// The name of the limit that is not a sibling of the first.
        name: Box<str>,
    },
    /// The store failed.
    Store(StoreError),
}

/// Decides on several limits at once: the request is allowed only if all of them allow it, and only
/// then are they charged.
///
/// [`crate::Limits`] does the same for limits that apply to every request, and cannot fail.
///
/// # Errors
///
/// [`JointError`]; a denial is a [`JointDecision`].
///
/// # Example
///
/// ```
/// use tollgate::{Limit, Limiter, check_all};
///
/// let user = Limiter::builder(Limit::per_minute(10)).name("per user").build();
/// let address = user.sibling("per address", Limit::per_hour(25));
/// for _ in 0..10 {
///     assert!(check_all(&[user.ask("bob"), address.ask("192.0.2.7")])?.is_allowed());
/// }
/// let decision = check_all(&[user.ask("bob"), address.ask("192.0.2.7")])?;
/// assert_eq!(decision.denied_by(), Some("per user"));
/// // The denied request cost the other limit nothing.
/// assert_eq!(address.peek("192.0.2.7", 1).remaining(), 15);
/// # Ok::<(), tollgate::JointError>(())
/// ```
pub fn check_all<C: Clock>(asks: &[Ask<'_, C>]) -> Result<JointDecision, JointError> {
    let Some(first) = asks.first() else {
        return Ok(JointDecision {
            names: Arc::new([]),
            verdict: Verdict::default(),
        });
    };
    let store = first.limiter.store();
    let mut others = asks.iter().map(|ask| ask.limiter);
    if let Some(other) = others.find(|limiter| !Arc::ptr_eq(limiter.store(), store)) {
        let name = other.name().into();
        return Err(JointError::NotSiblings { name });
    }
    let names = asks.iter().map(|ask| Arc::clone(ask.limiter.shared_name()));
    Ok(JointDecision {
        names: names.collect(),
        verdict: decide(asks).map_err(JointError::Store)?,
    })
}

/// Decides under the limits in effect. If a limit is replaced meanwhile, the decision starts again.
fn decide<C: Clock>(asks: &[Ask<'_, C>]) -> Result<Verdict, StoreError> {
    let Some(first) = asks.first() else {
        return Ok(Verdict::default());
    };
    let mut is_current = false;
    let mut terms: Vec<LoadedTerms<'_>> = asks.iter().map(|ask| ask.limiter.terms()).collect();
    for _ in 0..RESOLUTIONS_MAX {
        let mut charges = Vec::with_capacity(asks.len());
        for (ask, terms) in asks.iter().zip(&terms) {
            charges.push(Charge {
                enforcement: ask.enforcement,
                on_denial: ask.charge_denied.on_denial(ask.cost),
                is_current,
                ..terms.charge(ask.key, ask.cost)
            });
        }
        let answer = first.limiter.store().decide_now(&charges);
        let Err(StoreError::Superseded) = answer else {
            return answer;
        };
        let latest: Vec<LoadedTerms<'_>> = asks.iter().map(|ask| ask.limiter.terms()).collect();
        // If the limits have not changed, a state only looks later, because revisions wrap.
        is_current = terms.iter().zip(&latest).all(|(old, new)| old.are(new));
        terms = latest;
    }
    Err(StoreError::Superseded)
}

// === impl Ask ===

impl<'l, C> Ask<'l, C> {
    pub(crate) const fn new(limiter: &'l Limiter<C>, key: Key, cost: Cost) -> Ask<'l, C> {
        Ask {
            limiter,
            key,
            cost,
            enforcement: Enforcement::Enforce,
            charge_denied: ChargeDenied::Never,
        }
    }

    /// Only peeks: charges nothing.
    pub const fn peek(mut self) -> Ask<'l, C> {
        self.cost = Cost::Peek(self.cost.units());
        self
    }

    /// Makes this a shadow limit, which never denies the request. It is charged only if its units
    /// fit.
    pub const fn shadow(mut self) -> Ask<'l, C> {
        self.enforcement = Enforcement::Shadow;
        self
    }

    /// Sets whether a denied request is charged to this limit. Default: [`ChargeDenied::Never`].
    pub const fn charge_denied(mut self, charge_denied: ChargeDenied) -> Ask<'l, C> {
        self.charge_denied = charge_denied;
        self
    }

    pub(crate) const fn limiter(&self) -> &'l Limiter<C> {
        self.limiter
    }

    pub(crate) const fn key(&self) -> Key {
        self.key
    }

    pub(crate) const fn cost(&self) -> Cost {
        self.cost
    }
}

impl<C> fmt::Debug for Ask<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("limiter", &self.limiter)
            .field("cost", &self.cost)
            .field("enforcement", &self.enforcement)
            .field("charge_denied", &self.charge_denied)
            .finish_non_exhaustive()
    }
}

// === impl JointDecision ===

impl JointDecision {
    /// The decision with the limits' names; a denial if the store failed.
    pub(crate) fn of<C: Clock>(names: &Arc<[Arc<str>]>, asks: &[Ask<'_, C>]) -> JointDecision {
        let verdict = decide(asks).unwrap_or_else(|_| {
            asks.iter().for_each(|ask| ask.limiter.count_failure());
            without_answer(asks.len())
        });
        JointDecision {
            names: Arc::clone(names),
            verdict,
        }
    }

    /// Whether the request is allowed.
    pub const fn is_allowed(&self) -> bool {
        self.verdict.is_allowed()
    }

    /// The limit that denied the request: of several, the first of those with the longest wait.
    pub fn denied_by(&self) -> Option<&str> {
        let denial = self.verdict.denial?;
        match denial.reason {
            DenialReason::StoreUnavailable => None,
            _ => self.names.get(denial.by).map(|name| &**name),
        }
    }

    /// The time until the same request is allowed; `None` if it is allowed.
    pub fn wait(&self) -> Option<Wait> {
        self.verdict.denial.map(|denial| denial.wait)
    }

    /// The exact time until a retry is allowed; `None` if the request is allowed or never can be.
    pub fn retry_after(&self) -> Option<Duration> {
        self.wait()?.to_duration()
    }

    /// [`JointDecision::retry_after`] in whole seconds, rounded up: the value of a `Retry-After`
    /// header.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.wait()?.as_secs_ceil()
    }

    /// The largest cost that all limits would allow now; `None` if there are no limits.
    pub fn remaining(&self) -> Option<u32> {
        self.verdict.decisions.iter().map(Decision::remaining).min()
    }

    /// How long to hold the request before it may proceed; zero without a leaky bucket.
    pub fn delay(&self) -> Duration {
        self.verdict.delay().into()
    }

    /// The decision of each limit with its name, in the order of the request.
    pub fn decisions(&self) -> impl Iterator<Item = (&str, &Decision)> {
        let names = self.names.iter().map(|name| &**name);
        names.zip(&self.verdict.decisions)
    }
}

/// The denial of a request for which the store failed; see [`Limiter::check`].
fn without_answer(limits: usize) -> Verdict {
    let wait = Span::from_duration(FAILURE_WAIT);
    Verdict {
        decisions: vec![Decision::Deny(Denial::new(Wait::For(wait), 0, wait)); limits],
        denial: Some(RequestDenial {
            by: 0,
            wait: Wait::For(wait),
            reason: DenialReason::StoreUnavailable,
        }),
    }
}

// === impl JointError ===

impl fmt::Display for JointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JointError::NotSiblings { name } => write!(
                f,
                "`{name}` counts in other memory than the first limit; make it with `sibling`"
            ),
            JointError::Store(_) => f.write_str("the store has no answer"),
        }
    }
}

impl std::error::Error for JointError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JointError::Store(source) => Some(source),
            JointError::NotSiblings { .. } => None,
        }
    }
}
