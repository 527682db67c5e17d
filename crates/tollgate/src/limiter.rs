//! One limit over any number of keys.

mod builder;

mod not_ready;

mod priority;

pub(crate) mod reservation;

mod terms;

mod waiting;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smol_str::SmolStr;
use tollgate_core::{
    Clock, Cost, Decision, Denial, FlatDecision, Key, Limit, Now, Span, StoreError, Wait,
};
use tollgate_memory::{Memory, RandomKeys, Stats, SystemClock};

use crate::joint::Ask;
use crate::queue::Queues;

pub use builder::{BuildError, Builder};
pub use not_ready::NotReady;
pub(crate) use terms::{CurrentTerms, LoadedTerms, Priority, Terms};

/// The wait in a denial that was made because the store failed; see [`Limiter::check`].
pub const FAILURE_WAIT: Duration = Duration::from_secs(1);

/// One limit over any number of keys.
///
/// A key is any value that implements `Hash`; the [crate's documentation](crate#keys) says which
/// keys are equal. Share a limiter by reference or in an [`Arc`]. Checks of one limit do not block
/// each other, unless the state of a key is larger than a word: decisions on that key take turns
/// then, as reservations and decisions on several limits always do on each of their keys. One waits
/// about a second at most, and is then denied.
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
    terms: CurrentTerms,
    /// Has its own secret, so that limiters that share a store do not share counters.
    keys: RandomKeys,
    store: Arc<Memory<C>>,
    name: SmolStr,
    queues: Queues,
    failures: AtomicU64,
}

// === impl Limiter ===

impl Limiter {
    /// A limiter with room for a million keys, on this machine's clock.
    ///
    /// It allocates 24 MB at once, and reserves address space for states that are larger than a
    /// word; the [crate's documentation](crate#memory) has the sizes. Use [`Limiter::builder`] for
    /// another size.
    ///
    /// # Panics
    ///
    /// If the system does not have the memory; [`Builder::try_build`] returns that as an error.
    pub fn new(limit: Limit) -> Limiter {
        Limiter::builder(limit).build()
    }

    /// Starts to build a limiter with another size, name or clock.
    pub fn builder(limit: Limit) -> Builder {
        Builder::new(limit)
    }
}

impl<C: Clock> Limiter<C> {
    /// A limiter for another limit in the same memory, for requests that meet both limits; see
    /// [`crate::check_all`] and [`crate::Limits`].
    ///
    /// Siblings share memory, not counters: each counts a key separately. The memory for large
    /// states is sized when the first limiter is built: see [`Builder::sibling_limits`].
    pub fn sibling(&self, name: &str, limit: Limit) -> Limiter<C> {
        Limiter {
            terms: CurrentTerms::new(limit),
            keys: RandomKeys::new(),
            store: Arc::clone(&self.store),
            name: name.into(),
            queues: Queues::new(self.queues.waiting_per_key_max()),
            failures: AtomicU64::new(0),
        }
    }

    /// Consumes one unit of `key` if it fits.
    ///
    /// # When the store fails
    ///
    /// There is always a decision. The store fails only if a thread was stopped for seconds in the
    /// middle of a decision on the same key, or if logs of large limits have filled its memory. The
    /// request is then denied with a wait of [`FAILURE_WAIT`], nothing is charged, and
    /// [`Limiter::failures`] increases. [`Limiter::try_check`] returns the error instead.
    #[inline(always)]
    pub fn check<K: Hash + ?Sized>(&self, key: &K) -> Decision {
        self.decide(self.keys.of(key), Cost::ONE)
    }

    /// Consumes `units` of `key`, all or none; 0 is answered as by [`Limiter::peek`].
    ///
    /// Units above the limit's [`Limit::capacity`] never fit: the denial then has no
    /// [`Decision::retry_after`]. If the store fails, the request is denied, as in
    /// [`Limiter::check`].
    #[inline(always)]
    pub fn check_n<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Decision {
        self.decide(self.keys.of(key), Cost::Take(units))
    }

    /// As [`Limiter::check_n`], but returns an error if the store fails.
    ///
    /// # Errors
    ///
    /// [`StoreError::Contended`] or [`StoreError::Full`]; nothing was charged.
    pub fn try_check<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Result<Decision, StoreError> {
        self.try_decide(self.keys.of(key), Cost::Take(units), None)
    }

