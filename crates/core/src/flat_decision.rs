//! A decision as separate fields: what a slow path returns to the fast path that calls it.

use crate::{Decision, Denial, Grant, Span, Wait};

/// A [`Decision`] as separate fields, for slow paths that are not inlined into their fast path.
///
/// A function that is not inlined returns a [`Decision`] through memory. If a fast path returns the
/// result of such a function, it also has to write the decisions that it makes itself to the same
/// memory, in full. If the slow path returns this type instead, the fast path builds a [`Decision`]
/// in both cases; once it is inlined, the compiler keeps that in registers, and leaves out the
/// fields that the caller does not read. Converting one type to the other and back loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatDecision {
    /// `None` if it is allowed.
    wait: Option<Wait>,
    remaining: u32,
    reset: Span,
    delay: Span,
    over_soft: bool,
}

// === impl FlatDecision ===

impl From<Decision> for FlatDecision {
    fn from(decision: Decision) -> FlatDecision {
        let (delay, over_soft) = match decision {
            Decision::Allow(grant) => (grant.delay, grant.over_soft),
            Decision::Deny(_) => (Span::ZERO, false),
        };
        FlatDecision {
            wait: decision.wait(),
            remaining: decision.remaining(),
            reset: decision.reset(),
            delay,
            over_soft,
        }
    }
}

impl From<FlatDecision> for Decision {
    #[inline]
    fn from(flat: FlatDecision) -> Decision {
        match flat.wait {
            None => Decision::Allow(
                Grant::new(flat.remaining, flat.reset)
                    .with_delay(flat.delay)
                    .with_over_soft(flat.over_soft),
            ),
            Some(wait) => Decision::Deny(Denial::new(wait, flat.remaining, flat.reset)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_decision() {
        let grant = Grant::new(3, Span::HOUR);
        for decision in [
            Decision::Allow(grant),
            Decision::Allow(grant.with_delay(Span::SECOND).with_over_soft(true)),
            Decision::Deny(Denial::new(Wait::For(Span::SECOND), 2, Span::HOUR)),
            Decision::Deny(Denial::new(Wait::Never, 0, Span::ZERO)),
        ] {
            assert_eq!(Decision::from(FlatDecision::from(decision)), decision);
        }
    }
}
