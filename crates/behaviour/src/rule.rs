//! Random limits, and rules that change them.

use tollgate_core::{
    Algorithm, Anchor, Charge, ChargeDenied, Cost, Enforcement, Key, Limit, LimitHistory, Moment,
    Now, Resolution, Segments, Sharing, Span, WINDOW_MAX,
};

use crate::random::Random;

/// The kind of cases for a subject.
#[derive(Clone, Copy, Debug)]
pub struct Taste {
    /// The subject's resolution: every moment and interval is a multiple of it, and its waits and
    /// resets are rounded up to it.
    pub grain: Span,
    /// How large limits are.
    pub scale: Scale,
    /// Whether rules change their limits.
    pub changes: bool,
    /// When a trace begins.
    pub start: Now,
    /// Whether both timelines are one clock, which is never put forward alone.
    pub one_clock: bool,
}

/// How large limits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A few units in a few grains, so that every second step reaches a boundary.
    Small,
    /// Anything representable, mostly the ends of ranges.
    Extreme,
}

/// One rule: a limit, those that it had before, and what its rejection does.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its present limit.
    pub limit: Limit,
    /// The same limit as requests with priority meet it.
    pub for_priority: Limit,
    /// The same limit as requests meet it while there is headroom.
    pub with_headroom: Limit,
    /// The same limit as requests with priority meet it while there is headroom.
    pub whole: Limit,
    /// Its former limits.
    pub history: LimitHistory,
    /// What its rejection does.
    pub enforcement: Enforcement,
    /// What a rejection costs it.
    pub charge_denied: ChargeDenied,
    /// How several instances share the limit.
    pub sharing: Sharing,
}

// === impl Taste ===

impl Taste {
    /// Small limits to the nanosecond, with changes, on clocks that have gone for a while.
    pub const SMALL: Taste = Taste {
        grain: Span::NANOSECOND,
        scale: Scale::Small,
        changes: true,
        start: Now {
            monotonic: Moment::from_nanos(1_000_003),
            utc: Moment::from_nanos(1_763_700_000_000_000_007),
        },
        one_clock: false,
    };
    /// The ends of every range.
    pub const EXTREME: Taste = Taste {
        scale: Scale::Extreme,
        ..Taste::SMALL
    };
    /// Whole microseconds, as in Redis.
    pub const MICROSECONDS: Taste = Taste {
        grain: Span::from_nanos(1_000),
        changes: false,
        start: Now::at(Moment::from_nanos(1_763_700_000_000_007_000)),
        one_clock: true,
        ..Taste::SMALL
    };

    /// A limit of any algorithm.
    pub fn limit(&self, random: &mut Random) -> Limit {
        // What cannot be represented is rejected: draw again.
        let drawn = std::iter::repeat_with(|| match self.scale {
            Scale::Small => self.small(random),
            Scale::Extreme => extreme(random),
        });
        drawn.flatten().next().expect("the sequence has no end")
    }

    /// A random limit of few units; `None` if it cannot be represented.
    fn small(&self, random: &mut Random) -> Option<Limit> {
        let algorithm = algorithm(random);
        let count = if random.chance(4) {
            0
        } else {
            random.small(1, 9)
        };
        let length = random.between(1, 12);
        let grains = match algorithm {
            Algorithm::SlidingWindow(segments) => length * u64::from(segments.get()),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                // Not below the shortest interval, and seldom a whole number of intervals.
                let part = random.between(0, u64::from(count) / 2) * self.is_fine();
                u64::from(count.max(1)) * (99 * self.is_fine() + length) + part
            }
            _ => length,
        };
        let limit = Limit::new(algorithm, count, self.grain.times(grains)).ok()?;
        add_burst_and_parts(limit, random, 12, &[0, 0, 0, 10, 20, 50, 100, 133])
    }

    /// 1 if intervals may end on any nanosecond.
    const fn is_fine(&self) -> u64 {
        match self.grain {
            Span::NANOSECOND => 1,
            _ => 0,
        }
    }

    /// A rule that was never changed.
    pub fn rule(&self, random: &mut Random) -> Rule {
        let enforce = Enforcement::Enforce;
        Rule {
            enforcement: random.pick(&[enforce, enforce, Enforcement::Shadow, Enforcement::Quota]),
            charge_denied: random.pick(&ChargeDenied::ALL),
            ..Rule::new(self.limit(random))
        }
    }

    /// A limit that differs from `limit` in one parameter, or in all.
    pub fn changed_limit(&self, limit: &Limit, random: &mut Random) -> Limit {
        let other = self.limit(random);
        let count = random.pick(&[limit.count(), other.count()]);
        let window = random.pick(&[limit.window(), limit.window(), other.window()]);
        let Ok(near) = Limit::new(limit.algorithm(), count, window) else {
            return other;
        };
        let near = match near.is_bucket() {
            true => near.with_burst(random.pick(&[limit.nominal(), other.nominal()])),
            false => Ok(near),
        };
        let part = random.pick(&[limit, &other]);
        let share = random.pick(&[limit.priority_percent(), other.priority_percent()]);
        let near = near.and_then(|near| near.with_parts_of(part)?.with_priority_share(share));
        near.ok().filter(|_| random.chance(70)).unwrap_or(other)
    }

    /// A cost for a limit, seldom far above its capacity.
    pub fn cost(&self, limit: &Limit, random: &mut Random) -> Cost {
        let capacity = u64::from(limit.capacity());
        let units = match random.between(0, 19) {
            0 => random.word(),
            1 => u64::MAX,
            2 => capacity,
            3 => capacity + 1,
            4 => 0,
            5..8 => random.between(0, capacity),
            8..10 => random.any_size(capacity),
            _ => random.between(1, 3),
        };
        match random.between(0, 11) {
            0 => Cost::Refund(units),
            1 | 2 => Cost::Peek(units),
            _ => Cost::Take(units),
        }
    }
}

