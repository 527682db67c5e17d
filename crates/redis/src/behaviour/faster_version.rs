//! Versions of a bucket that are faster and smaller than others.

use tollgate_behaviour::{Random, Subject, Taste, check};
use tollgate_core::{Algorithm, Charge, Cost, Decision, Ledger, Limit, Mode, Now, Sharing, Span};

use super::Driven;
use super::disagree::{instance, limit};
use crate::fit::GRAIN;

/// 10 per second with room for 10.
fn fast(algorithm: Algorithm) -> Limit {
    limit(algorithm, 10, Span::SECOND)
}

fn later(span: Span) -> Now {
    Now::at(Taste::MICROSECONDS.start.utc + span)
}

fn wait_of(decision: Decision) -> Span {
    Span::from(decision.retry_after().expect("it fits later"))
}

/// All units that the slower and larger limit has counted refill at the rate of the faster one,
/// from its first decision on, also if that is a peek or a denial.
#[test]
fn a_bucket_that_becomes_faster_and_smaller_refills_at_its_rate_at_once() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let (slow, fast) = (limit(algorithm, 100, Span::DAY), fast(algorithm));
        for first in [Cost::ONE, Cost::Peek(1)] {
            let mut instance = instance();
            let key = instance.key("only");
            let mut ask = |span, limit, cost| {
                instance
                    .decide(later(span), &[Charge::new(key, limit, cost)])
                    .decisions[0]
            };
            assert!(ask(Span::ZERO, &slow, Cost::Take(100)).is_allowed());
            // Down to nine units: 91 at a tenth of a second each.
            let wait = Span::from_millis(9_100);
            assert_eq!(wait_of(ask(Span::ZERO, &fast, first)), wait, "{first:?}");
            let early = wait.minus(GRAIN);
            assert!(!ask(early, &fast, Cost::ONE).is_allowed(), "{first:?}");
            assert!(ask(wait, &fast, Cost::ONE).is_allowed(), "{first:?}");
        }
    }
}

/// The larger version still counts all that it has allowed, less what has refilled.
#[test]
fn a_faster_and_smaller_version_erases_nothing() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let (slow, fast) = (limit(algorithm, 100, Span::DAY), fast(algorithm));
        let mut instances = [instance(), instance()];
        let key = instances[0].key("only");
        let mut ask = |which: usize, span, limit, cost| {
            instances[which]
                .decide(later(span), &[Charge::new(key, limit, cost)])
                .decisions[0]
        };
        assert!(ask(0, Span::ZERO, &slow, Cost::Take(100)).is_allowed());
        let denied = wait_of(ask(0, Span::ZERO, &slow, Cost::ONE));
        for millis in [0, 450, 900] {
            let span = Span::from_millis(millis);
            assert!(!ask(1, span, &fast, Cost::ONE).is_allowed());
            let remaining = ask(0, span, &slow, Cost::Peek(0)).remaining();
            assert!(
                u64::from(remaining) <= millis / 100,
                "{remaining} at {span}"
            );
        }
        // Nothing was charged meanwhile, so the wait is what it was said to be, but for what the
        // conversions round up: each a microsecond of a tenth of a second, which was 864 seconds.
        let denied = denied + GRAIN.times(3 * 8_640);
        assert!(ask(0, denied, &slow, Cost::ONE).is_allowed());
    }
}

/// Instances with versions of a bucket that differ in rate and capacity take turns, in any order:
/// no more is allowed than by a limit with the fastest rate and the largest capacity.
#[test]
fn versions_that_take_turns_never_allow_more_than_the_largest() {
    check("versions_that_take_turns", 80, |random| {
        let algorithm = random.pick(&[Algorithm::TokenBucket, Algorithm::LeakyBucket]);
        let limits: Vec<Limit> = (0..3).map(|_| any_version(algorithm, random)).collect();
        let intervals = limits.iter().filter_map(Limit::interval);
        let capacity = limits.iter().map(Limit::capacity).max();
        let bound = limit(algorithm, 1, intervals.min().expect("buckets"));
        let bound = bound.with_burst(capacity.expect("three")).expect("valid");
        let mode = random.pick(&[Mode::Strict, Mode::Leased]);
        let mut instances: Vec<Driven> = (0..3).map(|_| instance()).collect();
        let key = instances[0].key("only");
        let (mut largest, mut span) = (Ledger::default(), Span::ZERO);
        for step in 0..120 {
            let which = usize::try_from(random.between(0, 2)).expect("three");
            let units = random.pick(&[1, 1, 1, 2, 5, 20]);
            let cost = match random.chance(20) {
                true => Cost::Peek(units),
                false => Cost::Take(units),
            };
            let charge = Charge::new(key, &limits[which], cost);
            let shared = charge.shared(Sharing::in_mode(mode));
            if instances[which].decide(later(span), &[shared]).is_allowed() {
                let bounded = Charge {
                    limit: &bound,
                    ..charge
                };
                let strict = largest.decide(later(span), &[bounded]).expect("one charge");
                assert!(strict.is_allowed(), "step {step}: {charge:?} of {limits:?}");
            }
            span = span + GRAIN.times(random.pick(&[0, 0, 1, 1_000, 20_000, 300_000]));
        }
    });
}

/// Some are slower and larger than others, some faster and smaller.
fn any_version(algorithm: Algorithm, random: &mut Random) -> Limit {
    let interval = Span::from_millis(random.pick(&[1, 10, 70, 1_000, 864_000]));
    let version = limit(algorithm, 1, interval);
    let capacity = random.pick(&[1, 3, 10, 40, 100]);
    version.with_burst(capacity).expect("valid")
}
