//! The account of every unit: what was allowed, and whether the limits allow it.
//!
//! Each decision has a start and an end, and Redis charged it at some moment between them. All
//! bounds hold for any such moment, so everything that is reported here is a broken promise.

mod answer;

mod applied;

mod audit;

mod available;

mod bound;

mod clock;

mod fallback;

mod headroom;

mod judge;

mod local_counts;

mod lost;

mod remaining;

mod reservation;

mod settlement;

#[cfg(test)]
mod single_answer;

mod tab;

mod views;

mod write_back;

use std::collections::BTreeMap;

use tollgate_core::{Answer, Cost, Limited, OnDenial};

use crate::deployment::Topology;
use crate::outcome::Outcome;
use crate::plan::{Part, Plan, View};
pub(crate) use applied::Effects;
use bound::Bound;
use clock::Clock;
pub(crate) use clock::Jump;
use headroom::Headroom;
use reservation::{Reservation, Settling};
use tab::{Tab, Taken};

/// Milliseconds, in nanoseconds.
pub(crate) const MILLI: u64 = 1_000_000;
/// How much later than its budget a decision may end: timers fire on whole milliseconds.
const LATE_MAX: u64 = 2 * MILLI;
/// How long the consequences of a fault may last: reconnecting, and the backoff between attempts.
const RECOVERY: u64 = 1_800 * MILLI;

/// What happened to every counter.
#[derive(Debug)]
pub(crate) struct Account {
    plan: Plan,
    tabs: Vec<Tab>,
    open: BTreeMap<u64, Open>,
    /// The reservations that were made, by the numbers of their decisions.
    reservations: BTreeMap<u64, Reservation>,
    /// When a failover lost some of them, or their settlements.
    reservations_lost: Vec<u64>,
    /// Attempts to settle them that have begun and not ended.
    settling: BTreeMap<(u64, usize), Settling>,
    /// When decisions over several counters were made, for which competing ones may have waited.
    ended: Vec<(u64, Vec<usize>)>,
    /// When the faults so far end: what is on its way may arrive until then.
    faults_until: u64,
    /// Whether there were any but cancelled requests.
    has_faults: bool,
    /// Whether a replica has taken over somewhere.
    has_new_primaries: bool,
    /// How many instances were started.
    instances: u64,
    /// The version of the rules file that each instance has.
    versions: BTreeMap<usize, usize>,
    /// Which instances had headroom, and when.
    headroom: Headroom,
    /// For each instance, how many reports it had lost when last checked, and when that was.
    reports_lost: BTreeMap<usize, (u64, u64)>,
    /// The wall clock of each instance, where it was set.
    walls: BTreeMap<usize, Clock>,
    pub(crate) broken: Vec<String>,
    pub(crate) decisions: u64,
    /// How many of them Redis had to make.
    pub(crate) judged: u64,
    /// What versions of the rules file have changed about decisions.
    pub(crate) effects: Effects,
}

/// A decision that has begun and not ended.
#[derive(Debug)]
struct Open {
    from: u64,
    instance: usize,
    parts: Vec<Part>,
    /// How it met limits at least, and at most: which of both is unknown.
    least: View,
    most: View,
    /// The versions of the rules file that its instance has had since.
    versions: Vec<usize>,
}

// === impl Account ===

impl Account {
    /// The account of a run that begins: nothing has happened to the plan's counters.
    pub(crate) fn new(plan: &Plan) -> Account {
        Account {
            tabs: plan.counters.iter().map(|_| Tab::default()).collect(),
            plan: plan.clone(),
            open: BTreeMap::new(),
            reservations: BTreeMap::new(),
            reservations_lost: Vec::new(),
            settling: BTreeMap::new(),
            ended: Vec::new(),
            faults_until: 0,
            has_faults: false,
            has_new_primaries: false,
            instances: 0,
            versions: BTreeMap::new(),
            headroom: Headroom::default(),
            reports_lost: BTreeMap::new(),
            walls: BTreeMap::new(),
            broken: Vec::new(),
            decisions: 0,
            judged: 0,
            effects: Effects::default(),
        }
    }

