//! The decision of one limit on one cost.

use std::fmt;
use std::time::Duration;

use crate::span::Span;

/// What one limit decides on one cost at one moment. A denial is a value, not an error.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::Decision;
///
/// // For tests of code that uses decisions: both kinds can be made.
/// assert_eq!(Decision::allowed(3).remaining(), 3);
/// let denied = Decision::denied(Duration::from_millis(1_500));
/// assert_eq!(denied.retry_after_secs(), Some(2));
/// assert_eq!(denied.into_result().unwrap_err().to_string(), "denied; try again in 1s500ms");
/// ```
#[must_use = "a decision that is not read enforces nothing"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The cost fits.
    Allow(Grant),
    /// The cost does not fit.
    Deny(Denial),
}

/// The cost fits; the state of the limit after this decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The largest cost that would be allowed now, rounded down.
    pub remaining: u32,
    /// For a fixed window, the time until it ends. Otherwise the time until `remaining` equals the
    /// capacity if no other request comes.
    pub reset: Span,
    /// How long a leaky bucket holds the request; zero for every other algorithm.
    pub delay: Span,
    /// Whether the consumed units exceed N (or the burst or queue): the soft part is in use.
    pub over_soft: bool,
}

/// The cost does not fit; nothing was charged, unless `charge_denied` says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// The time until the same cost is allowed.
    pub wait: Wait,
    /// As in [`Grant::remaining`].
    pub remaining: u32,
    /// As in [`Grant::reset`].
    pub reset: Span,
}

/// The time until the same request is allowed if no other request comes.
///
/// Ordered: [`Wait::Never`] is longer than every span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// A retry after exactly this time is allowed; one nanosecond earlier it is denied.
    For(Span),
    /// The cost exceeds the capacity: waiting never helps.
    Never,
}

// === impl Decision ===

impl Decision {
    /// Whether the cost fits.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow(_))
    }

    /// An allowed request with `remaining` units left. For tests of code that uses decisions.
    pub const fn allowed(remaining: u32) -> Decision {
        Decision::Allow(Grant::new(remaining, Span::ZERO))
    }

    /// A request denied until `retry_after` has passed. For tests of code that uses decisions.
    pub const fn denied(retry_after: Duration) -> Decision {
        let wait = Span::from_duration(retry_after);
        Decision::Deny(Denial::new(Wait::For(wait), 0, wait))
    }

    /// The grant, or the denial as an error, for use with `?`.
    ///
    /// # Errors
    ///
    /// The [`Denial`], if the cost does not fit.
    pub const fn into_result(self) -> Result<Grant, Denial> {
        match self {
            Decision::Allow(grant) => Ok(grant),
            Decision::Deny(denial) => Err(denial),
        }
    }

    /// The largest cost that would be allowed now, after this decision.
    pub const fn remaining(&self) -> u32 {
        match self {
            Decision::Allow(grant) => grant.remaining,
            Decision::Deny(denial) => denial.remaining,
        }
    }

    /// See [`Grant::reset`].
    pub const fn reset(&self) -> Span {
        match self {
            Decision::Allow(grant) => grant.reset,
            Decision::Deny(denial) => denial.reset,
        }
    }

    /// The exact time until a retry is allowed; `None` if the cost fits or never will.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Decision::Allow(_) => None,
            Decision::Deny(denial) => denial.wait.to_duration(),
        }
    }

    /// [`Decision::retry_after`] in whole seconds, rounded up: the value of a `Retry-After` header.
    pub const fn retry_after_secs(&self) -> Option<u64> {
        match self {
            Decision::Allow(_) => None,
            Decision::Deny(denial) => denial.wait.as_secs_ceil(),
        }
    }

    /// [`Decision::reset`] as a [`Duration`].
    pub const fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset().as_nanos())
    }

    /// How long a leaky bucket holds the request; zero in every other case.
    pub const fn delay(&self) -> Duration {
        match self {
            Decision::Allow(grant) => Duration::from_nanos(grant.delay.as_nanos()),
            Decision::Deny(_) => Duration::ZERO,
        }
    }

    /// The time until the same cost is allowed; `None` if it is allowed.
    pub const fn wait(&self) -> Option<Wait> {
        match self {
            Decision::Allow(_) => None,
            Decision::Deny(denial) => Some(denial.wait),
        }
    }
}

// === impl Grant ===

impl Grant {
    /// A grant without a delay.
    pub const fn new(remaining: u32, reset: Span) -> Grant {
        Grant {
            remaining,
            reset,
            delay: Span::ZERO,
            over_soft: false,
        }
    }

    /// The same grant, held by a leaky bucket for `delay`.
    #[must_use]
    pub const fn with_delay(self, delay: Span) -> Grant {
        Grant { delay, ..self }
    }

    /// The same grant with another [`Grant::over_soft`].
    #[must_use]
    pub const fn with_over_soft(self, over_soft: bool) -> Grant {
        Grant { over_soft, ..self }
    }
}

// === impl Denial ===

impl Denial {
    /// A denial.
    pub const fn new(wait: Wait, remaining: u32, reset: Span) -> Denial {
        Denial {
            wait,
            remaining,
            reset,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wait {
            Wait::For(span) => write!(f, "denied; try again in {span}"),
            Wait::Never => f.write_str("denied: the cost exceeds what the limit ever allows"),
        }
    }
}

impl std::error::Error for Denial {}

// === impl Wait ===

impl Wait {
    /// The wait as a [`Duration`]; `None` if waiting never helps.
    pub const fn to_duration(self) -> Option<Duration> {
        match self {
            Wait::For(span) => Some(span.to_duration()),
            Wait::Never => None,
        }
    }

    /// The wait in whole seconds, rounded up, at least one; `None` if waiting never helps.
    pub const fn as_secs_ceil(self) -> Option<u64> {
        match self {
            Wait::For(span) if span.is_zero() => Some(1),
            Wait::For(span) => Some(span.as_secs_ceil()),
            Wait::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        let secs = |nanos| Decision::denied(Duration::from_nanos(nanos)).retry_after_secs();
        assert_eq!(secs(1), Some(1));
        assert_eq!(secs(1_000_000_000), Some(1));
        assert_eq!(secs(1_000_000_001), Some(2));
        let never = Decision::Deny(Denial::new(Wait::Never, 3, Span::SECOND));
        assert_eq!(
            (never.retry_after(), never.retry_after_secs()),
            (None, None)
        );
        assert_eq!(Decision::allowed(1).retry_after_secs(), None);
    }

    #[test]
    fn a_denial_is_an_error() {
        fn ask() -> Result<u32, Box<dyn std::error::Error>> {
            let grant = Decision::Deny(Denial::new(Wait::Never, 3, Span::SECOND)).into_result()?;
            Ok(grant.remaining)
        }
        let denial = ask().map_err(|error| error.to_string());
        assert!(denial.is_err_and(|text| text.contains("ever allows")));
        assert_eq!(
            Decision::allowed(7).into_result(),
            Ok(Grant::new(7, Span::ZERO))
        );
    }
}
