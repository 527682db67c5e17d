//! The account of every unit: what was allowed, and whether the limits allow it.
//!
//! Each decision has a start and an end, and Redis charged it at some moment between them. All
//! bounds hold for any such moment, so everything that is reported here is a broken promise.

mod audit;

mod bound;

mod lost;

use std::collections::BTreeMap;

use tollgate_core::{Cost, Mode, OnStoreError, Verdict};

use crate::outcome::Outcome;
use crate::plan::{Part, Plan};
use bound::Bound;

/// Milliseconds, in nanoseconds.
pub(crate) const MILLI: u64 = 1_000_000;
/// How much later than its budget a decision may end: timers fire on whole milliseconds.
const LATE_MAX: u64 = 2 * MILLI;
/// How long an instance may cache a denial after another instance's refund.
const DENIAL_CACHE_MAX: u64 = 1_000 * MILLI;
/// How long the consequences of a fault may last: reconnecting, and the backoff between attempts.
const RECOVERY: u64 = 1_800 * MILLI;
/// The shortest budget in which every decision without faults must succeed despite contention.
const ENOUGH: u64 = 20 * MILLI;

/// What happened to every counter.
#[derive(Debug)]
pub(crate) struct Account {
    plan: Plan,
    tabs: Vec<Tab>,
    open: BTreeMap<u64, Open>,
    /// When decisions over several counters were made, for which competing ones may have waited.
    ended: Vec<(u64, Vec<usize>)>,
    /// Until when consequences of faults may last.
    disturbed_until: u64,
    /// How many instances were started.
    instances: u64,
    /// For each instance, how many reports it had lost when last checked, and when that was.
    reports_lost: BTreeMap<usize, (u64, u64)>,
    /// Times at which some server's or instance's clock was set.
    jumps: Vec<u64>,
    pub(crate) broken: Vec<String>,
    pub(crate) decisions: u64,
}

/// What happened to one counter.
#[derive(Debug, Default)]
struct Tab {
    /// Allowed by Redis, a lease or a local count; in the order of their starts.
    allowed: Vec<Taken>,
    /// Allowed by the memory of each instance.
    local: BTreeMap<usize, Vec<Taken>>,
    /// Decisions whose outcome is unknown: they may have been charged.
    unknown: Vec<Taken>,
    /// Refunds, certain or possible.
    refunds: Vec<Taken>,
    /// Possible refunds, whose outcome is unknown.
    lost_refunds: u64,
    /// Units that may be refunded.
    refundable: u64,
    /// When one more capacity may have become free: writes were lost, or a clock was set.
    excused: Vec<u64>,
    /// When reports were lost, and the most units that were in them.
    unreported: Vec<(u64, u64)>,
}

/// Units, between two moments.
#[derive(Clone, Copy, Debug)]
struct Taken {
    from: u64,
    to: u64,
    units: u64,
}

/// A decision that has begun and not ended.
#[derive(Debug)]
struct Open {
    from: u64,
    instance: usize,
    parts: Vec<Part>,
}

// === impl Account ===

impl Account {
    pub(crate) fn new(plan: &Plan) -> Account {
        Account {
            tabs: plan.counters.iter().map(|_| Tab::default()).collect(),
            plan: plan.clone(),
            open: BTreeMap::new(),
            ended: Vec::new(),
            disturbed_until: 300 * MILLI,
            instances: 0,
            reports_lost: BTreeMap::new(),
            jumps: Vec::new(),
            broken: Vec::new(),
            decisions: 0,
        }
    }

    /// Records a fault that lasts until then.
    pub(crate) fn disturb(&mut self, until: u64) {
        self.disturbed_until = self.disturbed_until.max(until + RECOVERY);
    }

    pub(crate) fn instance_started(&mut self, now: u64) {
        self.instances += 1;
        self.disturb(now);
    }

    /// Records that a clock was set.
    pub(crate) fn clock_jumped(&mut self, now: u64) {
        self.jumps.push(now);
        self.disturb(now);
        for tab in &mut self.tabs {
            tab.excused.push(now);
        }
    }

    /// Records that a failover lost the last writes to this counter.
    pub(crate) fn writes_lost(&mut self, counter: usize, now: u64) {
        self.tabs[counter].excused.push(now);
    }

    /// How many units of a counter can be refunded; the caller refunds them now.
    pub(crate) fn take_refund(&mut self, counter: usize, most: u64) -> u64 {
        let tab = &mut self.tabs[counter];
        let units = tab.refundable.min(most);
        tab.refundable -= units;
        units
    }

