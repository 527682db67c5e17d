//! Random traces: two subjects get the same requests and must give the same answers.

use tollgate_core::{Charge, ChargeDenied, Cost, Decision, Key, Moment, Now, Span, Verdict, Wait};

use crate::random::{Random, check};
use crate::rule::{Rule, Taste};
use crate::subject::{Plain, Subject};

/// A few rules, a few keys, and a clock that mostly stops at boundaries.
#[derive(Debug)]
pub struct Trace {
    taste: Taste,
    now: Now,
    rules: Vec<Rule>,
    /// Spans after which something happens, from the last answers.
    borders: Vec<Span>,
    /// Whether the wall clock is set, back and forth.
    steps: bool,
}

/// One charge of a request: which rule, which of its keys.
#[derive(Clone, Copy, Debug)]
struct TraceCharge {
    rule: usize,
    value: u64,
    cost: Cost,
    has_priority: bool,
    has_headroom: bool,
}

/// The most keys that one rule has in most requests of a trace.
const VALUES: u64 = 2;
/// How many keys all rules have in wide requests.
const WIDE_KEYS: u64 = 24;
/// Requests of more charges are wide.
const NARROW_MAX: usize = 3;
/// The requests of one trace.
const STEPS: usize = 60;
/// No trace goes beyond this moment (in 2262): a century later must still be a moment.
const LATEST_NANOS: u64 = 1 << 63;

// === impl Trace ===

impl Trace {
    /// A trace with up to four rules.
    pub fn new(taste: Taste, random: &mut Random) -> Trace {
        let rules = (0..random.between(1, 4)).map(|_| taste.rule(random));
        Trace {
            taste,
            now: taste.start,
            rules: rules.collect(),
            borders: vec![Span::ZERO],
            steps: false,
        }
    }

    /// The wall clock is set now and then, back and forth, by nanoseconds, seconds or hours.
    pub(crate) fn with_steps(self) -> Trace {
        Trace {
            steps: true,
            ..self
        }
    }

    /// Denials cost nothing, in all rules.
    pub(crate) fn keep_on_denial(&mut self) {
        for rule in &mut self.rules {
            rule.charge_denied = ChargeDenied::Never;
        }
    }

    /// Sends the same requests to both.
    ///
    /// `key` makes both of them a key each; `expected` is rounded up to the grain before the
    /// comparison.
    ///
    /// # Panics
    ///
    /// If an answer differs.
    pub fn run<S, E>(&mut self, random: &mut Random, subject: &mut S, expected: &mut E)
    where
        S: Subject,
        E: Subject,
    {
        for step in 0..STEPS {
            self.pass_time(random);
            self.step_wall_clock(random);
            self.change_rules(random);
            let asked = self.question(random);
            let charges = self.charges(&asked, |name| subject.key(name));
            let got = subject.decide(self.now, &charges);
            let same = self.charges(&asked, |name| expected.key(name));
            let want = with_grain(expected.decide(self.now, &same), self.taste.grain);
            assert_eq!(got, want, "step {step} at {:?}: {charges:#?}", self.now);
            self.remember(&want);
        }
    }

