//! Several limits on one request: all or nothing.

use std::cmp::Reverse;

use smallvec::{SmallVec, smallvec};

use crate::charge::{CHARGES_MAX, Charge};
use crate::decision::{Decision, Wait};
use crate::limit::{Limit, narrow};
use crate::moment::Now;
use crate::span::Span;
use crate::step::{denial, grant, units_to_exhaust, wait_for};
use crate::usage::Usage;

mod chargeable;

mod charged;

mod combine;

mod denier;

mod line;

mod separate;

use denier::Denier;

pub use charged::ChargedLine;
pub use line::Line;
pub use separate::settle_separate;

/// How many charges a request may have before its decision allocates memory.
pub const CHARGES_INLINE: usize = 8;

/// A list with an item for each charge of a request, or for each of its counters.
pub type PerCharge<T> = SmallVec<[T; CHARGES_INLINE]>;

/// The answer to one request: the decision of each limit, and what follows for the request.
#[must_use = "a verdict that is not read enforces nothing"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The decision of each charge's limit, in the order of the charges. In a denied request,
    /// limits that would have allowed it still say `Allow`, with what remains after the decision.
    pub decisions: PerCharge<Decision>,
    /// Why the request is denied, `by` the index of a charge; `None` if it is allowed.
    pub denial: Option<RequestDenial>,
    /// Where it was decided: the units are counted there, and have to be refunded there.
    pub decided_by: DecidedBy,
}

/// What has decided on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DecidedBy {
    /// The store that was asked.
    #[default]
    Store,
    /// Each limit's [`OnStoreError`](crate::OnStoreError), because the shared store had no answer.
    Fallback,
}

/// Why a request is denied, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDenial {
    /// The index of what denied it: of a charge in a [`Verdict`], of a status in a
    /// [`crate::Answer`]. If several denied it, the first of those with the longest wait.
    pub by: usize,
    /// The time until the same request is allowed if no other request comes.
    pub wait: Wait,
    /// Whether a limit is exceeded or the store is unavailable.
    pub reason: DenialReason,
}

/// Why a request is denied: by a limit, or because the shared store did not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DenialReason {
    /// The request does not fit its limit.
    #[default]
    Exceeded,
    /// The shared store did not answer, and meanwhile the limit denies this request: all of them
    /// ([`OnStoreError::Deny`](crate::OnStoreError::Deny)), or those that cost more than this
    /// instance's share ([`OnStoreError::Local`](crate::OnStoreError::Local)).
    StoreUnavailable,
}

/// The charges of a request, grouped by counter: the charges on one key add up to one line.
#[derive(Debug)]
pub struct Bill<'a> {
    lines: PerCharge<Line<'a>>,
    /// For each charge, how it takes part in the decision.
    judges: PerCharge<Judge<'a>>,
}

/// A charge's part in the decision on its line.
#[derive(Clone, Copy, Debug)]
struct Judge<'a> {
    line: usize,
    limit: &'a Limit,
    /// Whether it is a refund: its limit judges nothing, whatever else is on the line.
    is_refund: bool,
}

/// More charges than [`CHARGES_MAX`] in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyCharges(pub usize);

// === impl Verdict ===

impl Verdict {
    /// The verdict of the store that was asked.
    pub const fn new(decisions: PerCharge<Decision>, denial: Option<RequestDenial>) -> Verdict {
        Verdict {
            decisions,
            denial,
            decided_by: DecidedBy::Store,
        }
    }

    /// Whether the request is allowed.
    pub const fn is_allowed(&self) -> bool {
        self.denial.is_none()
    }

    /// How long to hold the request before it may proceed; zero unless other requests are ahead of
    /// it in a leaky bucket. Shadow limits never delay.
    pub fn delay(&self) -> Span {
        let granted = self.decisions.iter().map(|decision| match decision {
            Decision::Allow(grant) => grant.delay,
            Decision::Deny(_) => Span::ZERO,
        });
        granted.max().unwrap_or(Span::ZERO)
    }
}

