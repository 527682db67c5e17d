//! Deciding again when rules are replaced while a request is decided.

use std::ops::Deref;
use std::sync::Arc;

use tollgate_core::{RESOLUTIONS_MAX, Resolution, StoreError};

/// One of at most [`RESOLUTIONS_MAX`] attempts to decide on a request.
///
/// A store rejects a decision under rules that later ones have replaced
/// ([`StoreError::Superseded`]). The request is then resolved again, under the rules that are in
/// effect by then.
///
/// `P` points to the rules: what an atomic pointer to an [`Arc`] hands out when it is loaded.
#[derive(Debug)]
pub struct Attempt<P> {
    rules: P,
    resolution: Resolution,
    left: usize,
}

/// An error that may say that a decision was made under rules that later ones have replaced.
pub trait MaybeSuperseded {
    /// Whether it says so. Then nothing was charged.
    fn is_superseded(&self) -> bool;
}

impl MaybeSuperseded for StoreError {
    fn is_superseded(&self) -> bool {
        matches!(self, StoreError::Superseded)
    }
}

// === impl Attempt ===

impl<P, R> Attempt<P>
where
    P: Deref<Target = Arc<R>>,
{
    /// The first attempt, under the rules in effect.
    pub const fn first(rules: P) -> Attempt<P> {
        Attempt {
            rules,
            resolution: Resolution::First,
            left: RESOLUTIONS_MAX,
        }
    }

    /// The attempt under the rules in effect that follows a first one, which was made elsewhere and
    /// was [`StoreError::Superseded`].
    pub const fn again(rules: P) -> Attempt<P> {
        Attempt {
            rules,
            resolution: Resolution::Again,
            left: RESOLUTIONS_MAX - 1,
        }
    }

    /// The rules of this attempt.
    pub fn rules(&self) -> &R {
        &self.rules
    }

    /// [`tollgate_core::Charge::resolution`] of every charge.
    pub const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// The attempt that follows one with this outcome, under the rules that `load` finds in effect.
    /// `None` if the outcome is final: [`StoreError::Superseded`] is, if the rules were replaced
    /// during every attempt.
    pub fn next<T, E: MaybeSuperseded>(
        &self,
        outcome: &Result<T, E>,
        load: impl FnOnce() -> P,
    ) -> Option<Attempt<P>> {
        if self.left <= 1 || !outcome.as_ref().is_err_and(E::is_superseded) {
            return None;
        }
        let latest = load();
        Some(Attempt {
            // If there are no later rules, the state is of a removed rule whose limit is no longer
            // stored: these rules decide.
            resolution: Resolution::after(Arc::ptr_eq(&self.rules, &latest)),
            rules: latest,
            left: self.left - 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERSEDED: Result<(), StoreError> = Err(StoreError::Superseded);

    #[test]
    fn rules_that_are_replaced_every_time_are_tried_a_bounded_number_of_times() {
        let rules = Arc::new(1);
        let mut attempt = Attempt::first(&rules);
        for _ in 1..RESOLUTIONS_MAX {
            let next = attempt.next(&SUPERSEDED, || &rules);
            attempt = next.expect("another attempt");
        }
        assert!(attempt.next(&SUPERSEDED, || &rules).is_none());
    }

    #[test]
    fn the_same_rules_twice_are_the_latest_ones() {
        let (old, new) = (Arc::new(1), Arc::new(2));
        let mut attempt = Attempt::first(&old);
        for (latest, resolution) in [
            (&new, Resolution::Again),
            (&new, Resolution::Latest),
            (&old, Resolution::Again),
        ] {
            let next = attempt.next(&SUPERSEDED, || latest);
            attempt = next.expect("another attempt");
            assert_eq!(
                (attempt.rules(), attempt.resolution()),
                (&**latest, resolution)
            );
        }
        let allowed: Result<_, StoreError> = Ok(3);
        assert!(attempt.next(&allowed, || &old).is_none());
    }
}