    /// Records a fault that lasts until then.
    pub(crate) fn disturb(&mut self, until: u64) {
        self.has_faults = true;
        self.recover(until);
    }

    /// Records that all that was disturbed recovers from then on.
    pub(crate) fn recover(&mut self, from: u64) {
        self.faults_until = self.faults_until.max(from);
    }

    /// Until when consequences of the faults so far may last.
    const fn end_of_disturbance(&self) -> u64 {
        self.faults_until + RECOVERY
    }

    pub(crate) fn instance_started(&mut self, now: u64) {
        self.instances += 1;
        self.recover(now);
    }

    /// Records that a replica takes over.
    pub(crate) fn replica_promoted(&mut self, now: u64) {
        self.has_new_primaries = true;
        self.disturb(now);
    }

    /// Records that a failover lost the last writes to this counter.
    pub(crate) fn writes_lost(&mut self, counter: usize, now: u64) {
        self.tabs[counter].excused.push(now);
    }

    /// Records that some reservations may be lost: by a failover, which loses the last writes, or
    /// by a clock by which they have expired.
    pub(crate) fn reservations_lost(&mut self, now: u64) {
        self.reservations_lost.push(now);
    }

    /// How many units of a counter can be refunded; the caller refunds them now.
    pub(crate) fn take_refund(&mut self, counter: usize, most: u64) -> u64 {
        let tab = &mut self.tabs[counter];
        let units = tab.refundable.min(most);
        tab.refundable -= units;
        units
    }

