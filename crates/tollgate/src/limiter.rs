//! One limit over any number of keys.

mod builder;

mod not_ready;

mod terms;

mod waiting;

use std::cell::Cell;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::{
    Clock, Cost, Decision, Denial, Key, Limit, Now, RESOLUTIONS_MAX, Span, StoreError, Wait,
};
use tollgate_memory::{Memory, RandomKeys, Stats, SystemClock};

use crate::joint::Ask;
use crate::queue::Queues;

pub use builder::{BuildError, Builder};
pub use not_ready::NotReady;
use terms::Terms;
pub(crate) use terms::{CurrentTerms, LoadedTerms};

/// The wait in a denial that was made because the store had no answer; see [`Limiter::check`].
pub const FAILURE_WAIT: Duration = Duration::from_secs(1);

/// One limit over any number of keys.
///
/// A key is anything that can be hashed; the [crate's documentation](crate#keys) says which keys
/// are the same. Share a limiter by reference or in an [`Arc`]. Decisions do not block each other,
/// with one exception: a decision on a state that is larger than a word waits for one on the same
/// key that is in progress, about a second at most.
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
    /// It allocates 24 MB at once, and reserves address space for states that are larger than a
    /// word; the [crate's documentation](crate#memory) has the sizes. [`Limiter::builder`] makes
    /// smaller and larger ones.
    pub fn new(limit: Limit) -> Limiter {
        Limiter::builder(limit).build()
    }

    /// A limiter yet to be sized and named.
    pub fn builder(limit: Limit) -> Builder {
        Builder::new(limit)
    }
}

impl<C: Clock> Limiter<C> {
    /// Another limit in the same memory, for requests that meet both; see [`crate::check_all`] and
    /// [`crate::Limits`].
    ///
    /// The two share room, not counters: each counts a key by itself. Room for large states is made
    /// when the first is built: see [`Builder::sibling_limits`].
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

    /// Takes one unit for `key`, if it is there.
    ///
    /// # When the store has no answer
    ///
    /// There is always a decision. The store fails only if a thread was stopped for seconds in the
    /// middle of a decision on the same key, or if logs of large limits fill its memory to the last
    /// block. The request is then denied with a wait of [`FAILURE_WAIT`], charged nothing, and
    /// counted in [`Limiter::failures`]. [`Limiter::try_check`] returns the error instead.
    #[inline(always)]
    pub fn check<K: Hash + ?Sized>(&self, key: &K) -> Decision {
        self.decide(self.keys.of(key), Cost::ONE)
    }

    /// Takes `units` for `key`, all or none; 0 is answered as [`Limiter::peek`].
    ///
    /// More than the limit's [`Limit::capacity`] never fit: the denial then has no
    /// [`Decision::retry_after`]. A store without an answer denies, as in [`Limiter::check`].
    #[inline(always)]
    pub fn check_n<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Decision {
        self.decide(self.keys.of(key), Cost::Take(units))
    }

    /// As [`Limiter::check_n`], but a store that has no answer is an error.
    ///
    /// # Errors
    ///
    /// [`StoreError::Contended`] or [`StoreError::Full`]; nothing was charged.
    pub fn try_check<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Result<Decision, StoreError> {
        self.try_decide(self.keys.of(key), Cost::Take(units), None)
    }

