//! One limit, and everybody who is counted under it.

mod builder;

mod waiting;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{
    Charge, Clock, Cost, Decision, Denial, Key, Limit, LimitHistory, Span, StoreError, Wait,
};
use tollgate_memory::{Memory, RandomKeys, Stats, SystemClock};

use crate::joint::Ask;
use crate::queue::Queues;

pub use builder::Builder;
pub use waiting::NotReady;

/// What a refusal says when the store itself had no answer; see [`Limiter::check`].
pub const FAILURE_WAIT: Span = Span::SECOND;

/// One limit over any number of keys.
///
/// A key is anything that can be hashed: a name, a number, an address, a tuple of them. Share a
/// limiter by reference or in an [`Arc`]; nobody waits for anybody
/// else, but for a thread that was suspended in the middle of a decision on the same key, and for
/// that one about a second at most.
///
/// # Example
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::new(Limit::per_second(10).burst(20));
/// if limiter.check("alice").is_allowed() {
///     // serve
/// }
/// ```
pub struct Limiter<C = SystemClock> {
    limit: Limit,
    history: LimitHistory,
    /// Keyed with a secret of its own, so that limiters that share a store share no counter.
    keys: RandomKeys,
    store: Arc<Memory<C>>,
    name: Arc<str>,
    queues: Queues,
    failures: AtomicU64,
}

// === impl Limiter ===

impl Limiter {
    /// A limiter with room for a million keys, on this machine's clock.
    ///
    /// It takes 24 MB at once; [`Limiter::builder`] makes smaller and larger ones.
    pub fn new(limit: Limit) -> Limiter {
        Limiter::builder(limit).build()
    }

    /// A limiter yet to be sized and named.
    pub fn builder(limit: Limit) -> Builder {
        Builder::new(limit)
    }
}

impl<C: Clock> Limiter<C> {
    /// Another limit in the same memory, for requests that meet both; see [`crate::check_all`].
    ///
    /// The two share room, not counters: each key counts under each limit by itself. Room for large
    /// states is made when the first is built: see [`Builder::sibling_limits`].
    pub fn sibling(&self, name: &str, limit: Limit) -> Limiter<C> {
        Limiter {
            limit,
            history: LimitHistory::default(),
            keys: RandomKeys::new(),
            store: Arc::clone(&self.store),
            name: name.into(),
            queues: Queues::new(self.queues.waiting_per_key_max()),
            failures: AtomicU64::new(0),
        }
    }

    /// Takes one unit for `key`, if it is there.
    ///
    /// # When the store has no answer
    ///
    /// There is always a decision. The store fails only if a thread was stopped for seconds in the
    /// middle of a decision on the same key, or if logs of large limits fill its memory to the last
    /// block. The request is then refused, as if it had to wait for [`FAILURE_WAIT`], charged
    /// nothing, and counted in [`Limiter::failures`]. Whoever wants to decide that otherwise asks
    /// with [`Limiter::try_check`].
    #[inline(always)]
    pub fn check<K: Hash + ?Sized>(&self, key: &K) -> Decision {
        self.told(self.store.check(&self.charge(key, Cost::ONE)))
    }

    /// Takes `units` for `key`, all or none; 0 is answered as [`Limiter::peek`].
    ///
    /// More than the limit's [`Limit::capacity`] never fit: the refusal then has no
    /// [`Decision::retry_after`]. A store without an answer refuses, as in [`Limiter::check`].
    #[inline(always)]
    pub fn check_n<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Decision {
        self.told(self.store.check(&self.charge(key, Cost::Take(units))))
    }

    /// As [`Limiter::check_n`], telling a store that has no answer from a refusal.
    ///
    /// # Errors
    ///
    /// [`StoreError::Contended`] or [`StoreError::Full`]; nothing was charged.
    pub fn try_check<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Result<Decision, StoreError> {
        self.store.check(&self.charge(key, Cost::Take(units)))
    }

