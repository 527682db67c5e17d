//! What a limit says to a cost.

use std::time::Duration;

use crate::span::Span;

/// What one limit says to one cost at one moment. A refusal is a value, not an error.
#[must_use = "a decision nobody reads enforces nothing"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The cost fits.
    Allow(Grant),
    /// The cost does not fit.
    Deny(Denial),
}

/// The cost fits; what is left after this decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The largest cost that would be admitted now, rounded down.
    pub remaining: u32,
    /// For a fixed window, how long until it ends. Otherwise how long until `remaining` equals the
    /// capacity if nobody comes.
    pub reset: Span,
    /// How long a leaky bucket holds the request before its turn; zero for every other algorithm.
    pub delay: Span,
    /// Whether what is consumed exceeds N (or the burst, or the queue): the soft part is in use.
    pub over_soft: bool,
}

/// The cost does not fit; nothing was charged unless `charge_denied` asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// When the same cost is admitted.
    pub wait: Wait,
    /// As in [`Grant::remaining`].
    pub remaining: u32,
    /// As in [`Grant::reset`].
    pub reset: Span,
}

/// How long until the same request is admitted if nobody else comes.
///
/// Ordered: what never fits comes after every span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// Asking again after exactly this long is admitted, and one nanosecond earlier is refused.
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

    /// The largest cost that would be admitted now, after this decision.
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

    /// [`Decision::wait`] as the standard library's type; `None` if the cost fits, and if it never
    /// will.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Decision::Deny(Denial {
                wait: Wait::For(span),
                ..
            }) => Some(Duration::from_nanos(span.as_nanos())),
            _ => None,
        }
    }

    /// [`Decision::reset`] as the standard library's type.
    pub const fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset().as_nanos())
    }

    /// How long a leaky bucket holds the request before its turn; zero in every other case.
    pub const fn delay(&self) -> Duration {
        match self {
            Decision::Allow(grant) => Duration::from_nanos(grant.delay.as_nanos()),
            Decision::Deny(_) => Duration::ZERO,
        }
    }

    /// When the same cost is admitted; `None` if it was.
    pub const fn wait(&self) -> Option<Wait> {
        match self {
            Decision::Allow(_) => None,
            Decision::Deny(denial) => Some(denial.wait),
        }
    }
}
