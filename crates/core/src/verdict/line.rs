//! The charges of a request on one counter.

use crate::charge::{Charge, OnDenial};
use crate::cost::Cost;
use crate::limit::{Limit, wide};

/// Everything that a request charges to one counter.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The charge on this counter whose limit has the least units available (the first of
    /// several), refunds aside; the first refund if there is nothing else. Its key, limit, history
    /// and enforcement apply to the line.
    pub charge: Charge<'a>,
    /// The limit with the largest capacity, which keeps the counter, so that a smaller limit never
    /// erases what a larger one counted.
    pub(super) widest: &'a Limit,
    /// Units to consume.
    pub(super) take: u64,
    /// Of these, the units to charge if the request is denied.
    pub(super) penalty: u64,
    /// Units to peek at.
    pub(super) peek: u64,
    /// Units to refund.
    pub(super) refund: u64,
    /// Whether there is anything but refunds.
    pub(super) judged: bool,
}

// === impl Line ===

impl<'a> Line<'a> {
    /// The limit on this counter with the largest capacity, by which it is charged; that of the
    /// charge, unless charges with different limits share the line.
    pub const fn widest(&self) -> &'a Limit {
        self.widest
    }

    /// Units to consume if the request is allowed.
    pub const fn take(&self) -> u64 {
        self.take
    }

    /// Units to charge if the request is denied, as far as they fit.
    pub const fn penalty(&self) -> u64 {
        self.penalty
    }

    /// Units to refund, before anything is evaluated.
    pub const fn refund(&self) -> u64 {
        self.refund
    }

    /// Units that must fit, at least one; `None` if there are only refunds.
    pub const fn units_needed(&self) -> Option<u64> {
        match (self.judged, self.take.saturating_add(self.peek)) {
            (false, _) => None,
            (true, 0) => Some(1),
            (true, units) => Some(units),
        }
    }

    /// As [`Line::units_needed`], and the units that must stay for requests with priority: what a
    /// store that knows nothing of priorities judges the line by.
    pub const fn units_judged(&self) -> Option<u64> {
        match self.units_needed() {
            Some(units) => Some(units.saturating_add(wide(self.charge.limit.unavailable()))),
            None => None,
        }
    }

    /// The line of one charge.
    pub(super) fn of(charge: Charge<'a>) -> Line<'a> {
        let mut line = Line {
            charge,
            widest: charge.limit,
            take: 0,
            penalty: 0,
            peek: 0,
            refund: 0,
            judged: false,
        };
        line.add_cost(&charge);
        line
    }

    /// Adds a charge on the same counter.
    pub(super) fn add(&mut self, charge: &Charge<'a>) {
        self.add_judge(charge);
        // Of views of one limit, the one that leaves units for requests with priority.
        let size = |limit: &Limit| (limit.capacity(), limit.unavailable());
        if size(charge.limit) > size(self.widest) {
            self.widest = charge.limit;
        }
        self.add_cost(charge);
    }

    /// Has the limit of a charge judge the line, too. A refund is no part of the decision: neither
    /// its limit nor its enforcement counts.
    fn add_judge(&mut self, charge: &Charge<'a>) {
        if charge.cost.is_refund() {
            return;
        }
        if !self.judged {
            self.charge = *charge;
            return;
        }
        let enforcement = self.charge.enforcement.stricter(charge.enforcement);
        if charge.limit.available() < self.charge.limit.available() {
            self.charge = *charge;
        }
        // Whichever comes first: a shadow of a limit must not turn the limit off.
        self.charge.enforcement = enforcement;
    }

    /// Adds the units of a charge.
    fn add_cost(&mut self, charge: &Charge<'_>) {
        let cost = charge.cost;
        if let (Cost::Take(units), OnDenial::Charge) = (cost, charge.on_denial) {
            self.penalty = self.penalty.saturating_add(units);
        }
        match cost {
            Cost::Take(units) => self.take = self.take.saturating_add(units),
            Cost::Peek(units) => self.peek = self.peek.saturating_add(units),
            Cost::Refund(units) => self.refund = self.refund.saturating_add(units),
        }
        self.judged |= !charge.cost.is_refund();
    }
}
