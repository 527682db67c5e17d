//! The simplest store: an unbounded map for one thread, and the model for every other store.

use std::collections::HashMap;

use crate::account::Account;
use crate::bucket::Bucket;
use crate::charge::Charge;
use crate::fixed_window::FixedWindow;
use crate::key::Key;
use crate::moment::Now;
use crate::sliding_log::SlidingLog;
use crate::sliding_window::SlidingWindow;
use crate::store::StoreError;
use crate::verdict::{Bill, Line, Verdict};

/// Every key ever charged, in a map that never evicts.
///
/// For tests, documentation and experiments: it is exact and grows without bound.
///
/// # Example
///
/// ```
/// use tollgate_core::{Charge, Cost, Key, Ledger, Limit, Moment, Now, Span, Wait};
///
/// let limit = Limit::token_bucket(3, Span::MINUTE)?;
/// let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
/// let mut ledger = Ledger::default();
/// let now = Now::at(Moment::from_nanos(0));
/// for _ in 0..3 {
///     assert!(ledger.decide(now, &[charge])?.is_allowed());
/// }
/// let fourth = ledger.decide(now, &[charge])?;
/// assert_eq!(fourth.denial.map(|denial| denial.wait), Some(Wait::For(Span::from_secs(20))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: HashMap<Key, Remembered>,
}

#[derive(Debug)]
struct Remembered {
    revision: u8,
    state: State,
}

/// An account as the map stores it. The large variants are boxed, because every entry of the map is
/// as large as the largest variant.
#[derive(Debug)]
enum State {
    Bucket(Bucket),
    FixedWindow(FixedWindow),
    SlidingWindow(Box<SlidingWindow>),
    SlidingLog(Box<SlidingLog>),
}

/// An entry of the map, with its key, takes 64 bytes.
const _: () = assert!(size_of::<(Key, Remembered)>() <= 64);

// === impl Ledger ===

impl Ledger {
    /// Decides on `charges`, all or nothing, at `now`.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooManyCharges`] or [`StoreError::Superseded`].
    pub fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let bill = Bill::new(charges)?;
        let is_superseded = |line: &Line<'_>| {
            let remembered = self.accounts.get(&line.charge.key);
            remembered.is_some_and(|state| line.charge.is_superseded_by(state.revision))
        };
        if bill.lines().iter().any(is_superseded) {
            return Err(StoreError::Superseded);
        }
        let lines = bill.lines().iter();
        let (revisions, mut accounts): (Vec<u8>, Vec<Account>) =
            lines.map(|line| self.remove(&line.charge, now)).unzip();
        let verdict = bill.settle(&mut accounts, now);
        for ((line, account), was) in bill.lines().iter().zip(accounts).zip(revisions) {
            let Charge { limit, history, .. } = line.charge;
            let remembered = Remembered {
                revision: account.revision(limit, was, history.revision()),
                state: State::of(account),
            };
            self.accounts.insert(line.charge.key, remembered);
        }
        Ok(verdict)
    }

    /// The account of a key, and the revision that it had.
    fn remove(&mut self, charge: &Charge<'_>, now: Now) -> (u8, Account) {
        match self.accounts.remove(&charge.key) {
            Some(Remembered { revision, state }) => {
                let account = state.account().migrate(charge, revision, now);
                (revision, account)
            }
            None => (charge.history.revision(), Account::fresh(charge.limit)),
        }
    }
}

// === impl State ===

impl State {
    fn of(account: Account) -> State {
        match account {
            Account::Bucket(bucket) => State::Bucket(bucket),
            Account::FixedWindow(window) => State::FixedWindow(window),
            Account::SlidingWindow(window) => State::SlidingWindow(Box::new(window)),
            Account::SlidingLog(log) => State::SlidingLog(Box::new(log)),
        }
    }

    fn account(self) -> Account {
        match self {
            State::Bucket(bucket) => Account::Bucket(bucket),
            State::FixedWindow(window) => Account::FixedWindow(window),
            State::SlidingWindow(window) => Account::SlidingWindow(*window),
            State::SlidingLog(log) => Account::SlidingLog(*log),
        }
    }
}
