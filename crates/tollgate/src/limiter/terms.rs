//! The limit in effect, which can be replaced during decisions.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};
use tollgate_core::{
    Charge, Cost, Key, Limit, LimitHistory, RESOLUTIONS_MAX, Resolution, StoreError,
};

/// A limit and its history.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) limit: Limit,
    history: LimitHistory,
    /// The limit as requests with priority meet it.
    for_priority: Limit,
}

/// Whether a request may use the share of a limit that is kept for requests with priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// It may not.
    Without,
    /// It may.
    With,
}

/// The terms in effect.
///
/// Nearly all limiters keep their first limit, and a decision takes a few nanoseconds. The first
/// terms are therefore stored inline; only a limiter whose limit was replaced follows a pointer.
#[derive(Debug)]
pub(crate) struct CurrentTerms {
    first: Terms,
    replaced: OnceLock<ArcSwap<Terms>>,
    /// Serialises replacements, so that none is missing in the history.
    replacing: Mutex<()>,
}

/// The terms that were in effect when they were loaded.
pub(crate) enum LoadedTerms<'l> {
    First(&'l Terms),
    Replaced(Guard<Arc<Terms>>),
}

// === impl Terms ===

impl Terms {
    fn new(limit: Limit, history: LimitHistory) -> Terms {
        Terms {
            limit,
            history,
            for_priority: limit.for_priority(),
        }
    }

    /// The revision of the limit: another one after each change, modulo 256.
    pub(crate) const fn revision(&self) -> u8 {
        self.history.revision()
    }

    /// A charge of a request that has priority or not.
    pub(crate) const fn charge_as(&self, priority: Priority, key: Key, cost: Cost) -> Charge<'_> {
        let limit = match priority {
            Priority::Without => &self.limit,
            Priority::With => &self.for_priority,
        };
        Charge {
            limit,
            ..self.charge(key, cost)
        }
    }

    #[inline]
    pub(crate) const fn charge(&self, key: Key, cost: Cost) -> Charge<'_> {
        let charge = Charge::new(key, &self.limit, cost);
        Charge {
            history: &self.history,
            ..charge
        }
    }
}

// === impl CurrentTerms ===

impl CurrentTerms {
    pub(crate) fn new(limit: Limit) -> CurrentTerms {
        CurrentTerms {
            first: Terms::new(limit, LimitHistory::default()),
            replaced: OnceLock::new(),
            replacing: Mutex::new(()),
        }
    }

    /// The first terms, unless they were replaced.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Terms> {
        match self.replaced.get() {
            None => Some(&self.first),
            Some(_) => None,
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> LoadedTerms<'_> {
        match self.replaced.get() {
            None => LoadedTerms::First(&self.first),
            Some(terms) => LoadedTerms::Replaced(terms.load()),
        }
    }

    /// Calls `decide` with a charge under the terms in effect; again if they are replaced
    /// meanwhile.
    pub(crate) fn decide<T>(
        &self,
        (priority, key): (Priority, Key),
        cost: Cost,
        decide: impl Fn(&Charge<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut terms = self.load();
        let mut resolution = Resolution::First;
        for _ in 0..RESOLUTIONS_MAX {
            let mut charge = terms.charge_as(priority, key, cost);
            charge.resolution = resolution;
            let answer = decide(&charge);
            let Err(StoreError::Superseded) = answer else {
                return answer;
            };
            // If the terms have not changed, the state only looks later, because revisions wrap.
            let latest = self.load();
            resolution = Resolution::after(terms.are(&latest));
            terms = latest;
        }
        Err(StoreError::Superseded)
    }

    /// Replaces the limit; returns whether it changed.
    pub(crate) fn replace(&self, limit: Limit) -> bool {
        // A poisoned lock is harmless: the terms change in one step.
        let _one_at_a_time = self
            .replacing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let current = self.load();
        if current.limit == limit {
            return false;
        }
        let next = Terms::new(limit, current.history.and(current.limit));
        match self.replaced.get() {
            Some(terms) => terms.store(Arc::new(next)),
            None => {
                let _first_replacement = self.replaced.set(ArcSwap::from_pointee(next));
            }
        }
        true
    }
}

// === impl LoadedTerms ===

impl LoadedTerms<'_> {
    /// Whether these are the same terms: no replacement came between.
    pub(crate) fn are(&self, other: &LoadedTerms<'_>) -> bool {
        std::ptr::eq::<Terms>(&**self, &**other)
    }
}

impl Deref for LoadedTerms<'_> {
    type Target = Terms;

    #[inline]
    fn deref(&self) -> &Terms {
        match self {
            LoadedTerms::First(terms) => terms,
            LoadedTerms::Replaced(terms) => terms,
        }
    }
}
