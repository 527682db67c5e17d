//! The caches of Redis's replies, and what drops their entries.

use std::sync::Arc;

use tokio::time::Instant;
use tollgate_core::{Charge, Cost, Key, Mode, OnDenial, StoreError, Verdict};

use crate::completion::complete;
use crate::denials::Denials;
use crate::environment::Environment;
use crate::generations::{Generation, Generations};
use crate::leases::Estimates;
use crate::router::Router;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;
use crate::stats::Stats;

/// The caches of Redis's replies. A refund of a key drops its entries, and begins a generation:
/// only a request of the current generation may cache the reply that it gets. So does a charge, but
/// estimates count those of the requests that they let pass.
///
/// Shared, because a refund may be made by a task that outlives its caller.
pub(crate) struct Caches {
    generations: Generations,
    /// The generations that charges begin, for cached denials only.
    charges: Generations,
    denials: Denials,
    estimates: Estimates,
}

/// Drops what is known of keys that get units back, before and after: a reply from before may be
/// cached meanwhile. The caller or the task that learns the outcome holds it.
pub(crate) struct RefundGuard {
    caches: Arc<Caches>,
    keys: Vec<Key>,
}

/// Drops what is known of the keys that a request charges, unless it turns out to have charged
/// nothing: a cached denial would lack these units. Without a verdict, because of an error or since
/// the caller has gone, they may have been charged.
pub(crate) struct ChargeGuard<'c> {
    caches: &'c Caches,
    charges: &'c [Charge<'c>],
    end: End,
}

/// How a request ended that may have charged keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Without a verdict, or with one from which no estimate has learned.
    Unlearned,
    Denied,
    /// A decision. If its only charge is in `leased`, its estimate has learned from the reply.
    Allowed,
}

/// Whether a charge returns units.
pub(crate) const fn returns_units(charge: &Charge<'_>) -> bool {
    matches!(charge.cost, Cost::Refund(1..))
}

// === impl Caches ===

impl Caches {
    pub(crate) fn new(environment: &Environment, stats: &Arc<Stats>) -> Caches {
        Caches {
            generations: Generations::default(),
            charges: Generations::default(),
            denials: Denials::new(environment.caches_denials, Arc::clone(stats)),
            estimates: Estimates::new(environment.caches_denials),
        }
    }

    /// The cached denials.
    pub(crate) const fn denials(&self) -> &Denials {
        &self.denials
    }

    /// Estimates of keys that have nothing left to lease.
    pub(crate) const fn estimates(&self) -> &Estimates {
        &self.estimates
    }

    /// The current generation of a key, for a request that begins.
    pub(crate) fn generation(&self, key: Key) -> Generation<'_> {
        self.generations.of(key)
    }

    /// The generation of a key by its charges, for a request that begins.
    pub(crate) fn generation_of_charges(&self, key: Key) -> Generation<'_> {
        self.charges.of(key)
    }

    /// Drops what is known of a key that got units back, was reset, or was charged without its
    /// estimate, also by replies that are still in flight.
    pub(crate) fn forget(&self, key: Key) {
        self.generations.advance(key);
        self.denials.forget(key);
        self.estimates.forget(key);
    }

    /// Drops a cached denial of a key that was charged, also by a reply that is still in flight.
    pub(crate) fn forget_denial(&self, key: Key) {
        self.charges.advance(key);
        self.denials.forget(key);
    }

    /// Drops what is known of the keys to which `charges` return units.
    pub(crate) fn guard_refunds(self: &Arc<Caches>, charges: &[Charge<'_>]) -> Option<RefundGuard> {
        let refunds = charges.iter().filter(|charge| returns_units(charge));
        let keys: Vec<Key> = refunds.map(|charge| charge.key).collect();
        (!keys.is_empty()).then(|| self.guard(keys))
    }

    /// Drops what is known of keys that get units back.
    pub(crate) fn guard(self: &Arc<Caches>, keys: Vec<Key>) -> RefundGuard {
        let guard = RefundGuard {
            caches: Arc::clone(self),
            keys,
        };
        guard.forget();
        guard
    }
}

// === impl RefundGuard ===

impl RefundGuard {
    /// Makes the call that returns the units, which learns the outcome even if the caller goes
    /// away, and Redis denies another request in between. `None` if it was stopped with its
    /// runtime.
    pub(crate) async fn complete<T: Send + 'static>(
        self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let call = async move {
            let replied = call.await;
            drop(self);
            replied
        };
        complete(call).await.ok()
    }

    /// The same for one request to a script.
    pub(crate) async fn ask(
        self,
        router: &Arc<Router>,
        request: ScriptRequest,
        since: Instant,
    ) -> Result<ScriptReply, StoreError> {
        let asked = Arc::clone(router);
        let call = async move { asked.ask(|| request.clone(), since).await };
        let reply = self.complete(call).await;
        let reply = reply.ok_or_else(|| router.timeout_error())?;
        reply.map_err(|failure| router.error(failure))
    }

    fn forget(&self) {
        self.keys.iter().for_each(|key| self.caches.forget(*key));
    }
}

impl Drop for RefundGuard {
    fn drop(&mut self) {
        self.forget();
    }
}

// === impl ChargeGuard ===

impl<'c> ChargeGuard<'c> {
    /// A guard of a request that Redis is about to decide.
    pub(crate) const fn new(caches: &'c Caches, charges: &'c [Charge<'c>]) -> ChargeGuard<'c> {
        ChargeGuard {
            caches,
            charges,
            end: End::Unlearned,
        }
    }

    /// Ends it with the verdict, if there is one from which estimates may have learned.
    pub(crate) fn end(mut self, verdict: Option<&Verdict>) {
        self.end = match verdict {
            Some(verdict) if verdict.is_allowed() => End::Allowed,
            Some(_) => End::Denied,
            None => End::Unlearned,
        };
    }
}

impl Drop for ChargeGuard<'_> {
    fn drop(&mut self) {
        let charged = self.charges.iter().filter(|charge| {
            let is_kept = self.end == End::Denied && charge.on_denial == OnDenial::Keep;
            matches!(charge.cost, Cost::Take(1..)) && !is_kept
        });
        for charge in charged {
            // An estimate learns what a single charge has left behind, and not what a denial has.
            match (self.charges, charge.sharing.mode, self.end) {
                ([_], Mode::Leased, End::Allowed) => self.caches.forget_denial(charge.key),
                _ => self.caches.forget(charge.key),
            }
        }
    }
}
