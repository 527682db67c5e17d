//! Several limits on one request: all or nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Charge, Clock, Decision, Span, StoreError, Verdict, Wait};
use tollgate_memory::SystemClock;

use crate::limiter::Limiter;

/// What a request asks of one limit; made by [`Limiter::ask`].
#[must_use = "nothing is asked before `check_all`"]
pub struct Ask<'l, C = SystemClock> {
    limiter: &'l Limiter<C>,
    charge: Charge<'l>,
}

/// What several limits said to one request.
#[must_use = "a decision nobody reads enforces nothing"]
#[derive(Clone, Debug)]
pub struct Joint<'l> {
    names: Vec<&'l str>,
    verdict: Verdict,
}

/// Why several limits could not be asked together. Nothing was charged.
#[derive(Debug)]
#[non_exhaustive]
pub enum JointError {
    /// Two of the limiters count in different memory, where nothing can be done to both at once.
    /// Make the second with [`Limiter::sibling`].
    Strangers {
        /// What the limit is called that is no sibling of the first.
        name: Box<str>,
    },
    /// The store has no answer.
    Store(StoreError),
}

/// Asks several limits at once: the request is admitted only if every one of them admits it, and
/// only then is any of them charged.
///
/// # Errors
///
/// [`JointError`]; a refusal is a [`Joint`].
///
/// # Example
///
/// ```
/// use tollgate::{Limit, Limiter, check_all};
///
/// let minute = Limiter::builder(Limit::per_minute(10)).name("10 a minute").build();
/// let hour = minute.sibling("25 an hour", Limit::per_hour(25));
/// for _ in 0..10 {
///     assert!(check_all(&[minute.ask("bob"), hour.ask("bob")])?.is_allowed());
/// }
/// let joint = check_all(&[minute.ask("bob"), hour.ask("bob")])?;
/// assert_eq!(joint.denied_by(), Some("10 a minute"));
/// // The refused request cost the other limit nothing.
/// assert_eq!(hour.peek("bob", 1).remaining(), 15);
/// # Ok::<(), tollgate::JointError>(())
/// ```
pub fn check_all<'l, C: Clock>(asks: &[Ask<'l, C>]) -> Result<Joint<'l>, JointError> {
    let Some(first) = asks.first() else {
        return Ok(Joint {
            names: Vec::new(),
            verdict: Verdict::default(),
        });
    };
    let store = first.limiter.store();
    if let Some(stranger) = asks
        .iter()
        .find(|ask| !Arc::ptr_eq(ask.limiter.store(), store))
    {
        return Err(JointError::Strangers {
            name: stranger.limiter.name().into(),
        });
    }
    let charges: Vec<Charge<'_>> = asks.iter().map(|ask| ask.charge).collect();
    let verdict = store.decide_now(&charges).map_err(JointError::Store)?;
    Ok(Joint {
        names: asks.iter().map(|ask| ask.limiter.name()).collect(),
        verdict,
    })
}

// === impl Ask ===

impl<'l, C> Ask<'l, C> {
    pub(crate) const fn new(limiter: &'l Limiter<C>, charge: Charge<'l>) -> Ask<'l, C> {
        Ask { limiter, charge }
    }
}

impl<C> fmt::Debug for Ask<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("limiter", &self.limiter)
            .field("cost", &self.charge.cost)
            .finish_non_exhaustive()
    }
}

// === impl Joint ===

impl<'l> Joint<'l> {
    /// Whether the request may pass.
    pub const fn is_allowed(&self) -> bool {
        self.verdict.is_allowed()
    }

    /// The limit that refused; of several, the first of those with the longest wait.
    pub fn denied_by(&self) -> Option<&'l str> {
        let refusal = self.verdict.denial?;
        self.names.get(refusal.by).copied()
    }

    /// When the same request is admitted; `None` if it was.
    pub fn wait(&self) -> Option<Wait> {
        self.verdict.denial.map(|refusal| refusal.wait)
    }

    /// [`Joint::wait`] as the standard library's type; `None` if the request was admitted, and if
    /// it never will be.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.wait()? {
            Wait::For(span) => Some(span.into()),
            Wait::Never => None,
        }
    }

    /// The largest cost that all of the limits would admit now; `None` if there were none.
    pub fn remaining(&self) -> Option<u32> {
        self.verdict.decisions.iter().map(Decision::remaining).min()
    }

    /// How long the request is to be held before it goes on; zero without a leaky bucket.
    pub fn delay(&self) -> Span {
        self.verdict.delay()
    }

    /// What each limit said, with its name, in the order in which they were asked.
    pub fn decisions(&self) -> impl Iterator<Item = (&'l str, &Decision)> {
        self.names.iter().copied().zip(&self.verdict.decisions)
    }
}

// === impl JointError ===

impl fmt::Display for JointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JointError::Strangers { name } => write!(
                f,
                "`{name}` counts in other memory than the first limit; make it with `sibling`"
            ),
            JointError::Store(_) => f.write_str("the store had no answer"),
        }
    }
}

impl std::error::Error for JointError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JointError::Store(source) => Some(source),
            JointError::Strangers { .. } => None,
        }
    }
}
