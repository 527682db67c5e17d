//! Checks of a decision when it ends.

use tollgate_core::{Cost, Limited, Mode};
use tollgate_redis::DENIAL_CACHE_MAX;

use super::clock::READ_LATE;
use super::{Account, Bound, MILLI, Open, Taken};
use crate::plan::{Part, View};

/// The shortest budget in which every decision without faults must succeed despite contention.
const ENOUGH: u64 = 20 * MILLI;

impl Account {
    /// Checks that no more than the limit is allowed in any period that ends with this decision.
    pub(super) fn judge_allowed(&mut self, number: u64, counter: usize, taken: Taken) {
        let bound = self.find_bound(counter);
        let extra = self.extra_units(counter, &bound, taken.to);
        let violation = bound.find_violation(&self.tabs[counter].allowed, taken, extra);
        if let Some(why) = violation {
            let why = format!("decision {number} on counter {counter}: {why}");
            self.fail(taken.to, &why);
        }
        self.judge_exhausted(number, counter, taken);
    }

    /// How many more units than `bound` may be allowed from some moment to `to`, because of what
    /// happened to the counter.
    pub(super) fn extra_units<'a>(
        &'a self,
        counter: usize,
        bound: &'a Bound<'a>,
        to: u64,
    ) -> impl Fn(u64) -> u64 + use<'a> {
        let plan = &self.plan.counters[counter];
        let tab = &self.tabs[counter];
        let rivals = match plan.has_local_counts() {
            true => self.instances,
            false => 1,
        };
        let unreported = self.most_unreported(counter, bound, to);
        // Redis may have applied these refunds by now, although the replies are still on their way.
        let refunds_under_way = self.refunds_under_way(counter);
        move |since: u64| {
            let remembered = bound.find_memory_start(since);
            let refunds = tab.refunds.iter().filter(|refund| refund.to >= remembered);
            let excused = tab.excused.iter().filter(|at| **at >= remembered).count();
            let excused = u64::try_from(excused).unwrap_or(u64::MAX);
            refunds.map(|refund| refund.units).sum::<u64>()
                + refunds_under_way
                + tab.unreported_units(remembered)
                + plan.capacity() * excused * rivals
                + unreported(since)
                + bound.most_dropped()
        }
    }

    /// What decisions and settlements charge that have begun and not ended.
    fn parts_under_way(&self) -> impl Iterator<Item = Part> {
        let decisions = self.open.values().flat_map(|open| &open.parts).copied();
        let settlements = self.settling.values().map(|settling| settling.part);
        decisions.chain(settlements)
    }

    /// Units of refunds that have begun and not ended.
    pub(super) fn refunds_under_way(&self, counter: usize) -> u64 {
        let refunds = self.parts_under_way().filter_map(|part| match part.cost {
            Cost::Refund(units) if part.counter == counter => Some(units),
            _ => None,
        });
        refunds.sum()
    }

    /// Checks that a limit that had nothing left, because a denied request was charged, allows only
    /// what has become free since.
    fn judge_exhausted(&mut self, number: u64, counter: usize, taken: Taken) {
        let (plan, bound) = (&self.plan.counters[counter], self.find_bound(counter));
        let tab = &self.tabs[counter];
        // Another version of the limit may be larger.
        if plan.limits.len() > 1 {
            return;
        }
        let before = |exhausted: &&Taken| exhausted.to < taken.from;
        let Some(exhausted) = tab
            .exhausted
            .iter()
            .filter(before)
            .max_by_key(|one| one.from)
        else {
            return;
        };
        let is_lost = tab.excused.iter().any(|at| *at >= exhausted.from);
        if !plan.is_strict() || !bound.is_long() || is_lost || tab.has_former_clock {
            return;
        }
        let refilled = bound.refill_units(exhausted.from, taken.to);
        let sum = |list: &[Taken], since: u64| -> u64 {
            let recent = list.iter().filter(|one| one.to >= since);
            recent.map(|one| one.units).sum()
        };
        let refunds = sum(&tab.refunds, exhausted.from) + self.refunds_under_way(counter);
        let allowed = tab.allowed.iter().filter(|one| one.from > exhausted.to);
        let allowed: u64 = allowed.map(|one| one.units).sum();
        if allowed > refilled + refunds {
            let why = format!(
                "decision {number} on counter {counter}: {allowed} units were allowed after the \
                 limit was exhausted at {} ms, where {refilled} and {refunds} are explained",
                exhausted.to / MILLI
            );
            self.fail(taken.to, &why);
        }
    }

    /// Whether the units that others have, or may have, consumed explain a denial.
    pub(super) fn judge_denial(
        &mut self,
        number: u64,
        open: &Open,
        now: u64,
        by: Part,
        limited: &Limited,
    ) {
        let (counter, tab) = (&self.plan.counters[by.counter], &self.tabs[by.counter]);
        let Some(held) = self.most_held(by.counter) else {
            return;
        };
        if by.cost.is_refund() {
            self.fail(now, &format!("decision {number} was denied by a refund"));
            return;
        }
        let cost = open.judged_units(by.counter);
        // Redis decided at some moment; a clock that was set back meanwhile explains more.
        let moments = tab.clock.moments(open.from, now);
        let used = moments.map(|at| self.most_used(by.counter, at)).max();
        let used = used.unwrap_or(0) + held;
        // What is kept for others is not there for this request.
        let available = |view| u64::from(counter.meet_again(&limited.limit, view).available());
        let fits = |view| used + cost.max(1) <= available(view);
        let (view, capacity) = (open.least, available(open.least));
        let with_priority = View {
            has_priority: true,
            ..view
        };
        let with_headroom = View {
            has_headroom: true,
            ..view
        };
        self.effects.kept_for_priority += u64::from(fits(with_priority));
        self.effects.denied_without_headroom += u64::from(fits(with_headroom));
        if fits(view) {
            let why = format!(
                "decision {number} on counter {}: denied {cost} of {capacity}, of which at most \
                 {used} are used",
                by.counter,
            );
            self.fail(now, &why);
        }
    }

    /// How many units of a counter may count as used at a moment, by all that is known by now.
    fn most_used(&self, counter: usize, at: u64) -> u64 {
        let (plan, tab) = (&self.plan.counters[counter], &self.tabs[counter]);
        let bound = self.find_bound(counter);
        let since = self.find_cause_start(counter, at);
        let sum = |list: &[Taken]| -> u64 {
            let recent = list.iter().filter(|taken| taken.to >= since);
            recent.map(|taken| taken.units).sum()
        };
        let on_their_way: u64 = self
            .parts_under_way()
            .filter(|part| part.counter == counter)
            .map(|part| part.cost.units())
            .sum();
        // Of refunds by other instances since then, a denial cache may not know.
        let heard = at.saturating_sub(DENIAL_CACHE_MAX.as_nanos());
        let refunds = match bound.is_long() && plan.is_strict() {
            true => tab.refunds_kept(heard),
            // They may have refunded units that have expired by now; and units that instances have
            // spent or counted, and not reported, cannot be refunded.
            false => 0,
        };
        let used = sum(&tab.allowed) + sum(&tab.unknown) + sum(&tab.penalties) + on_their_way;
        used.saturating_sub(refunds) + bound.debt_units(at)
    }

    /// How many units of a counter instances may hold that they have not spent; `None` if that is
    /// unknown, and denials are not judged.
    fn most_held(&self, counter: usize) -> Option<u64> {
        let (plan, tab) = (&self.plan.counters[counter], &self.tabs[counter]);
        if tab.has_former_clock {
            return None;
        }
        if plan.is_strict() {
            return Some(0);
        }
        // What instances hold or count, they date by their own clocks.
        if tab.clock.has_large_jumps() {
            return None;
        }
        if !plan.modes.contains(&Mode::Leased) {
            return Some(0);
        }
        // Leases whose reply is lost, or whose instance dies, are held as well.
        let is_quiet = !self.has_faults && tab.unknown.is_empty();
        is_quiet.then(|| self.instances * plan.capacity().div_ceil(4))
    }

    /// Since when units may explain a denial.
    fn find_cause_start(&self, counter: usize, at: u64) -> u64 {
        let (plan, bound) = (&self.plan.counters[counter], self.find_bound(counter));
        if plan.is_strict() {
            return bound.find_cause_start(at);
        }
        // What was allowed beyond the limit is paid back; and an instance may not have heard for
        // some time from Redis.
        let debts = bound.memory() * self.instances + DENIAL_CACHE_MAX.as_nanos();
        at.saturating_sub(debts + READ_LATE)
    }

    /// Whether no fault can explain that a decision is not made by Redis, nor a budget that others
    /// may use up.
    pub(super) const fn must_be_decided(&self, open: &Open) -> bool {
        open.from > self.end_of_disturbance() && self.plan.setup.timeout_ms * MILLI >= ENOUGH
    }

    /// Checks that without a fault every decision is made by Redis.
    pub(super) fn judge_fallback(&mut self, number: u64, open: &Open, now: u64, why: &str) {
        if !self.must_be_decided(open) {
            return;
        }
        let counters: Vec<usize> = open.parts.iter().map(|part| part.counter).collect();
        // A slot's reservation ends by the clock of its server: set forward, it ends before the
        // slots confirm.
        let timeout = self.plan.setup.timeout_ms * MILLI;
        let has_ended = |counter: &usize| {
            let clock = &self.tabs[*counter].clock;
            clock.forward(open.from, now, timeout) >= timeout
        };
        if counters.len() > 1 && counters.iter().any(has_ended) {
            return;
        }
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

// === impl Open ===

impl Open {
    /// The units that must fit a counter: all that the request charges or peeks at there.
    pub(super) fn judged_units(&self, counter: usize) -> u64 {
        let parts = self.parts.iter().filter(|part| part.counter == counter);
        let judged = parts.map(|part| match part.cost {
            Cost::Take(units) | Cost::Peek(units) => units,
            Cost::Refund(_) => 0,
        });
        judged.sum()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Bucket, Limit, Moment, OnDenial, OnStoreError, Span, step};

    use super::*;
    use crate::account::Jump;
    use crate::account::single_answer::single_answer;
    use crate::deployment::Topology;
    use crate::outcome::Outcome;
    use crate::plan::{Counter, Plan};

    /// What breaks if units of ten in a second are allowed, then one is denied, and the clock is
    /// set back meanwhile.
    fn deny_while_clock_is_set(units: u64, nanos: i64) -> Vec<String> {
        let limit = Limit::token_bucket(10, Span::SECOND).expect("a second is a window");
        let mut plan = Plan::quiet(Topology::Single);
        let counter = Counter::new(vec![limit], Mode::Strict, OnStoreError::Deny);
        plan.counters = vec![counter];
        let mut account = Account::new(&plan);
        let mut bucket = Bucket::full_at(Moment::from_nanos(0));
        let decide = |bucket: &mut Bucket, cost| {
            let now = Moment::from_nanos(0);
            single_answer(limit, step(bucket, &limit, now, cost, OnDenial::Keep))
        };
        for (number, cost) in [(0, Cost::Take(units)), (1, Cost::ONE)] {
            let from = (10 + 10 * number) * MILLI;
            let part = Part {
                counter: 0,
                version: 0,
                cost,
            };
            account.begin(number, from, 0, &[part], false);
            let outcome = Outcome::Decided(decide(&mut bucket, cost));
            if number == 0 {
                bucket = Bucket::full_at(Moment::from_nanos(1_000 * MILLI));
            } else {
                account.clock_set(0, Jump::at(from + MILLI, nanos));
            }
            account.end(number, from + 2 * MILLI, &outcome, 0);
        }
        account.broken
    }

    #[test]
    fn a_clock_set_back_during_a_denial_explains_as_many_units_as_pass_in_that_time() {
        let back = |millis: i64| -millis * 1_000_000;
        let why = "22 ms: decision 1 on counter 0: denied 1 of 10, of which at most";
        assert_eq!(deny_while_clock_is_set(10, 0), [""; 0]);
        assert_eq!(deny_while_clock_is_set(9, 0), [format!("{why} 9 are used")]);
        assert_eq!(deny_while_clock_is_set(5, back(500)), [""; 0]);
        let broken = deny_while_clock_is_set(4, back(500));
        assert_eq!(broken, [format!("{why} 9 are used")]);
        let broken = deny_while_clock_is_set(4, -back(500));
        assert_eq!(broken, [format!("{why} 4 are used")]);
    }
}
