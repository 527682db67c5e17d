//! Several limits on one request: all or nothing.

mod ask;

mod error;

pub(crate) mod reservation;

mod waiting;

use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;
use tollgate_core::{
    Charge, Clock, Decision, DenialReason, PerCharge, RESOLUTIONS_MAX, RequestDenial, Resolution,
    StoreError, Verdict, Wait,
};
use tollgate_memory::Memory;

use crate::limiter::{Limiter, LoadedTerms, denial_without_answer};

pub use ask::Ask;
pub use error::JointError;
#[cfg(feature = "async")]
pub use waiting::until_all_ready;
pub use waiting::until_all_ready_with;

/// The names of a request's limits. Short ones are copied: to count references to a name would
/// cost all threads that use its limit as much as the decision.
pub(crate) type Names = PerCharge<SmolStr>;

/// The decision of several limits on one request.
///
/// It owns the limits' names, so it can be stored with the request, for instance in the extensions
/// of an HTTP request.
#[must_use = "a decision that is not read enforces nothing"]
#[derive(Clone, Debug)]
pub struct JointDecision {
    names: Names,
    verdict: Verdict,
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
pub fn check_all<C: Clock>(asks: &[Ask<'_, Limiter<C>>]) -> Result<JointDecision, JointError> {
    let mut decision = JointDecision {
        names: names_of(asks)?,
        verdict: Verdict::default(),
    };
    match decide(asks, &mut decision.verdict) {
        Ok(()) => Ok(decision),
        Err(error) => Err(JointError::Store(error)),
    }
}

/// The limits' names, if all of them count in the same memory.
fn names_of<C: Clock>(asks: &[Ask<'_, Limiter<C>>]) -> Result<Names, JointError> {
    let store = asks.first().map(|first| first.limiter.store());
    let is_other =
        |limiter: &&Limiter<C>| !store.is_some_and(|it| Arc::ptr_eq(limiter.store(), it));
    if let Some(other) = asks.iter().map(|ask| ask.limiter).find(is_other) {
        let name = other.name().into();
        return Err(JointError::NotSiblings { name });
    }
    Ok(asks.iter().map(|ask| ask.limiter.name_copy()).collect())
}

fn decide<C: Clock>(asks: &[Ask<'_, Limiter<C>>], verdict: &mut Verdict) -> Result<(), StoreError> {
    decide_by(asks, |store, charges| store.decide_into(charges, verdict))
}

/// Calls `decide` under the limits in effect. If a limit is replaced meanwhile, the decision starts
/// again. Without limits, there is nothing to decide.
fn decide_by<C: Clock, T: Default>(
    asks: &[Ask<'_, Limiter<C>>],
    mut decide: impl FnMut(&Memory<C>, &[Charge<'_>]) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let Some(first) = asks.first() else {
        return Ok(T::default());
    };
    let mut resolution = Resolution::First;
    let mut terms: PerCharge<LoadedTerms<'_>> =
        asks.iter().map(|ask| ask.limiter.terms()).collect();
    for _ in 0..RESOLUTIONS_MAX {
        let answer = {
            let mut charges = PerCharge::new();
            for (ask, terms) in asks.iter().zip(&terms) {
                charges.push(ask.charge(terms, resolution));
            }
            decide(first.limiter.store(), &charges)
        };
        let Err(StoreError::Superseded) = answer else {
            return answer;
        };
        let latest: PerCharge<LoadedTerms<'_>> =
            asks.iter().map(|ask| ask.limiter.terms()).collect();
        // If the limits have not changed, a state only looks later, because revisions wrap.
        resolution = Resolution::after(terms.iter().zip(&latest).all(|(old, new)| old.are(new)));
        terms = latest;
    }
    Err(StoreError::Superseded)
}

// === impl JointDecision ===

impl JointDecision {
    /// The decision with the limits' names; a denial if the store failed.
    pub(crate) fn of<C: Clock>(names: &Names, asks: &[Ask<'_, Limiter<C>>]) -> JointDecision {
        let mut decision = JointDecision {
            names: names.clone(),
            verdict: Verdict::default(),
        };
        if decide(asks, &mut decision.verdict).is_err() {
            asks.iter().for_each(|ask| ask.limiter.count_failure());
            decision.verdict = without_answer(asks.len());
        }
        decision
    }

    /// The verdict on limits with these names.
    #[cfg(feature = "redis")]
    pub(crate) const fn new(names: Names, verdict: Verdict) -> JointDecision {
        JointDecision { names, verdict }
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
            _ => self.names.get(denial.by).map(SmolStr::as_str),
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

    /// The largest cost that all limits, shadow limits among them, would allow now; `None` if there
    /// are no limits.
    pub fn remaining(&self) -> Option<u32> {
        self.verdict.decisions.iter().map(Decision::remaining).min()
    }

    /// How long to hold the request before it may proceed; zero without a leaky bucket.
    pub fn delay(&self) -> Duration {
        self.verdict.delay().into()
    }

    /// The decision of each limit with its name, in the order of the request.
    pub fn decisions(&self) -> impl Iterator<Item = (&str, &Decision)> {
        let names = self.names.iter().map(SmolStr::as_str);
        names.zip(&self.verdict.decisions)
    }
}

/// The denial of a request for which the store failed; see [`Limiter::check`].
pub(crate) fn without_answer(limits: usize) -> Verdict {
    let denial = denial_without_answer();
    let decisions = PerCharge::from_elem(Decision::Deny(denial), limits);
    let denial = RequestDenial {
        by: 0,
        wait: denial.wait,
        reason: DenialReason::StoreUnavailable,
    };
    Verdict::new(decisions, Some(denial))
}
