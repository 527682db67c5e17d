//! Charges that are settled later, when it is known how many units were used.

use tollgate_core::{
    Bill, Charge, Clock, Decision, Now, Reserved, Settlement, StoreError, Verdict,
};

use super::{Memory, Time};
use crate::sync::Backoff;

impl<C: Clock> Memory<C> {
    /// As [`Memory::check`], and returns the time of the decision, from which [`Reserved::new`]
    /// makes what [`Memory::settle_reserved`] settles.
    ///
    /// # Errors
    ///
    /// As [`Memory::check`].
    pub fn check_timed(&self, charge: &Charge<'_>) -> Result<(Decision, Now), StoreError> {
        let mut time = Time::of(&self.clock);
        let place = self.table.place(charge.key);
        let decision = self.decide_locked(place, charge, &mut time)?;
        Ok((decision, time.now))
    }

    /// As [`Memory::decide_now`], and returns the time of the decision, as
    /// [`Memory::check_timed`].
    ///
    /// # Errors
    ///
    /// As [`Memory::decide_now`].
    pub fn decide_timed(&self, charges: &[Charge<'_>]) -> Result<(Verdict, Now), StoreError> {
        let mut time = Time::of(&self.clock);
        let verdict = self.decide_all(&Bill::new(charges)?, &mut time)?;
        Ok((verdict, time.now))
    }

    /// Charges `actual` units in place of those that `charge` was reserved before; see
    /// [`tollgate_core::Account::settle_reserved`]. The charge's cost is not read.
    ///
    /// # Errors
    ///
    /// As [`Memory::check`]; the reserved units stay charged.
    pub fn settle_reserved(
        &self,
        charge: &Charge<'_>,
        reserved: &Reserved,
        actual: u64,
    ) -> Result<Settlement, StoreError> {
        let mut time = Time::of(&self.clock);
        let place = self.table.place(charge.key);
        let available = charge.limit.available();
        let is_excess = actual > reserved.units() && available > 0;
        let mut backoff = Backoff::default();
        let lock = loop {
            if let Some(lock) = self.lock_existing(place, charge, &mut backoff)? {
                break lock;
            }
            if !is_excess {
                // Evicted, or expired: there is nothing to refund to.
                return Ok(Settlement::new(reserved.units(), available));
            }
            if let Some(lock) = self.insert_locked(place, charge, time.now, &mut backoff)? {
                break lock;
            }
        };
        time.refresh();
        let (locked_state, mut state) = self.read_alone(lock, charge, &mut time, |_, _, _| true)?;
        let settlement = state.settle_reserved(charge, time.now, reserved, actual);
        locked_state.commit(state, charge.limit, charge.history.revision(), None);
        Ok(settlement)
    }
}
