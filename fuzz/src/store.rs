//! The in-process store gives the same answers as the ledger.

use tollgate_core::{
    Algorithm, Anchor, Charge, Cost, Enforcement, Key, Ledger, Limit, LimitHistory, Moment, Now,
    OnDenial, Resolution, Segments, Sharing, Span, Verdict, Wait,
};
use tollgate_memory::{ManualClock, Memory, RandomKeys};

use crate::script::Script;

const RULES: usize = 4;
/// How many values, and so keys, each rule has.
const VALUES: u8 = 3;
const QUESTIONS_MAX: usize = 200;
/// Well before the last representable moment.
const LATEST: Moment = Moment::from_nanos(1 << 62);

/// A rule, with its history.
struct Rule {
    limit: Limit,
    /// The limit as other requests meet it: with priority, with headroom, with both.
    views: [Limit; 3],
    history: LimitHistory,
    enforcement: Enforcement,
    on_denial: OnDenial,
}

/// Reads rules, then requests at moments that never go back, until the input ends.
///
/// # Panics
///
/// If the store and the ledger answer differently.
pub fn store(input: &[u8]) {
    let script = &mut Script::new(input);
    let builder = Memory::builder().keys(RandomKeys::with_secret(1, 2));
    let builder = builder.clock(ManualClock::at(Moment::ZERO));
    let memory = builder.max_keys(1_000).max_bytes(1 << 20).build();
    let mut ledger = Ledger::default();
    let mut rules: Vec<Rule> = (0..RULES).map(|_| Rule::read(script)).collect();
    let mut now = Now {
        monotonic: Moment::from_nanos(script.number().min(LATEST.as_nanos())),
        utc: Moment::from_nanos(1_763_700_000_000_000_007),
    };
    let mut borders = vec![Span::ZERO];
    for _ in 0..QUESTIONS_MAX {
        if script.is_over() {
            break;
        }
        now = later(now, script, &borders);
        if script.sixteenths(1) {
            rules[usize::from(script.byte()) % RULES].change(script);
        }
        let count = script.pick([1, 1, 1, 2, 3, 4]);
        let charges: Vec<Charge<'_>> = (0..count)
            .map(|_| {
                let number = usize::from(script.byte()) % RULES;
                let rule = &rules[number];
                let key = memory.key_of(&(number, script.byte() % VALUES));
                let [priority, headroom, both] = &rule.views;
                let limit = script.pick([&rule.limit, &rule.limit, priority, headroom, both]);
                rule.charge(key, limit, cost(limit, script))
            })
            .collect();
        let expected = ledger.decide(now, &charges).expect("four at most");
        let verdict = memory.decide_at(now, &charges);
        let verdict = verdict.expect("there is memory for a dozen keys");
        assert_eq!(verdict, expected, "at {now:?}: {charges:#?}");
        borders = spans(&verdict);
    }
    assert_eq!(memory.evicted_keys(), 0, "a dozen keys fit");
}

fn later(now: Now, script: &mut Script<'_>, borders: &[Span]) -> Now {
    let border = borders[usize::from(script.byte()) % borders.len()];
    let span = match script.byte() % 8 {
        0..3 => Span::ZERO,
        3 => border,
        4 => border.minus(Span::NANOSECOND),
        5 => Span::from_nanos(script.number()),
        6 => Span::from_millis(script.number()),
        _ => Span::NANOSECOND,
    };
    if now.utc + span > LATEST || now.monotonic + span > LATEST {
        return now;
    }
    Now {
        monotonic: now.monotonic + span,
        utc: now.utc + span,
    }
}

/// The spans after which the last answers say that something happens.
fn spans(verdict: &Verdict) -> Vec<Span> {
    let mut spans = vec![Span::ZERO];
    for decision in &verdict.decisions {
        spans.push(decision.reset());
        if let Some(Wait::For(wait)) = decision.wait() {
            spans.push(wait);
        }
    }
    spans
}

/// A limit from the script's bytes.
fn limit(script: &mut Script<'_>) -> Limit {
    let segments = Segments::new(script.byte() % 60 + 1).unwrap_or(Segments::ONE);
    let algorithm = script.pick([
        Algorithm::FixedWindow(Anchor::Clock),
        Algorithm::FixedWindow(Anchor::FirstRequest),
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow(Segments::ONE),
        Algorithm::SlidingWindow(segments),
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ]);
    let count = script.count();
    let unit = script.pick([1, 1_000, 1_000_000, 1_000_000_000]);
    let length = script.number().max(1).saturating_mul(unit);
    let window = Span::from_nanos(match algorithm {
        Algorithm::SlidingWindow(segments) => length.saturating_mul(u64::from(segments.get())),
        _ => length,
    });
    // What cannot be represented is rejected when a rule is loaded.
    let Ok(limit) = Limit::new(algorithm, count, window) else {
        return Limit::sliding_log(3, Span::from_nanos(10)).expect("a small log");
    };
    let limit = match limit.is_bucket() && script.sixteenths(8) {
        true => limit.with_burst(script.count()).unwrap_or(limit),
        false => limit,
    };
    let percent = script.pick([0, 0, 0, 10, 100]);
    let limit = match script.sixteenths(4) {
        true => limit.with_elastic(percent).unwrap_or(limit),
        false => limit.with_soft(percent).unwrap_or(limit),
    };
    let share = script.pick([0, 0, 0, 20, 50, 100]);
    limit.with_priority_share(share).unwrap_or(limit)
}

fn views(limit: &Limit) -> [Limit; 3] {
    [limit.for_priority(), limit.with_headroom(), limit.whole()]
}

fn cost(limit: &Limit, script: &mut Script<'_>) -> Cost {
    let units = match script.byte() % 8 {
        0 => script.number(),
        1 => u64::from(limit.capacity()),
        2 => u64::from(limit.capacity()) + 1,
        3 => 0,
        few => u64::from(few / 3),
    };
    match script.byte() % 12 {
        0 | 1 => Cost::Refund(units),
        2 => Cost::Peek(units),
        _ => Cost::Take(units),
    }
}

// === impl Rule ===

impl Rule {
    fn read(script: &mut Script<'_>) -> Rule {
        let enforce = Enforcement::Enforce;
        let limit = limit(script);
        Rule {
            limit,
            views: views(&limit),
            history: LimitHistory::none().clone(),
            enforcement: script.pick([enforce, enforce, Enforcement::Shadow, Enforcement::Quota]),
            on_denial: script.pick([OnDenial::Keep, OnDenial::Keep, OnDenial::Charge]),
        }
    }

    fn change(&mut self, script: &mut Script<'_>) {
        let limit = limit(script);
        if limit != self.limit {
            self.history = self.history.and(self.limit);
            self.limit = limit;
            self.views = views(&limit);
        }
    }

    fn charge<'r>(&'r self, key: Key, limit: &'r Limit, cost: Cost) -> Charge<'r> {
        Charge {
            key,
            limit,
            history: &self.history,
            cost,
            enforcement: self.enforcement,
            on_denial: self.on_denial,
            resolution: Resolution::First,
            sharing: Sharing::default(),
        }
    }
}
