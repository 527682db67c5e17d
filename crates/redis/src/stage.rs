//! The stages of a decision, and what they pass to each other.

use std::ops::ControlFlow::{self, Break, Continue};

use tokio::time::Instant;
use tollgate_core::{Charge, Cost, Key, StoreError, Verdict};

use crate::denials::Denials;
use crate::fit::{FittedLimit, Single, unfit};
use crate::generations::{Generation, Generations};
use crate::leases::Estimates;

/// The result of a stage: a decision or an error, which ends the request, or the values that the
/// next stages need.
pub(crate) type Stage<T> = ControlFlow<Result<Verdict, StoreError>, T>;

/// The start of a decision's time budget, which all its calls share. The clock is read when it is
/// first needed, so a decision that waits for nothing does not read it.
#[derive(Debug, Default)]
pub(crate) struct Budget(Option<Instant>);

/// A request that Redis has to decide, unless a cache can.
pub(crate) struct Request<'r> {
    pub(crate) charges: &'r [Charge<'r>],
    /// The charge, if it is the only one: most stages decide no others.
    pub(crate) only: Option<Single<'r>>,
    /// That of its key when this request began.
    generation: Option<Generation<'r>>,
    /// Whether another request's reservation blocks it. Then its refunds are done.
    pub(crate) is_blocked: bool,
    /// When its time budget starts.
    pub(crate) since: Instant,
    pub(crate) caches: Caches<'r>,
}

/// The caches of Redis's replies; a refund of a key drops its entries, and begins a generation.
#[derive(Clone, Copy)]
pub(crate) struct Caches<'r> {
    pub(crate) generations: &'r Generations,
    pub(crate) denials: &'r Denials,
    pub(crate) estimates: &'r Estimates,
}

/// Drops what is known of keys that get units back, before and after: a reply from before may be
/// cached meanwhile. Also if the caller goes away between the two; then a reply that Redis gives
/// after that, and before the refund, may be cached for a second.
pub(crate) struct RefundGuard<'r> {
    caches: Caches<'r>,
    keys: &'r [Key],
}

/// Ends the request if a stage has decided or failed.
pub(crate) fn end_or_pass<T>(stage: Result<ControlFlow<Verdict, T>, StoreError>) -> Stage<T> {
    match stage {
        Ok(Break(verdict)) => Break(Ok(verdict)),
        Ok(Continue(passed)) => Continue(passed),
        Err(error) => Break(Err(error)),
    }
}

// === impl Budget ===

impl Budget {
    /// When it starts: at the first call.
    pub(crate) fn since(&mut self) -> Instant {
        *self.0.get_or_insert_with(Instant::now)
    }
}

// === impl Request ===

impl<'r> Request<'r> {
    /// Fails with [`StoreError::Unfit`] if Redis cannot keep the limit of a single charge.
    pub(crate) fn new(
        charges: &'r [Charge<'r>],
        is_blocked: bool,
        since: Instant,
        caches: Caches<'r>,
    ) -> Stage<Request<'r>> {
        let only = match charges {
            [charge] => match FittedLimit::new(charge.limit) {
                Ok(fitted) => Some(Single { charge, fitted }),
                Err(invalid) => return Break(Err(unfit(invalid))),
            },
            _ => None,
        };
        let request = Request {
            charges,
            generation: only
                .as_ref()
                .map(|only| caches.generations.of(only.charge.key)),
            only,
            is_blocked,
            since,
            caches,
        };
        request.forget_refunded();
        Continue(request)
    }

    fn forget_refunded(&self) {
        for charge in self.charges {
            if matches!(charge.cost, Cost::Refund(_)) {
                self.caches.forget(charge.key);
            }
        }
    }
}

impl Caches<'_> {
    /// Drops what is known of a key that got units back, or was reset, also by replies that are
    /// still in flight.
    pub(crate) fn forget(&self, key: Key) {
        self.generations.advance(key);
        self.denials.forget(key);
        self.estimates.forget(key);
    }
}

// === impl RefundGuard ===

impl<'r> RefundGuard<'r> {
    pub(crate) fn new(caches: Caches<'r>, keys: &'r [Key]) -> RefundGuard<'r> {
        let guard = RefundGuard { caches, keys };
        guard.forget();
        guard
    }

    fn forget(&self) {
        self.keys.iter().for_each(|key| self.caches.forget(*key));
    }
}

impl Drop for RefundGuard<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Drop for Request<'_> {
    /// A reply from before a refund may have been cached meanwhile: to another request, or to this
    /// one, if the refund was another's.
    fn drop(&mut self) {
        self.forget_refunded();
        if let (Some(only), Some(generation)) = (&self.only, self.generation)
            && !generation.is_current()
        {
            self.caches.denials.forget(only.charge.key);
            self.caches.estimates.forget(only.charge.key);
        }
    }
}
