//! The state of one key under any algorithm, and how it is migrated to a changed limit.

use crate::bucket::Bucket;
use crate::charge::Charge;
use crate::fixed_window::FixedWindow;
use crate::limit::{Algorithm, Limit};
use crate::moment::{Moment, Now};
use crate::sliding_log::{Entries, Plain, SlidingLog};
use crate::sliding_window::SlidingWindow;
use crate::usage::Usage;

/// The state of one key, under the algorithm of its limit.
///
/// Call [`Account::migrate`] first if the limit may have changed: with a limit of another algorithm
/// than it was made for, an account behaves like a fresh key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack for one decision, never stored"
)]
pub enum Account<E = Plain> {
    /// A token or leaky bucket.
    Bucket(Bucket),
    /// A fixed window.
    FixedWindow(FixedWindow),
    /// A sliding window.
    SlidingWindow(SlidingWindow),
    /// A sliding log.
    SlidingLog(SlidingLog<E>),
}

// === impl Account ===

impl<E: Entries + Default> Account<E> {
    /// The state of a key that was never seen.
    pub fn fresh(limit: &Limit) -> Account<E> {
        Account::fresh_with(limit, E::default)
    }

    /// As [`Account::migrate_with`]; a new log starts with `E::default()`.
    pub fn migrate(self, charge: &Charge<'_>, revision: u8, now: Now) -> Account<E> {
        self.migrate_with(charge, revision, now, E::default)
    }
}

impl<E: Entries> Account<E> {
    /// The state of a key that was never seen. If the limit needs a log, it starts as `empty`.
    pub fn fresh_with(limit: &Limit, empty: impl FnOnce() -> E) -> Account<E> {
        match limit.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Account::Bucket(Bucket::default()),
            Algorithm::FixedWindow(_) => Account::FixedWindow(FixedWindow::default()),
            Algorithm::SlidingWindow(_) => Account::SlidingWindow(SlidingWindow::default()),
            Algorithm::SlidingLog => Account::SlidingLog(SlidingLog { entries: empty() }),
        }
    }

    /// Migrates this account from the limit of `revision` to the charge's present limit.
    ///
    /// If only N, burst, queue or soft changed, the consumed units keep their moments, even if they
    /// exceed the new capacity. If the window, the algorithm, the anchor or the segments changed,
    /// the consumed units count as consumed at `now`, up to the new capacity; a new log starts as
    /// `empty`.
    pub fn migrate_with(
        mut self,
        charge: &Charge<'_>,
        revision: u8,
        now: Now,
        empty: impl FnOnce() -> E,
    ) -> Account<E> {
        let Some(old) = charge.history.limit_at(revision) else {
            return self;
        };
        let new = charge.limit;
        let now_new = now.on(new.timeline());
        if let Account::Bucket(bucket) = self
            && old.algorithm() == new.algorithm()
        {
            return Account::Bucket(bucket.migrate(old, new, now_new));
        }
        if old.algorithm() == new.algorithm() && old.window() == new.window() {
            return self;
        }
        let used = self.used(old, now.on(old.timeline()));
        let mut account = Account::fresh_with(new, empty);
        account.settle(new, now_new);
        account.take(new, now_new, new.capacity().min(used));
        account
    }

    /// The revision to store with this account, which was decided on under `limit`, the limit of
    /// the revision `is`, and had been made under the revision `was`.
    ///
    /// That is `was` for a debt that is still expressed in the terms of its former limit.
    pub fn revision(&self, limit: &Limit, was: u8, is: u8) -> u8 {
        match self {
            Account::Bucket(bucket) if !bucket.is_word_of(limit) => was,
            _ => is,
        }
    }

    /// The consumed units that still count under `limit`, the limit that counted them.
    fn used(&mut self, limit: &Limit, now: Moment) -> u32 {
        self.settle(limit, now);
        let used = match self {
            Account::Bucket(bucket) => bucket.used(limit, now),
            Account::FixedWindow(window) => u64::from(window.used()),
            Account::SlidingWindow(window) => window.estimate(limit, now),
            Account::SlidingLog(log) => log.entries.units(),
        };
        u32::try_from(used).unwrap_or(u32::MAX)
    }
}

crate::impl_usage_for_variants!([E: Entries] Account<E> {
    Bucket,
    FixedWindow,
    SlidingWindow,
    SlidingLog,
});