// === impl Bill ===

impl<'a> Bill<'a> {
    /// Groups charges by key.
    ///
    /// # Errors
    ///
    /// [`TooManyCharges`] if there are more than [`CHARGES_MAX`].
    pub fn new(charges: &[Charge<'a>]) -> Result<Bill<'a>, TooManyCharges> {
        if charges.len() > CHARGES_MAX {
            return Err(TooManyCharges(charges.len()));
        }
        let mut bill = Bill {
            lines: PerCharge::with_capacity(charges.len()),
            judges: PerCharge::with_capacity(charges.len()),
        };
        for charge in charges {
            let mut lines = bill.lines.iter();
            let found = lines.position(|line| line.charge.key == charge.key);
            let index = found.unwrap_or(bill.lines.len());
            match found {
                Some(index) => bill.lines[index].add(charge),
                None => bill.lines.push(Line::of(*charge)),
            }
            bill.judges.push(Judge {
                line: index,
                limit: charge.limit,
                is_refund: charge.cost.is_refund(),
            });
        }
        Ok(bill)
    }

    /// The lines: one for each counter, no key twice.
    pub fn lines(&self) -> &[Line<'a>] {
        &self.lines
    }

    /// The decision of each line's limit, in the order of the lines.
    pub fn decisions<'v>(&self, verdict: &'v Verdict) -> impl Iterator<Item = &'v Decision> {
        let decisions = (0..self.lines.len()).filter_map(|line| self.first_judge(line));
        decisions.filter_map(|charge| verdict.decisions.get(charge))
    }

    /// The first charge that judges a line; the first refund if there are only refunds.
    fn first_judge(&self, line: usize) -> Option<usize> {
        let charges = self.judges.iter().enumerate();
        let on_line = charges.filter(|(_, judge)| judge.line == line);
        let first = on_line.min_by_key(|(_, judge)| judge.is_refund);
        first.map(|(charge, _)| charge)
    }

    /// Evaluates every line, then charges all or none. `usages` are the states of the lines, in
    /// order.
    ///
    /// Pure, like [`crate::step`]: the caller provides the time, and exclusive access to all
    /// usages.
    pub fn settle<U: Usage>(&self, usages: &mut [U], now: Now) -> Verdict {
        for (line, usage) in self.lines.iter().zip(usages.iter_mut()) {
            usage.settle(line.widest, now.on(line.widest.timeline()));
        }
        // Refunds come first: a retry time is exact only if nothing is refunded after it was
        // computed.
        self.refund(usages, now);
        let waits = self.waits(usages, now);
        let of_lines = self.longest_of_lines(&waits);
        let denied = self.denied_by(&of_lines);
        let delays = match denied {
            None => self.take(usages, &of_lines, now),
            Some(_) => self.penalise(usages, now),
        };
        // Charging a denied request lengthens waits, and may exhaust limits that had allowed it.
        let is_penalised = denied.is_some() && self.lines.iter().any(|line| line.penalty > 0);
        let waits_after = if is_penalised {
            self.waits(usages, now)
        } else {
            waits.clone()
        };
        let decide = |(charge, judge): (usize, &Judge<'_>)| {
            let (usage, limit) = (&usages[judge.line], judge.limit);
            let moment = now.on(limit.timeline());
            let delay = match judge.is_refund {
                true => Span::ZERO,
                false => delays[judge.line],
            };
            match waits[charge].and(waits_after[charge]) {
                None => Decision::Allow(grant(usage, limit, moment, delay)),
                Some(wait) => Decision::Deny(denial(usage, limit, moment, wait)),
            }
        };
        let decisions = self.judges.iter().enumerate().map(decide).collect();
        let denial = denied.map(|line| RequestDenial {
            by: self.judge_of(line, &waits),
            wait: self.longest(&waits_after).unwrap_or(Wait::For(Span::ZERO)),
            reason: DenialReason::Exceeded,
        });
        Verdict::new(decisions, denial)
    }

