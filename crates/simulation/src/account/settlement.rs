//! Checks of reservations: each is settled once, for no more and no less than what can be charged.

use tollgate_core::Cost;

use super::Account;
use super::reservation::{Reservation, Settling};
use crate::deployment::Topology;
use crate::instance::RESERVATION_LIFETIME;
use crate::outcome::{Outcome, SettleOutcome};
use crate::plan::Part;

impl Account {
    /// Records that an allowed request, which was sent at `from`, has made a reservation of what it
    /// was charged.
    pub(crate) fn add_reservation(
        &mut self,
        number: u64,
        part: Part,
        from: u64,
        outcome: &Outcome,
    ) {
        let Outcome::Decided(answer) = outcome else {
            let why = format!("decision {number}: a reservation without the store: {outcome:?}");
            self.fail(from, &why);
            return;
        };
        // A limit that a request does not meet, or a shadow limit that denies it, charges nothing.
        let is_charged = answer.limited().any(|one| one.decision.is_allowed());
        let reservation = Reservation {
            counter: part.counter,
            units: if is_charged { part.cost.units() } else { 0 },
            since: from,
            is_settled: false,
            is_in_doubt: false,
        };
        // These are refunded by the settlement.
        let tab = &mut self.tabs[part.counter];
        tab.refundable = tab.refundable.saturating_sub(reservation.units);
        self.reservations.insert(number, reservation);
    }

    /// Records the start of an attempt to settle a reservation.
    pub(crate) fn settle_began(&mut self, attempt: (u64, usize), now: u64, actual: u64) {
        let Some(reservation) = self.reservations.get(&attempt.0) else {
            return;
        };
        let units = reservation.units;
        let cost = match units {
            // There is nothing to settle.
            0 => Cost::Peek(0),
            _ if actual > units => Cost::Take(actual - units),
            _ => Cost::Refund(units - actual),
        };
        let part = Part {
            counter: reservation.counter,
            version: 0,
            cost,
        };
        let settling = Settling { from: now, part };
        self.settling.insert(attempt, settling);
    }

    /// Records the end of an attempt to settle a reservation.
    pub(crate) fn settle_ended(
        &mut self,
        attempt: (u64, usize),
        now: u64,
        outcome: &SettleOutcome,
    ) {
        let Some(settling) = self.settling.remove(&attempt) else {
            return;
        };
        let number = attempt.0;
        match outcome {
            SettleOutcome::Settled(charged) => {
                self.record_settled(number, &settling, now, *charged)
            }
            SettleOutcome::NotFound => self.judge_not_found(number, now),
            SettleOutcome::Failed(_) | SettleOutcome::Cancelled => {
                self.record_in_doubt(number, &settling, now);
            }
        }
    }

    /// Records and checks what a reservation was settled to.
    fn record_settled(&mut self, number: u64, settling: &Settling, now: u64, charged: Option<u64>) {
        if let Some(why) = self.why_not_settled(number, settling, now, charged) {
            self.fail(now, &format!("the settlement of {number}: {why}"));
        }
        let Some(reservation) = self.reservations.get_mut(&number) else {
            return;
        };
        reservation.is_settled = true;
        let (units, counter) = (reservation.units, reservation.counter);
        let charged = charged.unwrap_or(units);
        let taken = settling.take(now, charged.abs_diff(units));
        let is_cluster = self.plan.setup.topology == Topology::Cluster;
        let is_shared = is_cluster || self.plan.counters[counter].limits.len() > 1;
        let tab = &mut self.tabs[counter];
        // A limit that was exhausted has not even a part of a unit left. Units reserved for others,
        // and what other versions of the limit count, may have been charged without being granted.
        let wanted = settling.part.cost.units() + units;
        if charged < wanted && !settling.is_refund() {
            let missing = if is_shared { wanted - charged } else { 1 };
            tab.penalties.push(settling.take(now, missing));
        }
        if charged < units {
            self.effects.settled_below += 1;
            tab.refunds.push(taken);
        } else if charged > units {
            self.effects.settled_above += 1;
            taken.insert_into(&mut tab.allowed);
            self.judge_allowed(number, counter, taken);
        }
    }

    /// Why a reservation cannot have been settled to this, if it cannot.
    fn why_not_settled(
        &self,
        number: u64,
        settling: &Settling,
        now: u64,
        charged: Option<u64>,
    ) -> Option<String> {
        let reservation = self.reservations.get(&number)?;
        if reservation.is_settled && !self.may_be_lost(reservation, now) {
            return Some("it was settled before".to_owned());
        }
        let units = reservation.units;
        let (least, most) = match settling.part.cost {
            Cost::Refund(refund) => (units - refund, units),
            Cost::Take(excess) => (units, units + excess),
            Cost::Peek(_) => (0, 0),
        };
        let charged = charged.unwrap_or(0);
        let is_possible = least <= charged && charged <= most;
        (!is_possible).then(|| format!("{charged} units charged, not {least} to {most}"))
    }

    /// Checks that a reservation is found that was not settled.
    fn judge_not_found(&mut self, number: u64, now: u64) {
        let Some(reservation) = self.reservations.get(&number) else {
            return;
        };
        let mut others = self.settling.keys();
        let has_rival = others.any(|(settled, _)| *settled == number);
        let is_explained = reservation.is_settled || reservation.is_in_doubt || has_rival;
        if !is_explained && !self.may_be_lost(reservation, now) {
            self.fail(now, &format!("the reservation of {number} was not found"));
        }
    }

    /// Records an attempt that may have settled the reservation, or not.
    fn record_in_doubt(&mut self, number: u64, settling: &Settling, now: u64) {
        let Some(reservation) = self.reservations.get_mut(&number) else {
            return;
        };
        reservation.is_in_doubt = true;
        let until = self.faults_until.max(now);
        let tab = &mut self.tabs[reservation.counter];
        tab.add_unknown(settling.part.cost, settling.from, until);
    }

    /// Whether a failover may have lost the reservation, or its settlement, or both have expired
    /// by a clock that was set.
    fn may_be_lost(&self, reservation: &Reservation, now: u64) -> bool {
        let (tab, since) = (&self.tabs[reservation.counter], reservation.since);
        let forward = tab.clock.forward(since, now, u64::MAX);
        let has_expired = now - since + forward >= RESERVATION_LIFETIME.as_nanos();
        // One that charges nothing is kept beside its counter, which may lose no write.
        let mut lost = tab.excused.iter().chain(&self.reservations_lost);
        has_expired || lost.any(|at| *at >= since)
    }
}
