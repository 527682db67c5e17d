//! A decision as single fields, for the slow side of a fast path.

use crate::{Decision, Denial, Grant, Span, Wait};

/// A [`Decision`], field by field.
///
/// What a function that is not inlined returns as a whole [`Decision`] has to be in memory, and so
/// has every decision that its caller gets elsewhere and returns in the same place. A fast path
/// whose slow path returns this keeps its own decision in registers, and computes only what its
/// caller reads. Converting one to the other and back changes nothing.
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