    /// Records the start of a decision.
    pub(crate) fn begin(&mut self, number: u64, now: u64, instance: usize, parts: &[Part]) {
        let parts = parts.to_vec();
        let from = now;
        let open = Open {
            from,
            instance,
            parts,
        };
        self.open.insert(number, open);
        self.decisions += 1;
    }

    /// Records the end of a decision.
    pub(crate) fn end(&mut self, number: u64, now: u64, outcome: &Outcome) {
        let Some(open) = self.open.remove(&number) else {
            return;
        };
        let budget = self.plan.setup.timeout_ms * MILLI;
        if now - open.from > budget + LATE_MAX {
            let late = (now - open.from) / MILLI;
            self.fail(
                now,
                &format!("decision {number} took {late} ms of {budget} ns"),
            );
        }
        match outcome {
            Outcome::Decided(verdict) => self.decided(number, &open, now, verdict),
            Outcome::FellBack(verdict) => {
                self.undecided(&open, now);
                self.fell_back(number, &open, now, verdict);
                self.judge_fallback(number, &open, now, "fell back");
            }
            Outcome::Failed(error) => {
                self.undecided(&open, now);
                self.judge_fallback(number, &open, now, &error.to_string());
            }
            Outcome::Cancelled => self.undecided(&open, now),
        }
        if open.parts.len() > 1 && matches!(outcome, Outcome::Decided(_)) {
            let counters = open.parts.iter().map(|part| part.counter).collect();
            self.ended.push((now, counters));
        }
    }

    /// Records decisions that never ended.
    pub(crate) fn close(&mut self, now: u64) {
        for (number, open) in std::mem::take(&mut self.open) {
            let from = open.from / MILLI;
            self.fail(
                now,
                &format!("decision {number}, begun at {from} ms, never ended"),
            );
        }
    }

    pub(crate) fn fail(&mut self, now: u64, what: &str) {
        let millis = now / MILLI;
        self.broken.push(format!("{millis} ms: {what}"));
    }

    /// Records a decision whose outcome is unknown.
    fn undecided(&mut self, open: &Open, now: u64) {
        for part in &open.parts {
            let tab = &mut self.tabs[part.counter];
            match part.cost {
                Cost::Take(units) => tab.unknown.push(open.taken(now, units)),
                Cost::Refund(units) => {
                    tab.lost_refunds += units;
                    // A server that stands still does it when it goes on.
                    tab.refunds.push(open.taken(u64::MAX, units));
                }
                Cost::Peek(_) => {}
            }
        }
    }

    fn decided(&mut self, number: u64, open: &Open, now: u64, verdict: &Verdict) {
        if let Some(denial) = verdict.denial {
            let part = open.parts[denial.by];
            self.judge_denial(number, open, now, part);
            // Its refunds may have been applied all the same.
        }
        for part in &open.parts {
            let taken = open.taken(now, part.cost.units());
            match part.cost {
                Cost::Refund(_) => self.tabs[part.counter].refunds.push(taken),
                Cost::Take(_) if verdict.denial.is_none() => {
                    self.tabs[part.counter].allow(taken);
                    self.judge_allowed(number, part.counter, taken);
                }
                Cost::Take(_) | Cost::Peek(_) => {}
            }
        }
    }

    /// Checks a decision of the fallback.
    fn fell_back(&mut self, number: u64, open: &Open, now: u64, verdict: &Verdict) {
        let choice = |part: &Part| self.plan.counters[part.counter].on_store_error;
        let must_deny = open
            .parts
            .iter()
            .any(|part| choice(part) == OnStoreError::Deny);
        if must_deny && verdict.denial.is_none() {
            self.fail(now, &format!("decision {number} was allowed without Redis"));
        }
        if verdict.denial.is_some() {
            return;
        }
        for part in &open.parts {
            let counter = &self.plan.counters[part.counter];
            if counter.on_store_error != OnStoreError::Local {
                continue;
            }
            let Cost::Take(units) = part.cost else {
                continue;
            };
            let taken = open.taken(now, units);
            let tab = &mut self.tabs[part.counter];
            let local = tab.local.entry(open.instance).or_default();
            local.push(taken);
            let bound = Bound::new(counter, self.plan.setup.base_micros, &self.jumps);
            let jumps = self.jumps.len();
            let extra = tab.refunds.iter().map(|refund| refund.units).sum::<u64>()
                + counter.capacity() * u64::try_from(jumps).unwrap_or(u64::MAX);
            if let Some(why) = bound.broken_by(local, taken, |_| extra) {
                self.fail(now, &format!("decision {number}, in memory: {why}"));
            }
        }
    }

