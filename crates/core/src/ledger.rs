//! The plain store: one map, no bound, one thread. The model that every other store must equal.

use std::collections::HashMap;

use crate::account::Account;
use crate::charge::Charge;
use crate::key::Key;
use crate::moment::Now;
use crate::store::StoreError;
use crate::verdict::{Bill, Line, Verdict};

/// Every key ever charged, in a map that never forgets.
///
/// For tests, documentation and experiments: it is exact and it grows for ever.
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
///     assert!(ledger.decide(now, &[charge])?.is_admitted());
/// }
/// let fourth = ledger.decide(now, &[charge])?;
/// assert_eq!(fourth.refusal.map(|refusal| refusal.wait), Some(Wait::For(Span::from_secs(20))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: HashMap<Key, Remembered>,
}

#[derive(Debug)]
struct Remembered {
    revision: u8,
    account: Account,
}

// === impl Ledger ===

impl Ledger {
    /// All or nothing over `charges`, at `now`.
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
        let mut accounts: Vec<Account> = Vec::with_capacity(bill.lines().len());
        for line in bill.lines() {
            accounts.push(self.account(&line.charge, now));
        }
        let verdict = bill.settle(&mut accounts, now);
        for (line, account) in bill.lines().iter().zip(accounts) {
            let revision = line.charge.past.revision();
            self.accounts
                .insert(line.charge.key, Remembered { revision, account });
        }
        Ok(verdict)
    }

    fn account(&mut self, charge: &Charge<'_>, now: Now) -> Account {
        match self.accounts.remove(&charge.key) {
            Some(remembered) => remembered.account.carried(charge, remembered.revision, now),
            None => Account::fresh(charge.limit),
        }
    }
}