    /// What [`Limiter::check_n`] would decide, charging nothing.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Decision {
        self.decide(self.keys.of(key), Cost::Peek(units))
    }

    /// Gives units back: of a request that did not happen, or cost less than was taken. Returns
    /// what remains then.
    ///
    /// Never beyond a full budget. Of a sliding log the newest units are given back. Wakes the
    /// first waiter for the key.
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
        self.refund_key(self.keys.of(key), units)
    }

    /// Gives everything back that `key` has used: it is as if it had never been seen. Wakes the
    /// first waiter for the key.
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

    /// One unit for each key, one decision each, in their order, at one reading of the clock.
    ///
    /// Each is decided by itself. For many keys this is twice as fast as one call for each, because
    /// the memory of the next keys is fetched while one is decided.
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

    /// As [`Limiter::check_batch`], calling `on_decision` with each decision in place of storing
    /// it: the fastest way, as parts of a decision that are not read are not computed.
    ///
    /// All decisions are made at the time at which this was called: `keys` should not take long to
    /// be produced. Up to 16 keys are taken from `keys` ahead of the one that is decided, so an
    /// iterator with side effects runs ahead of `on_decision`.
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
        // The store asks for a key's charge right before it decides on it.
        let asked = Cell::new(Key::from_bits(0));
        let charge = |key| {
            asked.set(key);
            terms.charge(key, Cost::ONE)
        };
        let keys = keys.into_iter().map(|key| self.keys.of(&key));
        self.store.check_each(keys, charge, |answer| {
            on_decision(self.or_recover(answer, asked.get(), Cost::ONE));
        });
    }

    /// One unit for `key` under this limit, to be asked together with others; see
    /// [`crate::check_all`].
    pub fn ask<K: Hash + ?Sized>(&self, key: &K) -> Ask<'_, C> {
        self.ask_n(key, 1)
    }

    /// As [`Limiter::ask`], for `units`.
    pub fn ask_n<K: Hash + ?Sized>(&self, key: &K, units: u64) -> Ask<'_, C> {
        Ask::new(self, self.keys.of(key), Cost::Take(units))
    }

    /// Replaces the limit, for all threads at once. What was consumed stays consumed, up to the new
    /// capacity; if the window or the algorithm changes, it counts as consumed now. Whoever waits
    /// for a key waits under the new limit.
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

    /// The name of the limit, which tells it from others on the same request.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What this limiter and its siblings hold. Looks at every slot: for a report.
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// How often the store had no answer; see [`Limiter::check`].
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The clock by which decisions are made.
    pub fn clock(&self) -> &C {
        self.store.clock()
    }

    pub(crate) const fn store(&self) -> &Arc<Memory<C>> {
        &self.store
    }

    pub(crate) const fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn terms(&self) -> LoadedTerms<'_> {
        self.terms.load()
    }

    pub(crate) fn refund_key(&self, key: Key, units: u64) -> u32 {
        let decision = self.decide(key, Cost::Refund(units));
        self.queues.refund(key);
        decision.remaining()
    }

    #[inline(always)]
    fn decide(&self, key: Key, cost: Cost) -> Decision {
        match self.terms.first() {
            Some(terms) => self.or_recover(self.store.check(&terms.charge(key, cost)), key, cost),
            None => self.decide_again(key, cost),
        }
    }

    /// A decision under the terms in effect, at `now` or else the clock's time.
    ///
    /// A decision that began under terms that were replaced meanwhile begins again.
    fn try_decide(&self, key: Key, cost: Cost, now: Option<Now>) -> Result<Decision, StoreError> {
        let mut terms = self.terms.load();
        let mut is_current = false;
        for _ in 0..RESOLUTIONS_MAX {
            let mut charge = terms.charge(key, cost);
            charge.is_current = is_current;
            let answer = match now {
                Some(now) => self.store.check_at(now, &charge),
                None => self.store.check(&charge),
            };
            let Err(StoreError::Superseded) = answer else {
                return answer;
            };
            // If there are no later terms, the state only looks later: revisions wrap.
            let latest = self.terms.load();
            is_current = terms.are(&latest);
            terms = latest;
        }
        Err(StoreError::Superseded)
    }

    /// Turns a failure into a denial where it is asked for: a decision that has to be in memory is
    /// computed whole, including the parts that are not read.
    #[inline(always)]
    fn or_recover(&self, answer: Result<Decision, StoreError>, key: Key, cost: Cost) -> Decision {
        match answer {
            Ok(decision) => decision,
            Err(failure) => {
                let is_superseded = matches!(failure, StoreError::Superseded);
                // Dropping it would take its address, and with it the decision's in its place. The
                // in-process store's failures own nothing that would have to be freed.
                std::mem::forget(failure);
                match is_superseded {
                    true => self.decide_again(key, cost),
                    false => self.deny_without_answer(),
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn decide_again(&self, key: Key, cost: Cost) -> Decision {
        match self.try_decide(key, cost, None) {
            Ok(decision) => decision,
            Err(_) => self.deny_without_answer(),
        }
    }

    #[cold]
    #[inline(never)]
    fn deny_without_answer(&self) -> Decision {
        self.count_failure();
        let wait = Span::from_duration(FAILURE_WAIT);
        Decision::Deny(Denial::new(Wait::For(wait), 0, wait))
    }

    pub(crate) fn count_failure(&self) {
        // Relaxed: a count for reports, which publishes nothing.
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

impl<C> fmt::Debug for Limiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("name", &self.name)
            .field("limit", &self.terms.load().limit)
            .finish_non_exhaustive()
    }
}