    /// For each charge, the wait until its limit allows its line; `None` if it does now, and for a
    /// refund, which nothing denies.
    fn waits<U: Usage>(&self, usages: &[U], now: Now) -> PerCharge<Option<Wait>> {
        let wait = |judge: &Judge<'_>| {
            if judge.is_refund {
                return None;
            }
            let (usage, line) = (&usages[judge.line], &self.lines[judge.line]);
            let units = line.take.saturating_add(line.peek);
            let moment = now.on(judge.limit.timeline());
            wait_for(usage, judge.limit, moment, units)
        };
        self.judges.iter().map(wait).collect()
    }

    /// For each line, the wait until all of its limits allow the request.
    fn longest_of_lines(&self, waits: &[Option<Wait>]) -> PerCharge<Option<Wait>> {
        let mut longest: PerCharge<Option<Wait>> = smallvec![None; self.lines.len()];
        for (judge, wait) in self.judges.iter().zip(waits) {
            longest[judge.line] = (*wait).max(longest[judge.line]);
        }
        longest
    }

    /// The charge by which a line denies: the first of those with the longest wait.
    fn judge_of(&self, line: usize, waits: &[Option<Wait>]) -> usize {
        let charges = self.judges.iter().enumerate();
        let charges = charges.filter(|(_, judge)| judge.line == line);
        let by = charges.min_by_key(|(charge, _)| Reverse(waits[*charge]));
        by.map_or(0, |(charge, _)| charge)
    }

    /// The line that denies the request, given the wait of each line: the first of those with the
    /// longest wait. `None` if the request is allowed.
    ///
    /// Public for stores that cannot settle all lines at one moment.
    pub fn denied_by(&self, waits: &[Option<Wait>]) -> Option<usize> {
        let mut denier = Denier::default();
        for (index, line) in self.lines.iter().enumerate() {
            let wait = line.judged.then_some(waits[index]);
            denier.add(index, line.charge.enforcement, wait);
        }
        denier.first().map(|(line, _)| line)
    }

    fn longest(&self, waits: &[Option<Wait>]) -> Option<Wait> {
        let waits = self.longest_of_lines(waits);
        self.denied_by(&waits).and_then(|line| waits[line])
    }

    /// Charges every line that allows the request; returns how long each delays it.
    fn take<U: Usage>(
        &self,
        usages: &mut [U],
        waits: &[Option<Wait>],
        now: Now,
    ) -> PerCharge<Span> {
        let mut delays = smallvec![Span::ZERO; self.lines.len()];
        for (index, line) in self.lines.iter().enumerate() {
            if waits[index].is_some() || line.take == 0 {
                continue;
            }
            let limit = line.widest;
            let moment = now.on(limit.timeline());
            let delay = usages[index].delay(limit, moment);
            delays[index] = line.charge.enforcement.delay(delay);
            usages[index].take(limit, moment, narrow(line.take));
        }
        delays
    }

    /// Charges a denied request to the lines with a penalty; nothing is delayed.
    fn penalise<U: Usage>(&self, usages: &mut [U], now: Now) -> PerCharge<Span> {
        for (line, usage) in self.lines.iter().zip(usages) {
            if line.penalty > 0 {
                let limit = line.widest;
                let units = units_to_exhaust(limit, line.penalty);
                usage.penalise(limit, now.on(limit.timeline()), units);
            }
        }
        smallvec![Span::ZERO; self.lines.len()]
    }

    fn refund<U: Usage>(&self, usages: &mut [U], now: Now) {
        for (line, usage) in self.lines.iter().zip(usages) {
            if line.refund > 0 {
                let limit = line.widest;
                usage.refund(limit, now.on(limit.timeline()), line.refund);
            }
        }
    }
}

impl std::error::Error for TooManyCharges {}

impl std::fmt::Display for TooManyCharges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} limits on one request, and {CHARGES_MAX} is the most",
            self.0
        )
    }
}
