//! A usage of whichever algorithm a limit names, and how it survives a change of the limit.

use crate::bucket::Bucket;
use crate::charge::Charge;
use crate::fixed_window::FixedWindow;
use crate::limit::{Algorithm, Limit};
use crate::moment::{Moment, Now};
use crate::sliding_log::{Entries, Plain, SlidingLog};
use crate::sliding_window::SlidingWindow;
use crate::usage::Usage;

/// The usage of one key, of whichever algorithm its limit names.
///
/// Called with a limit of another algorithm than it was made for, it answers as a fresh key;
/// [`Account::migrate`] converts it first.
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
    /// A key never seen.
    pub fn fresh(limit: &Limit) -> Account<E> {
        Account::fresh_with(limit, E::default)
    }

    /// [`Account::migrate_with`] entries that need no memory of their own.
    pub fn migrate(self, charge: &Charge<'_>, revision: u8, now: Now) -> Account<E> {
        self.migrate_with(charge, revision, now, E::default)
    }
}

impl<E: Entries> Account<E> {
    /// A key never seen, whose log, if it has one, is `empty`.
    pub fn fresh_with(limit: &Limit, empty: impl FnOnce() -> E) -> Account<E> {
        match limit.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Account::Bucket(Bucket::default()),
            Algorithm::FixedWindow(_) => Account::FixedWindow(FixedWindow::default()),
            Algorithm::SlidingWindow(_) => Account::SlidingWindow(SlidingWindow::default()),
            Algorithm::SlidingLog => Account::SlidingLog(SlidingLog { entries: empty() }),
        }
    }

    /// This account, made under the charge's limit of `revision`, under the one it has now.
    ///
    /// If only N, burst, queue or soft changed, the units consumed stay where they are, also more
    /// than the new capacity. If the window, the algorithm, the anchor or the segments
    /// changed, what was used, up to the new capacity, counts as used at `now`; a log begins in
    /// `empty`. A bucket that stays one keeps its units in either case.
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

    /// Units consumed that still count under `limit`, which they were counted by.
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