    /// Checks that no more than the limit is allowed in any period that ends with this decision.
    fn judge_allowed(&mut self, number: u64, counter: usize, taken: Taken) {
        let plan = &self.plan.counters[counter];
        let bound = Bound::new(plan, self.plan.setup.base_micros, &self.jumps);
        let tab = &self.tabs[counter];
        let capacity = plan.capacity();
        let rivals = match plan.mode {
            Mode::WriteBack => self.instances,
            Mode::Strict | Mode::Leased => 1,
        };
        // Redis may have applied these refunds by now, although the replies are still on their way.
        let refunds_under_way = self.refunds_under_way(counter);
        let extra = |since: u64| {
            let remembered = since.saturating_sub(bound.memory());
            let refunds = tab.refunds.iter().filter(|refund| refund.to >= remembered);
            let excused = tab.excused.iter().filter(|at| **at >= remembered).count();
            let excused = u64::try_from(excused).unwrap_or(u64::MAX);
            refunds.map(|refund| refund.units).sum::<u64>()
                + refunds_under_way
                + tab.unreported(remembered)
                + capacity * excused * rivals
                + (rivals - 1) * bound.most(since, taken.to)
        };
        if let Some(why) = bound.broken_by(&tab.allowed, taken, extra) {
            let why = format!("decision {number} on counter {counter}: {why}");
            self.fail(taken.to, &why);
        }
    }

    /// Units of refunds that have begun and not ended.
    fn refunds_under_way(&self, counter: usize) -> u64 {
        let parts = self.open.values().flat_map(|open| &open.parts);
        let refunds = parts.filter_map(|part| match part.cost {
            Cost::Refund(units) if part.counter == counter => Some(units),
            _ => None,
        });
        refunds.sum()
    }

    /// Whether the units that others have, or may have, consumed explain a denial.
    fn judge_denial(&mut self, number: u64, open: &Open, now: u64, by: Part) {
        let counter = &self.plan.counters[by.counter];
        // A state from a future time may count as much as the limit allows.
        if counter.mode != Mode::Strict || !self.jumps.is_empty() {
            return;
        }
        let (Cost::Take(cost) | Cost::Peek(cost)) = by.cost else {
            self.fail(now, &format!("decision {number} was denied by a refund"));
            return;
        };
        let bound = Bound::new(counter, self.plan.setup.base_micros, &self.jumps);
        let since = open.from.saturating_sub(bound.memory() + 2 * MILLI);
        let tab = &self.tabs[by.counter];
        let sum = |list: &[Taken]| -> u64 {
            let recent = list.iter().filter(|taken| taken.to >= since);
            recent.map(|taken| taken.units).sum()
        };
        let rivals = self.open.values().flat_map(|open| &open.parts);
        let on_their_way: u64 = rivals
            .filter(|part| part.counter == by.counter)
            .map(|part| part.cost.units())
            .sum();
        // A refund that was done before, which this instance's denial cache may not reflect.
        let heard = open.from.saturating_sub(DENIAL_CACHE_MAX);
        let refunds = match bound.is_long() {
            true => tab.refunds_kept(heard),
            // They may have refunded units that have expired by now.
            false => 0,
        };
        let used = sum(&tab.allowed) + sum(&tab.unknown) + on_their_way;
        let used = used.saturating_sub(refunds);
        let capacity = u64::from(counter.limits[by.version].capacity());
        if used + cost.max(1) <= capacity {
            let why = format!(
                "decision {number} on counter {}: denied {cost} of {capacity}, of which at most \
                 {used} are used",
                by.counter,
            );
            self.fail(now, &why);
        }
    }

    /// Checks that without a fault every decision is made by Redis.
    fn judge_fallback(&mut self, number: u64, open: &Open, now: u64, why: &str) {
        if open.from <= self.disturbed_until || self.plan.setup.timeout_ms * MILLI < ENOUGH {
            return;
        }
        let counters: Vec<usize> = open.parts.iter().map(|part| part.counter).collect();
        let meets = |others: &[usize]| others.iter().any(|other| counters.contains(other));
        // Competing decisions may have been first; but then at least one of them has succeeded.
        let has_progress = self
            .ended
            .iter()
            .any(|(to, others)| *to >= open.from && meets(others));
        if !has_progress {
            let why = format!("decision {number} had no answer although all was well: {why}");
            self.fail(now, &why);
        }
    }
}

// === impl Tab ===

impl Tab {
    fn allow(&mut self, taken: Taken) {
        let at = self
            .allowed
            .partition_point(|earlier| earlier.from <= taken.from);
        self.allowed.insert(at, taken);
        self.refundable += taken.units;
    }
}

// === impl Open ===

impl Open {
    const fn taken(&self, to: u64, units: u64) -> Taken {
        Taken {
            from: self.from,
            to,
            units,
        }
    }
}