    /// Sends all requests to `subject`, and to `sparing` only those that `matters` selects by the
    /// answer of `subject`. The answers to the selected requests must not differ.
    ///
    /// # Panics
    ///
    /// If an answer differs.
    pub(crate) fn run_sparing<S: Subject>(
        &mut self,
        random: &mut Random,
        [subject, sparing]: [&mut S; 2],
        matters: impl Fn(&[Charge<'_>], &Verdict) -> bool,
    ) {
        for step in 0..STEPS {
            self.pass_time(random);
            let asked = self.question(random);
            let charges = self.charges(&asked, |name| subject.key(name));
            let got = subject.decide(self.now, &charges);
            if matters(&charges, &got) {
                let same = self.charges(&asked, |name| sparing.key(name));
                let want = sparing.decide(self.now, &same);
                assert_eq!(got, want, "step {step} at {:?}: {charges:#?}", self.now);
            }
            self.remember(&got);
        }
    }

    /// After each denial with a wait, retries just before and at its retry time.
    ///
    /// # Panics
    ///
    /// If a wait is too long or too short.
    pub(crate) fn run_waiting<S: Subject>(&mut self, random: &mut Random, subject: &mut S) {
        for _ in 0..STEPS {
            self.pass_time(random);
            self.step_wall_clock(random);
            let asked = self.question(random);
            let charges = self.charges(&asked, |name| subject.key(name));
            let verdict = subject.decide(self.now, &charges);
            let denial = verdict.denial.map(|denial| denial.wait);
            if let Some(Wait::For(wait)) = denial {
                let memory = asked.iter().map(|one| self.rules[one.rule].memory());
                assert!(
                    Some(wait) <= memory.max(),
                    "locked for {wait}: {charges:#?}"
                );
            }
            if let Some(Wait::For(wait)) = denial
                && wait.as_nanos() <= LATEST_NANOS.saturating_sub(self.now.utc.as_nanos())
            {
                self.wait(subject, &charges, wait);
                self.now = later(self.now, wait);
            }
            self.remember(&verdict);
        }
    }

    /// Retries just before and at the retry time. The retries are peeks, because under
    /// `charge_denied` a retry that is too early is charged.
    fn wait<S: Subject>(&self, subject: &mut S, charges: &[Charge<'_>], wait: Span) {
        let peeks: Vec<Charge<'_>> = charges.iter().copied().filter_map(to_peek).collect();
        let early = later(self.now, wait.minus(self.taste.grain));
        let in_time = later(self.now, wait);
        let verdict = subject.decide(early, &peeks);
        assert!(!verdict.is_allowed(), "{wait} is too long: {charges:#?}");
        let verdict = subject.decide(in_time, &peeks);
        assert!(verdict.is_allowed(), "{wait} is too short: {charges:#?}");
        let verdict = subject.decide(in_time, charges);
        assert!(
            verdict.is_allowed(),
            "after {wait} a peek lied: {charges:#?}"
        );
    }

    /// Advances to a boundary, to just before or after it, to any moment, or not at all.
    fn pass_time(&mut self, random: &mut Random) {
        let grain = self.taste.grain;
        let border = random.pick(&self.borders);
        let window = random.pick(&self.rules).limit.window();
        let span = match random.between(0, 9) {
            0..3 => Span::ZERO,
            3 => grain,
            4 => border,
            5 => border.minus(grain),
            6 => border + grain,
            7 => window,
            8 => round_up(
                Span::from_nanos(random.any_size(2 * window.as_nanos())),
                grain,
            ),
            _ => grain.times(random.between(0, 12)),
        };
        if span.as_nanos() > LATEST_NANOS.saturating_sub(self.now.utc.as_nanos()) {
            return;
        }
        self.now.monotonic = self.now.monotonic + span;
        // The wall clock is sometimes put forward.
        let forward = if !self.taste.one_clock && random.chance(3) {
            grain.times(7)
        } else {
            Span::ZERO
        };
        self.now.utc = self.now.utc + span + forward;
    }

    /// Sometimes sets the wall clock forward or back.
    fn step_wall_clock(&mut self, random: &mut Random) {
        if !self.steps || !random.chance(15) {
            return;
        }
        let unit = random.pick(&[
            self.taste.grain,
            Span::from_millis(1),
            Span::SECOND,
            Span::HOUR,
        ]);
        let step = unit.times(random.between(1, 50));
        let set = |moment: Moment, is_back| match is_back {
            true => moment - step,
            false => moment + step,
        };
        let is_back = random.chance(50);
        self.now.utc = set(self.now.utc, is_back);
        if self.taste.one_clock {
            self.now.monotonic = self.now.utc;
        }
    }

    fn change_rules(&mut self, random: &mut Random) {
        if !self.taste.changes || !random.chance(8) {
            return;
        }
        let last = u64::try_from(self.rules.len()).expect("a few rules") - 1;
        let index = usize::try_from(random.between(0, last)).expect("a few rules");
        let limit = self.taste.changed_limit(&self.rules[index].limit, random);
        self.rules[index].change(limit);
    }

    /// The charges of a request. Some are wide: of more charges, and on more keys, than are kept
    /// without the heap.
    fn question(&self, random: &mut Random) -> Vec<TraceCharge> {
        let rules = u64::try_from(self.rules.len()).expect("a few rules");
        let count = match random.chance(8) {
            true => random.pick(&[9, 20]),
            false => random.pick(&[1, 1, 1, 2, NARROW_MAX]),
        };
        let is_wide = count > NARROW_MAX;
        let values = if is_wide { WIDE_KEYS / rules } else { VALUES };
        let has_priority = random.chance(30);
        // It comes and goes with time.
        let has_headroom = self.now.monotonic.as_nanos() / self.taste.grain.as_nanos() % 2 == 1;
        let asked = (0..count).map(|_| {
            let rule = usize::try_from(random.between(0, rules - 1)).expect("a few rules");
            // One large cost of many would deny nearly every wide request.
            let cost = match is_wide && random.chance(95) {
                true => random.pick(&[Cost::ONE, Cost::ONE, Cost::Peek(1), Cost::Refund(1)]),
                false => self.taste.cost(&self.rules[rule].limit, random),
            };
            TraceCharge {
                rule,
                value: random.between(1, values),
                cost,
                has_priority,
                has_headroom,
            }
        });
        asked.collect()
    }

    fn charges(&self, asked: &[TraceCharge], mut key: impl FnMut(&str) -> Key) -> Vec<Charge<'_>> {
        let charges = asked.iter().map(|one| {
            let key = key(&format!("rule {} value {}", one.rule, one.value));
            let rule = &self.rules[one.rule];
            match (one.has_priority, one.has_headroom) {
                (false, false) => rule.charge(key, one.cost),
                (true, false) => rule.charge_with_priority(key, one.cost),
                (false, true) => rule.charge_with_headroom(key, one.cost),
                (true, true) => rule.charge_with_both(key, one.cost),
            }
        });
        charges.collect()
    }

    fn remember(&mut self, verdict: &Verdict) {
        self.borders.clear();
        for decision in &verdict.decisions {
            self.borders.push(decision.reset());
            match decision {
                Decision::Allow(grant) => self.borders.push(grant.delay),
                Decision::Deny(denial) => match denial.wait {
                    Wait::For(span) => self.borders.push(span),
                    Wait::Never => {}
                },
            }
        }
    }
}

/// The verdict of a store whose resolution is `grain`.
pub fn with_grain(mut verdict: Verdict, grain: Span) -> Verdict {
    let coarse = |wait: &mut Wait| {
        if let Wait::For(span) = wait {
            *span = round_up(*span, grain);
        }
    };
    for decision in &mut verdict.decisions {
        match decision {
            Decision::Allow(grant) => {
                grant.reset = round_up(grant.reset, grain);
                grant.delay = round_up(grant.delay, grain);
            }
            Decision::Deny(denial) => {
                denial.reset = round_up(denial.reset, grain);
                coarse(&mut denial.wait);
            }
        }
    }
    if let Some(denial) = &mut verdict.denial {
        coarse(&mut denial.wait);
    }
    verdict
}

/// The subject gives the ledger's answers on random traces.
pub fn agrees_with_the_ledger<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    check("agrees_with_the_ledger", 300, |random| {
        let mut trace = Trace::new(*taste, random);
        trace.run(random, &mut fresh(), &mut Plain::default());
    });
}

/// As [`agrees_with_the_ledger`], with a wall clock that is set back and forth.
pub fn agrees_with_the_ledger_while_the_wall_clock_steps<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    check(
        "agrees_with_the_ledger_while_the_wall_clock_steps",
        150,
        |random| {
            let mut trace = Trace::new(*taste, random).with_steps();
            trace.run(random, &mut fresh(), &mut Plain::default());
        },
    );
}

/// The same request as a peek; nothing for a refund.
const fn to_peek(charge: Charge<'_>) -> Option<Charge<'_>> {
    match charge.cost {
        Cost::Take(units) | Cost::Peek(units) => Some(Charge {
            cost: Cost::Peek(units),
            ..charge
        }),
        Cost::Refund(_) => None,
    }
}

/// Both clocks, `span` later.
pub(crate) fn later(now: Now, span: Span) -> Now {
    Now {
        monotonic: now.monotonic + span,
        utc: now.utc + span,
    }
}

fn round_up(span: Span, grain: Span) -> Span {
    grain.times(span.as_nanos().div_ceil(grain.as_nanos()))
}
