//! Several limits on one request: all or nothing.

mod ask;

mod attempt;

mod error;

pub(crate) mod reservation;

mod waiting;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;
use tollgate_core::{Clock, Decision, DenialReason, PerCharge, RequestDenial, Span, Verdict, Wait};

use crate::limiter::{Limiter, denial_without_answer};
use attempt::decide;

pub use ask::Ask;
pub use error::JointError;
#[cfg(feature = "tower")]
pub(crate) use waiting::hold;
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

/// The decision of several limits that allow a request; made by [`JointDecision::into_result`].
#[derive(Clone, Debug)]
pub struct JointGrant {
    decision: JointDecision,
}

/// The denial of several limits as an error, for `?`; made by [`JointDecision::into_result`].
#[derive(Clone, Debug)]
pub struct JointDenial {
    /// In a box, because a result has room for its error.
    decision: Box<JointDecision>,
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
    check_siblings(asks)?;
    // Made in its result: so large a decision takes a good part of its time to be moved there.
    let mut result = Ok(JointDecision::new(Names::new(), Verdict::default()));
    if let Ok(decision) = &mut result {
        // One by one: to pass them through an iterator takes longer than to copy them.
        for ask in asks {
            decision.names.push(ask.limiter.name_copy());
        }
        if let Err(error) = decide(asks, &mut decision.verdict) {
            result = Err(JointError::Store(error));
        }
    }
    result
}

/// Fails unless all limits count in the same memory.
fn check_siblings<C: Clock>(asks: &[Ask<'_, Limiter<C>>]) -> Result<(), JointError> {
    let Some((first, others)) = asks.split_first() else {
        return Ok(());
    };
    let store = first.limiter.store();
    let is_sibling = |ask: &&Ask<'_, Limiter<C>>| Arc::ptr_eq(ask.limiter.store(), store);
    match others.iter().find(|ask| !is_sibling(ask)) {
        None => Ok(()),
        Some(other) => Err(JointError::NotSiblings {
            name: other.limiter.name().into(),
        }),
    }
}

/// The limits' names.
fn names_of<C: Clock>(asks: &[Ask<'_, Limiter<C>>]) -> impl Iterator<Item = SmolStr> {
    asks.iter().map(|ask| ask.limiter.name_copy())
}

// === impl JointDecision ===

impl JointDecision {
    /// The decision with the limits' names; a denial if the store failed.
    pub(crate) fn of<C: Clock>(names: &Names, asks: &[Ask<'_, Limiter<C>>]) -> JointDecision {
        let mut decision = JointDecision::new(names.clone(), Verdict::default());
        if decide(asks, &mut decision.verdict).is_err() {
            asks.iter().for_each(|ask| ask.limiter.count_failure());
            decision.verdict = without_answer(asks.len());
        }
        decision
    }

    /// The verdict on limits with these names.
    pub(crate) const fn new(names: Names, verdict: Verdict) -> JointDecision {
        JointDecision { names, verdict }
    }

    /// What was decided, without the names.
    #[cfg(feature = "tower")]
    pub(crate) const fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Whether the request is allowed.
    pub const fn is_allowed(&self) -> bool {
        self.verdict.is_allowed()
    }

    /// The decision that allows the request, or the denial as an error, for `?`.
    ///
    /// # Errors
    ///
    /// [`JointDenial`] if the request is denied.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{JointDenial, Limit, Limits};
    ///
    /// fn send(limits: &Limits, user: &str) -> Result<(), JointDenial> {
    ///     limits.check(user).into_result()?;
    ///     // send
    ///     Ok(())
    /// }
    ///
    /// let builder = Limits::builder().limit("minute", Limit::per_minute(1));
    /// let limits = builder.limit("day", Limit::per_day(100)).build();
    /// assert!(send(&limits, "alice").is_ok());
    /// let denial = send(&limits, "alice").expect_err("one a minute");
    /// assert_eq!(denial.denied_by(), Some("minute"));
    /// assert!(denial.to_string().starts_with("denied by `minute`; try again in "));
    /// ```
    pub fn into_result(self) -> Result<JointGrant, JointDenial> {
        match self.is_allowed() {
            true => Ok(JointGrant::new(self)),
            false => Err(JointDenial::new(self)),
        }
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

    /// The decision after the request was held: no limit delays it any more.
    fn clear_delay(mut self) -> JointDecision {
        for decision in &mut self.verdict.decisions {
            if let Decision::Allow(grant) = decision {
                grant.delay = Span::ZERO;
            }
        }
        self
    }

    /// The decision of each limit with its name, in the order of the request.
    pub fn decisions(&self) -> impl Iterator<Item = (&str, &Decision)> {
        let names = self.names.iter().map(SmolStr::as_str);
        names.zip(&self.verdict.decisions)
    }
}

// === impl JointGrant ===

impl JointGrant {
    const fn new(decision: JointDecision) -> JointGrant {
        JointGrant { decision }
    }

    /// The decision, which has the decision of each limit.
    pub const fn decision(&self) -> &JointDecision {
        &self.decision
    }

    /// The decision by value.
    pub fn into_decision(self) -> JointDecision {
        self.decision
    }

    /// See [`JointDecision::remaining`].
    pub fn remaining(&self) -> Option<u32> {
        self.decision.remaining()
    }

    /// See [`JointDecision::delay`].
    pub fn delay(&self) -> Duration {
        self.decision.delay()
    }
}

// === impl JointDenial ===

impl JointDenial {
    fn new(decision: JointDecision) -> JointDenial {
        JointDenial {
            decision: Box::new(decision),
        }
    }

    /// The decision, which has the decision of each limit.
    pub const fn decision(&self) -> &JointDecision {
        &self.decision
    }

    /// The decision by value.
    pub fn into_decision(self) -> JointDecision {
        *self.decision
    }

    /// See [`JointDecision::denied_by`].
    pub fn denied_by(&self) -> Option<&str> {
        self.decision.denied_by()
    }

    /// See [`JointDecision::wait`].
    pub fn wait(&self) -> Wait {
        self.decision.wait().unwrap_or(Wait::Never)
    }

    /// See [`JointDecision::retry_after`].
    pub fn retry_after(&self) -> Option<Duration> {
        self.decision.retry_after()
    }

    /// See [`JointDecision::retry_after_secs`].
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.decision.retry_after_secs()
    }
}

impl fmt::Display for JointDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denied_by() {
            Some(name) => write!(f, "denied by `{name}`")?,
            None => f.write_str("denied, because the store has no answer")?,
        }
        match self.wait() {
            Wait::For(span) => write!(f, "; try again in {span}"),
            Wait::Never => f.write_str(": the cost exceeds what the limit ever allows"),
        }
    }
}

impl std::error::Error for JointDenial {}

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