    /// What [`Limiter::check_n`] would decide; charges nothing.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Decision {
        self.decide(self.keys.of(key), Cost::Peek(units))
    }

    /// Refunds units of a request that did not happen or cost less than it was charged. Returns the
    /// remaining units.
    ///
    /// Refunds at most what was consumed, the newest units first. Wakes the first waiter for the
    /// key.
    ///
    /// In a leaky bucket, the newest units are the last turns, and a request that is held for one
    /// of them (in `until_ready` or by the middleware) keeps it: a new request may be given the
    /// same turn, so that two go at the same time. The rate holds in the long term, not the
    /// spacing.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::new(Limit::per_hour(100));
    /// assert!(limiter.check_n("alice", 30).is_allowed());
    /// assert_eq!(limiter.refund("alice", 10), 80);
    /// ```
    pub fn refund<K: Hash + ?Sized>(&self, key: &K, units: u64) -> u32 {
        let key = self.keys.of(key);
        let decision = self.decide(key, Cost::Refund(units));
        self.queues.refund(key);
        decision.remaining()
    }

    /// Refunds everything that `key` consumed, as if it had never been seen. Wakes the first waiter
    /// for the key. Requests that a leaky bucket holds keep their turns; see [`Limiter::refund`].
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::new(Limit::per_hour(1));
    /// assert!(limiter.check("alice").is_allowed());
    /// limiter.reset("alice");
    /// assert!(limiter.check("alice").is_allowed());
    /// ```
    pub fn reset<K: Hash + ?Sized>(&self, key: &K) {
        self.refund(key, u64::MAX);
    }

    /// Decides on one unit of each key, in order, at one reading of the clock.
    ///
    /// Each key is decided independently. For many keys this is faster than single calls, because
    /// the memory of the next keys is prefetched during a decision: three times as fast over a
    /// million keys in one run of `cargo xtask bench`, and 1.1 times on a single key.
    pub fn check_batch<K: Hash>(&self, keys: &[K]) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(keys.len());
        self.check_batch_into(keys, &mut decisions);
        decisions
    }

    /// As [`Limiter::check_batch`], but appends to `decisions`, so that a vector can be reused.
    pub fn check_batch_into<K: Hash>(&self, keys: &[K], decisions: &mut Vec<Decision>) {
        decisions.reserve(keys.len());
        self.check_each(keys, |decision| decisions.push(decision));
    }

    /// As [`Limiter::check_batch`], but calls `on_decision` with each decision instead of storing
    /// it. This is the fastest way: unused parts of a decision are not computed.
    ///
    /// All decisions are made at the time of this call, so `keys` should be produced quickly. Up to
    /// 16 keys are taken from `keys` in advance, so an iterator with side effects runs ahead of
    /// `on_decision`.
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
        mut on_decision: impl FnMut(Decision),
    ) {
        let loaded = self.terms.load();
        let terms: &Terms = &loaded;
        let charge = |key| terms.charge(key, Cost::ONE);
        let keys = keys.into_iter().map(|key| self.keys.of(&key));
        self.store.check_each(keys, charge, |key, answer| {
            on_decision(self.or_recover(answer, key, Cost::ONE));
        });
    }

    /// A request for one unit of `key`, to be combined with those of other limits; see
    /// [`crate::check_all`].
    pub fn ask<K: Hash + ?Sized>(&self, key: &K) -> Ask<'_, Limiter<C>> {
        self.ask_n(key, 1)
    }

    /// As [`Limiter::ask`], for `units`.
    pub fn ask_n<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Ask<'_, Limiter<C>> {
        Ask::new(self, self.keys.of(key), Cost::Take(units))
    }

    /// Replaces the limit, for all threads at once. Consumed units stay consumed, up to the new
    /// capacity; if the window or the algorithm changes, they count as consumed now. Requests that
    /// wait in `until_ready` wait under the new limit; those that a leaky bucket has allowed and
    /// holds keep their turn, and their units stay charged if they are dropped.
    ///
    /// The memory stays that for the first limit: see [`crate::MemoryBuilder::limits`] for limits
    /// with larger states. Of a key on which nothing was decided during more than 127 changes, the
    /// state is read as if its limit had not changed.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Arc::new(Limiter::new(Limit::per_hour(10)));
    /// assert_eq!(limiter.check_n("alice", 8).remaining(), 2);
    /// limiter.set_limit(Limit::per_hour(20));
    /// assert_eq!(limiter.limit(), Limit::per_hour(20));
    /// assert_eq!(limiter.peek("alice", 1).remaining(), 12);
    /// ```
    pub fn set_limit(&self, limit: Limit) {
        if self.terms.replace(limit) {
            self.queues.wake_all();
        }
    }

    /// The limit in effect.
    pub fn limit(&self) -> Limit {
        self.terms.load().limit
    }

    /// The name of the limit, which distinguishes it from other limits on the same request.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How much this limiter and its siblings store. Scans every slot, so it is meant for reports.
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// How often the store failed; see [`Limiter::check`].
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The clock of this limiter's decisions.
    pub fn clock(&self) -> &C {
        self.store.clock()
    }

    pub(crate) const fn store(&self) -> &Arc<Memory<C>> {
        &self.store
    }

    pub(crate) fn name_copy(&self) -> SmolStr {
        self.name.clone()
    }

    pub(crate) fn key_of<K: Hash + ?Sized>(&self, key: &K) -> Key {
        self.keys.of(key)
    }

    /// As [`Limiter::try_check`] of one unit, and counts a failure.
    #[cfg(feature = "tower")]
    pub(crate) fn try_check_key(&self, key: Key) -> Result<Decision, StoreError> {
        let decision = self.try_decide(key, Cost::ONE, None);
        decision.inspect_err(|_| self.count_failure())
    }

    /// The terms, unless the limit was replaced.
    pub(crate) fn first_terms(&self) -> Option<&Terms> {
        self.terms.first()
    }

    pub(crate) fn terms(&self) -> LoadedTerms<'_> {
        self.terms.load()
    }

    #[inline(always)]
    fn decide(&self, key: Key, cost: Cost) -> Decision {
        match self.terms.first() {
            Some(terms) => self.or_recover(self.store.check(&terms.charge(key, cost)), key, cost),
            None => self.decide_again(key, cost).into(),
        }
    }

    /// Decides under the terms in effect, at `now` or the clock's time.
    fn try_decide(&self, key: Key, cost: Cost, now: Option<Now>) -> Result<Decision, StoreError> {
        self.terms
            .decide((Priority::Without, key), cost, |charge| match now {
                Some(now) => self.store.check_at(now, charge),
                None => self.store.check(charge),
            })
    }

    /// Turns a failure into a denial. Inlined into the caller: a decision that is passed through
    /// memory is computed in full, including parts that the caller never reads.
    #[inline(always)]
    fn or_recover(&self, answer: Result<Decision, StoreError>, key: Key, cost: Cost) -> Decision {
        match answer {
            Ok(decision) => decision,
            Err(failure) => {
                let is_superseded = matches!(failure, StoreError::Superseded);
                // Dropping the error would take its address, and that of the decision in the same
                // `Result`. The in-process store's errors own nothing that must be freed.
                std::mem::forget(failure);
                // `FlatDecision` says why these do not return whole decisions.
                match is_superseded {
                    true => self.decide_again(key, cost).into(),
                    false => self.deny_without_answer().into(),
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn decide_again(&self, key: Key, cost: Cost) -> FlatDecision {
        match self.try_decide(key, cost, None) {
            Ok(decision) => decision.into(),
            Err(_) => self.deny_without_answer(),
        }
    }

    #[cold]
    #[inline(never)]
    fn deny_without_answer(&self) -> FlatDecision {
        self.count_failure();
        Decision::Deny(denial_without_answer()).into()
    }

    pub(crate) fn count_failure(&self) {
        // Relaxed: a count for reports, which publishes nothing.
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// The denial that is made because the store failed.
pub(crate) fn denial_without_answer() -> Denial {
    let wait = Span::from_duration(FAILURE_WAIT);
    Denial::new(Wait::For(wait), 0, wait)
}

impl<C> fmt::Debug for Limiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("name", &self.name)
            .field("limit", &self.terms.load().limit)
            .finish_non_exhaustive()
    }
}