fn algorithm(random: &mut Random) -> Algorithm {
    let segments = u8::try_from(random.between(1, 60)).expect("drawn from 1 to 60");
    let many = Segments::new(segments).expect("drawn from 1 to 60");
    random.pick(&[
        Algorithm::FixedWindow(Anchor::Clock),
        Algorithm::FixedWindow(Anchor::FirstRequest),
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow(Segments::ONE),
        Algorithm::SlidingWindow(many),
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ])
}

fn extreme(random: &mut Random) -> Option<Limit> {
    let algorithm = algorithm(random);
    let drawn = random.any_size(u64::from(u32::MAX));
    let drawn = u32::try_from(drawn).expect("at most u32::MAX");
    let count = random.pick(&[0, 1, 2, u32::MAX - 1, u32::MAX, drawn, drawn]);
    let drawn = random.any_size(WINDOW_MAX.as_nanos()).max(1);
    let mut window = random.pick(&[1, 2, WINDOW_MAX.as_nanos(), 1_000_000_000, drawn, drawn]);
    if let Algorithm::SlidingWindow(segments) = algorithm {
        let segments = u64::from(segments.get());
        window = (window / segments).max(1) * segments;
    }
    let limit = Limit::new(algorithm, count, Span::from_nanos(window)).ok()?;
    add_burst_and_parts(limit, random, u32::MAX, &[0, 0, 1, 10, 100, u32::MAX])
}

/// The limit with a burst up to `burst_max`, a soft or an elastic part, and a share for requests
/// with priority, each as often as not.
fn add_burst_and_parts(
    limit: Limit,
    random: &mut Random,
    burst_max: u32,
    soft: &[u32],
) -> Option<Limit> {
    let limit = match limit.is_bucket() && random.chance(50) {
        true => {
            let burst = random.any_size(u64::from(burst_max));
            limit.with_burst(u32::try_from(burst).ok()?).ok()?
        }
        false => limit,
    };
    let percent = random.pick(soft);
    let limit = match limit.count() % 3 {
        0 => limit.with_elastic(percent).ok()?,
        _ => limit.with_soft(percent).ok()?,
    };
    let share = random.pick(&[0, 0, 0, 0, 1, 20, 50, 100]);
    limit.with_priority_share(share).ok()
}

// === impl Rule ===

impl Rule {
    /// A rule with this limit, enforced, never changed.
    pub fn new(limit: Limit) -> Rule {
        Rule {
            limit,
            for_priority: limit.for_priority(),
            with_headroom: limit.with_headroom(),
            whole: limit.whole(),
            history: LimitHistory::default(),
            enforcement: Enforcement::Enforce,
            charge_denied: ChargeDenied::Never,
            sharing: Sharing::default(),
        }
    }

    /// `cost` on `key` under this rule.
    pub const fn charge(&self, key: Key, cost: Cost) -> Charge<'_> {
        self.charge_under(&self.limit, key, cost)
    }

    /// The same charge of a request with priority.
    pub const fn charge_with_priority(&self, key: Key, cost: Cost) -> Charge<'_> {
        self.charge_under(&self.for_priority, key, cost)
    }

    /// The same charge while there is headroom.
    pub const fn charge_with_headroom(&self, key: Key, cost: Cost) -> Charge<'_> {
        self.charge_under(&self.with_headroom, key, cost)
    }

    /// The same charge of a request with priority while there is headroom.
    pub const fn charge_with_both(&self, key: Key, cost: Cost) -> Charge<'_> {
        self.charge_under(&self.whole, key, cost)
    }

    const fn charge_under<'r>(&'r self, limit: &'r Limit, key: Key, cost: Cost) -> Charge<'r> {
        Charge {
            key,
            limit,
            history: &self.history,
            cost,
            enforcement: self.enforcement,
            on_denial: self.charge_denied.on_denial(cost),
            sharing: self.sharing,
            resolution: Resolution::First,
        }
    }

    /// The longest that a key of this rule can be remembered.
    pub fn memory(&self) -> Span {
        let window = self.limit.window();
        match self.limit.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => self.limit.refill(),
            Algorithm::SlidingWindow(segments) => {
                window + Span::from_nanos(window.as_nanos() / u64::from(segments.get()))
            }
            _ => window,
        }
    }

    /// Gives the rule another limit, as a reload does.
    pub fn change(&mut self, limit: Limit) {
        if self.limit != limit {
            *self = Rule {
                history: self.history.and(self.limit),
                enforcement: self.enforcement,
                charge_denied: self.charge_denied,
                sharing: self.sharing,
                ..Rule::new(limit)
            };
        }
    }
}