    /// What [`Limiter::check_n`] would say, charging nothing.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Decision {
        self.told(self.store.check(&self.charge(key, Cost::Peek(units))))
    }

    /// Gives units back: of a request that did not happen, or cost less than was taken.
    ///
    /// Never beyond a full budget. Says what is there now, and wakes whoever waits for the key.
    pub fn refund<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Decision {
        let key = self.keys.of(key);
        let decision = self.told(self.store.check(&self.charge_of(key, Cost::Refund(units))));
        self.queues.refund(key);
        decision
    }

    /// One unit for each key, one decision each, in their order, at one reading of the clock.
    ///
    /// Each is decided by itself. For many keys this is twice as fast as asking one by one,
    /// because the memory of the next keys is fetched while one is decided.
    pub fn check_batch<K: Hash>(&self, keys: &[K]) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(keys.len());
        self.check_batch_into(keys, &mut decisions);
        decisions
    }

    /// As [`Limiter::check_batch`], into a vector that is used again; adds to what is there.
    pub fn check_batch_into<K: Hash>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        decisions.reserve(keys.len());
        self.check_each(keys, |decision| decisions.push(decision));
    }

    /// As [`Limiter::check_batch`], telling each decision to `told` in place of keeping it: the
    /// fastest way, as what is not asked of a decision is not computed.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::new(Limit::per_second(1));
    /// let mut served = 0;
    /// limiter.check_each(["alice", "bob", "alice"], |decision| {
    ///     served += u32::from(decision.is_allowed());
    /// });
    /// assert_eq!(served, 2);
    /// ```
    #[inline]
    pub fn check_each<K: Hash>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut told: impl FnMut(Decision),
    ) {
        let keys = keys.into_iter().map(|key| self.keys.of(&key));
        let charge = |key| self.charge_of(key, Cost::ONE);
        self.store
            .check_each(keys, charge, |answer| told(self.told(answer)));
    }

    /// What a request asks of this limit, for [`crate::check_all`]: one unit for `key`.
    pub fn ask<K: Hash + ?Sized>(&self, key: &K) -> Ask<'_, C> {
        self.ask_n(key, 1)
    }

    /// As [`Limiter::ask`], for `units`.
    pub fn ask_n<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Ask<'_, C> {
        Ask::new(self, self.charge(key, Cost::Take(units)))
    }

    /// Puts another limit in place of this one. What was consumed stays consumed, up to the new
    /// capacity; if the window or the algorithm changes, it counts as consumed now.
    pub fn set_limit(&mut self, limit: Limit) {
        if limit != self.limit {
            self.history = self.history.and(self.limit);
            self.limit = limit;
        }
    }

    /// The limit.
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// What the limit is called where several meet.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is remembered, in this limiter and its siblings. Looks at every slot: for a report.
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// How often the store had no answer; see [`Limiter::check`].
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The clock that decides.
    pub fn clock(&self) -> &C {
        self.store.clock()
    }

    pub(crate) const fn store(&self) -> &Arc<Memory<C>> {
        &self.store
    }

    #[inline]
    fn charge<K: Hash + ?Sized>(&self, key: &K, cost: Cost) -> Charge<'_> {
        self.charge_of(self.keys.of(key), cost)
    }

    #[inline]
    const fn charge_of(&self, key: Key, cost: Cost) -> Charge<'_> {
        let charge = Charge::new(key, &self.limit, cost);
        Charge {
            history: &self.history,
            // Nobody changes the limit while it is borrowed.
            is_current: true,
            ..charge
        }
    }

    /// Turns a failure into a refusal, where it is asked for: a decision that has to be in memory
    /// is computed whole, also what nobody reads of it.
    #[inline(always)]
    fn told(&self, answer: Result<Decision, StoreError>) -> Decision {
        match answer {
            Ok(decision) => decision,
            Err(failure) => {
                // Dropping it would take its address, and with it the decision's in its place. The
                // in-process store's failures own nothing that would have to be freed.
                std::mem::forget(failure);
                self.count_failure();
                Decision::Deny(Denial {
                    wait: Wait::For(FAILURE_WAIT),
                    remaining: 0,
                    reset: FAILURE_WAIT,
                })
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn count_failure(&self) {
        // Relaxed: a count for reports, which publishes nothing.
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

impl<C> fmt::Debug for Limiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("name", &self.name)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
