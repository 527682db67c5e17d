//! The refund of a request whose client goes away before its turn in a leaky bucket.
//!
//! Only leaky buckets get units back: until the turn, all of them still count. Units of a window
//! may be those of an earlier one by then, and a token bucket may have refilled them: a refund
//! would be of units that other requests have consumed. A request that is not held at all, because
//! too many are, gets all of them back at once. In memory, a request that may be held has reserved
//! what it was charged instead, which is exact at any time.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{
    Algorithm, Answer, ChargeDenied, Clock, Cost, Decision, Descriptor, Entry, Moment, Request,
    Status,
};
use tollgate_engine::{ChargedBy, Engine};

use crate::background::Background;

/// The most refunds at once that wait for a shared store. The units of further ones stay charged
/// until they decay.
const REFUNDS_MAX: usize = 4096;

/// Makes refunds.
#[derive(Clone)]
pub(crate) struct Refunder {
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    background: Background,
}

/// The places in leaky buckets of a request that is held. They are given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Refund(Option<Charged>);

#[derive(Debug)]
struct Charged {
    refunder: Refunder,
    domain: Box<[u8]>,
    charged_by: ChargedBy,
    /// Whether the store is the memory of this process.
    is_in_memory: bool,
    /// Whether all units are refunded, and not only those of leaky buckets.
    is_whole: bool,
    places: Vec<Place>,
}

/// What a descriptor was charged.
#[derive(Debug)]
struct Place {
    entries: Entries,
    units: u64,
    /// Until when these units certainly count: a leaky bucket begins to drain them, or a window
    /// ends.
    until: Moment,
    is_leaky: bool,
}

/// The keys and values of a descriptor.
type Entries = Vec<(Box<[u8]>, Box<[u8]>)>;

// === impl Refunder ===

impl Refunder {
    pub(crate) fn new(engine: &Arc<Engine>, clock: &Arc<dyn Clock>) -> Refunder {
        Refunder {
            engine: Arc::clone(engine),
            clock: Arc::clone(clock),
            background: Background::new(REFUNDS_MAX),
        }
    }

    /// The refund of a request that this answer allows, now.
    pub(crate) fn prepare(
        &self,
        request: &Request<'_>,
        answer: &Answer,
        charged_by: ChargedBy,
    ) -> Refund {
        if answer.delay.is_zero() {
            return Refund::none();
        }
        let now = self.clock.now().monotonic;
        let descriptors = request.descriptors.iter().zip(&answer.statuses);
        let places = descriptors.filter_map(|(descriptor, status)| {
            let Status::Limited(limited) = status else {
                return None;
            };
            // A shadow limit or a quota that would have denied was not charged.
            let Decision::Allow(grant) = limited.decision else {
                return None;
            };
            let is_leaky = limited.limit.algorithm() == Algorithm::LeakyBucket;
            let entries = descriptor.entries.iter();
            Some(Place {
                entries: entries
                    .map(|entry| (entry.key.into(), entry.value.into()))
                    .collect(),
                units: descriptor.cost.unwrap_or(request.cost).units(),
                until: match is_leaky {
                    true => now + grant.delay,
                    false => now + grant.reset,
                },
                is_leaky,
            })
        });
        Refund(Some(Charged {
            refunder: self.clone(),
            domain: request.domain.into(),
            charged_by,
            is_in_memory: self.engine.decides_in_memory(request),
            is_whole: false,
            places: places.collect(),
        }))
    }
}

impl fmt::Debug for Refunder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refunder").finish_non_exhaustive()
    }
}

// === impl Refund ===

impl Refund {
    /// For a request that was charged nothing which is to be refunded here.
    pub(crate) const fn none() -> Refund {
        Refund(None)
    }

    /// The request is not held at all: gives back all of its units, those of windows too, because
    /// no time has passed since it was charged them.
    pub(crate) fn refund_all(mut self) {
        if let Some(charged) = &mut self.0 {
            charged.is_whole = true;
        }
    }

    /// It is the request's turn.
    pub(crate) fn cancel(mut self) {
        self.0 = None;
    }
}

impl Drop for Refund {
    fn drop(&mut self) {
        let Some(charged) = self.0.take() else {
            return;
        };
        let may_wait = !charged.is_in_memory;
        if let Some(slot) = charged.refunder.background.try_acquire(may_wait) {
            slot.run(charged.refund());
        }
    }
}

// === impl Charged ===

impl Charged {
    async fn refund(self) {
        let Refunder { engine, clock, .. } = &self.refunder;
        let now = clock.now().monotonic;
        let places = self.places.iter().filter(|place| {
            // Units of another window, or that have drained, would be those of other requests.
            place.until > now && (self.is_whole || place.is_leaky)
        });
        let request = Request {
            domain: &self.domain,
            descriptors: places.map(Place::refund).collect(),
            cost: Cost::Refund(1),
            charge_denied: ChargeDenied::Never,
        };
        if !request.descriptors.is_empty() {
            // If the store fails, or the rules were replaced, the units stay charged until they
            // decay.
            let _refunded = engine.refund(&request, self.charged_by).await;
        }
    }
}

// === impl Place ===