    /// Records the start of a decision.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        now: u64,
        instance: usize,
        parts: &[Part],
        has_priority: bool,
    ) {
        let version = self.versions.get(&instance).copied().unwrap_or_default();
        let view = self.view_now(instance, has_priority, now);
        let open = Open {
            from: now,
            instance,
            parts: parts.to_vec(),
            least: view,
            most: view,
            versions: vec![version],
        };
        self.return_unlimited(&open);
        self.open.insert(number, open);
        self.decisions += 1;
    }

    /// Records the end of a decision, during which so many requests to Redis failed.
    pub(crate) fn end(&mut self, number: u64, now: u64, outcome: &Outcome, errors: u64) {
        let Some(mut open) = self.open.remove(&number) else {
            return;
        };
        self.widen_views(&mut open, now);
        let budget = self.plan.setup.timeout_ms * MILLI;
        if now - open.from > budget + LATE_MAX {
            let late = (now - open.from) / MILLI;
            self.fail(
                now,
                &format!("decision {number} took {late} ms of {budget} ns"),
            );
        }
        // One that was cancelled was asking when it was.
        let unknown = errors + u64::from(matches!(outcome, Outcome::Cancelled));
        for _ in 0..unknown {
            self.record_unknown(&open, now);
        }
        self.judged += u64::from(self.must_be_decided(&open));
        match outcome {
            Outcome::Decided(answer) => {
                if let Some(limited) = self.find_limited(number, &open, now, answer) {
                    self.record_decision(number, &limited, now, answer);
                }
            }
            Outcome::FellBack(answer) => {
                if let Some(limited) = self.find_limited(number, &open, now, answer) {
                    self.fell_back(number, &limited, now, answer);
                }
                self.judge_fallback(number, &open, now, "fell back");
            }
            Outcome::Failed(error) => {
                self.count_in_memory(&open, true);
                self.judge_fallback(number, &open, now, &error.to_string());
            }
            Outcome::Cancelled => self.count_in_memory(&open, true),
        }
    }

    /// Records decisions and settlements that never ended.
    pub(crate) fn close(&mut self, now: u64) {
        let decisions = std::mem::take(&mut self.open).into_iter();
        let settlements = std::mem::take(&mut self.settling).into_iter();
        let open = decisions
            .map(|(number, open)| (format!("decision {number}"), open.from))
            .chain(settlements.map(|((number, _), settling)| {
                (format!("the settlement of {number}"), settling.from)
            }));
        for (what, from) in open {
            let from = from / MILLI;
            self.fail(now, &format!("{what}, begun at {from} ms, never ended"));
        }
    }

    pub(crate) fn fail(&mut self, now: u64, what: &str) {
        let millis = now / MILLI;
        self.broken.push(format!("{millis} ms: {what}"));
    }

    /// What the limits of a counter allow, by Redis's clock.
    fn find_bound(&self, counter: usize) -> Bound<'_> {
        let plan = &self.plan.counters[counter];
        Bound::new(plan, self.plan.setup.base_micros, &self.tabs[counter].clock)
    }

    /// Records a decision whose outcome is unknown.
    fn record_unknown(&mut self, open: &Open, now: u64) {
        let until = self.faults_until.max(now);
        for part in open.find_limited_in_any(&self.plan) {
            self.tabs[part.counter].add_unknown(part.cost, open.from, until);
        }
    }

    /// Records a decision of the shared store.
    fn record_decision(&mut self, number: u64, open: &Open, now: u64, answer: &Answer) {
        self.judge_answer(number, open, now, answer);
        self.judge_wait(number, open, now, answer);
        if open.parts.len() > 1 {
            let counters = open.parts.iter().map(|part| part.counter).collect();
            self.ended.push((now, counters));
        }
        let is_allowed = answer.is_allowed();
        for (part, limited) in open.parts.iter().zip(answer.limited()) {
            let taken = open.take(now, part.cost.units());
            let fits = limited.decision.is_allowed();
            self.judge_remaining(number, open, now, *part, limited);
            if !fits {
                self.judge_denial(number, open, now, *part, limited);
            }
            match part.cost {
                // Even if the request is denied.
                Cost::Refund(_) => self.tabs[part.counter].refunds.push(taken),
                Cost::Take(_) if is_allowed && fits => {
                    self.tabs[part.counter].allow(open.instance, taken);
                    self.count_locally(part.counter, open.instance, taken);
                    self.judge_allowed(number, part.counter, taken);
                    self.judge_available(number, open, part.counter, taken);
                    self.count_elastic(open, *part, limited);
                }
                Cost::Take(_) if !is_allowed => {
                    self.record_penalty(number, open, *part, taken, limited)
                }
                Cost::Take(_) | Cost::Peek(_) => {}
            }
        }
    }

    /// Records what a denied request is charged.
    fn record_penalty(
        &mut self,
        number: u64,
        open: &Open,
        part: Part,
        taken: Taken,
        limited: &Limited,
    ) {
        let counter = &self.plan.counters[part.counter];
        let charge_denied = counter.charge_denied.unwrap_or(self.plan.charge_denied);
        if charge_denied.on_denial(part.cost) == OnDenial::Keep {
            return;
        }
        self.tabs[part.counter].penalties.push(taken);
        // Of several limits, one may have denied the request before another was asked; and in a
        // Cluster, reservations are not charged to anybody yet.
        let has_reservations = self.plan.setup.topology == Topology::Cluster;
        let is_alone = open.parts.len() == 1 && !has_reservations && counter.is_strict();
        if !is_alone || limited.decision.is_allowed() {
            return;
        }
        // Others leave a part of the limit.
        if counter.is_whole(open.least) {
            self.tabs[part.counter].exhausted.push(taken);
        }
        let remaining = limited.decision.remaining();
        if remaining > 0 {
            let why = format!("decision {number} was denied and charged, but {remaining} remain");
            self.fail(taken.to, &why);
        }
    }
}

// === impl Open ===

impl Open {
    const fn take(&self, to: u64, units: u64) -> Taken {
        Taken::new(self.from, to, units)
    }
}