impl Place {
    /// The descriptor that refunds its units.
    fn refund(&self) -> Descriptor<'_> {
        let entries = self.entries.iter();
        Descriptor {
            cost: Some(Cost::Refund(self.units)),
            entries: entries.map(|(key, value)| Entry { key, value }).collect(),
            ..Descriptor::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_core::Span;
    use tollgate_engine::{Decided, Stores};
    use tollgate_memory::{ManualClock, Memory};
    use tollgate_rules::{Options, RuleSet, Source};

    use super::*;

    /// Two leaky buckets, one of which drains ten times as fast, and a window.
    const RULES: &str = "{domain: d, descriptors: [
        {key: slow, rate_limit:
            {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, queue: 9}},
        {key: fast, rate_limit:
            {unit: second, requests_per_unit: 10, algorithm: leaky_bucket, queue: 9}},
        {key: window, rate_limit: 9/day}]}";
    const KEYS: [&str; 3] = ["slow", "fast", "window"];

    struct Bench {
        engine: Arc<Engine>,
        clock: Arc<ManualClock>,
        refunder: Refunder,
    }

    // === impl Bench ===

    impl Bench {
        fn new() -> Bench {
            let clock = Arc::new(ManualClock::default());
            let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
            let memory = Memory::builder().max_keys(100).clock(Arc::clone(&shared));
            let engine = Engine::new(Stores::new(memory.build()));
            let engine = Arc::new(engine);
            let bench = Bench {
                refunder: Refunder::new(&engine, &shared),
                engine,
                clock,
            };
            bench.load(RULES);
            bench
        }

        fn load(&self, rules: &str) {
            let loaded = RuleSet::parse(&[Source::new("d.yaml", rules)], &Options::default());
            assert!(loaded.diagnostics.is_empty());
            let (rules, _) = loaded.succeed(&self.engine.rules());
            self.engine.replace_rules(rules);
        }

        /// Decides on a request for `cost` that meets all three.
        async fn decide(&self, cost: Cost) -> Decided {
            self.engine.decide(&request(cost)).await.unwrap()
        }

        /// The refund of a request that was decided so.
        fn prepare(&self, decided: &Decided) -> Refund {
            prepare(&self.refunder, decided)
        }

        async fn remaining(&self) -> Vec<u32> {
            let answer = self.decide(Cost::Peek(1)).await.answer;
            answer.limited().map(|one| one.remaining()).collect()
        }
    }

    fn prepare(refunder: &Refunder, decided: &Decided) -> Refund {
        refunder.prepare(&request(Cost::ONE), &decided.answer, decided.charged_by)
    }

    fn request(cost: Cost) -> Request<'static> {
        let descriptors = KEYS.iter().map(|key| Descriptor {
            entries: [Entry {
                key: key.as_bytes(),
                value: b"v",
            }]
            .into_iter()
            .collect(),
            ..Descriptor::default()
        });
        Request {
            domain: b"d",
            descriptors: descriptors.collect(),
            cost,
            charge_denied: ChargeDenied::Never,
        }
    }

    #[tokio::test]
    async fn a_request_that_leaves_the_queue_gives_up_its_places_and_no_unit_of_a_window() {
        let bench = Bench::new();
        let first = bench.decide(Cost::ONE).await;
        assert!(first.answer.delay.is_zero());
        drop(bench.prepare(&first));
        assert_eq!(bench.remaining().await, [8, 8, 8]);
        let held = bench.decide(Cost::ONE).await;
        assert_eq!(held.answer.delay, Span::SECOND);
        drop(bench.prepare(&held));
        assert_eq!(bench.remaining().await, [8, 8, 7]);
        assert_eq!(bench.refunder.background.available(), REFUNDS_MAX);
        // Not one whose turn it is.
        let held = bench.decide(Cost::ONE).await;
        bench.prepare(&held).cancel();
        assert_eq!(bench.remaining().await, [7, 7, 6]);
    }

    #[tokio::test]
    async fn a_request_that_is_not_held_gets_all_units_back_that_still_count() {
        let bench = Bench::new();
        let _first = bench.decide(Cost::ONE).await;
        let held = bench.decide(Cost::ONE).await;
        bench.prepare(&held).refund_all();
        assert_eq!(bench.remaining().await, [8, 8, 8]);
        let held = bench.decide(Cost::ONE).await;
        let refund = bench.prepare(&held);
        // Of tomorrow's window, nothing was charged.
        bench.clock.advance(Span::DAY);
        let _other = bench.decide(Cost::ONE).await;
        refund.refund_all();
        assert_eq!(bench.remaining().await, [8, 8, 8]);
    }

    #[tokio::test]
    async fn a_place_whose_turn_has_passed_is_not_given_up_a_second_time() {
        let bench = Bench::new();
        let _first = bench.decide(Cost::ONE).await;
        let held = bench.decide(Cost::ONE).await;
        let refund = bench.prepare(&held);
        bench.clock.advance(Span::from_millis(200));
        // Of another request, in the fast bucket.
        let _other = bench.decide(Cost::ONE).await;
        assert_eq!(bench.remaining().await, [6, 8, 6]);
        drop(refund);
        assert_eq!(bench.remaining().await, [7, 8, 6]);
    }

    #[tokio::test]
    async fn beyond_the_most_at_once_units_stay_charged() {
        let bench = Bench::new();
        let _first = bench.decide(Cost::ONE).await;
        let held = bench.decide(Cost::ONE).await;
        let full = Refunder {
            background: Background::new(0),
            ..bench.refunder.clone()
        };
        let mut refund = prepare(&full, &held);
        refund.0.as_mut().unwrap().is_in_memory = false;
        drop(refund);
        assert_eq!(bench.remaining().await, [7, 7, 7]);
    }

    /// A reload may come while the store decides, and be one in which another domain has errors.
    #[tokio::test]
    async fn after_a_reload_units_stay_charged() {
        let faster = RULES.replace("requests_per_unit: 1,", "requests_per_unit: 5,");
        for is_prepared in [false, true] {
            let bench = Bench::new();
            let _first = bench.decide(Cost::ONE).await;
            let held = bench.decide(Cost::ONE).await;
            let refund = is_prepared.then(|| bench.prepare(&held));
            bench.load(&faster);
            drop(refund.unwrap_or_else(|| bench.prepare(&held)));
            assert_eq!(bench.remaining().await, [7, 7, 7]);
        }
    }
}
