//! Promise 8 for token and leaky buckets: at which rate units come back after the limit changed.

use tollgate_core::{Cost, Limit, Span, Verdict, Wait};

use crate::rule::{Rule, Taste};
use crate::subject::Subject;
use crate::trace::later;

/// The shortest time that every store tells apart.
pub(crate) const GRAIN: Span = Span::from_nanos(1_000);

/// Token and leaky buckets with this rate and capacity.
fn buckets(count: u32, window: Span, capacity: u32) -> [Limit; 2] {
    [Limit::token_bucket, Limit::leaky_bucket].map(|new| {
        let bucket = new(count, window).and_then(|bucket| bucket.with_burst(capacity));
        bucket.expect("a valid limit")
    })
}

/// 8: a bucket that becomes slower refills at its own rate from the first decision after the
/// change, which may be a peek or a denial, and no faster before the first request that it allows.
pub fn a_slower_bucket_refills_at_its_rate_at_once<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let fast = buckets(10, Span::MINUTE, 10);
    let larger = buckets(10, Span::HOUR, 12);
    for slow in [
        buckets(10, Span::HOUR, 10),
        buckets(1, Span::from_secs(360), 10),
        larger,
    ] {
        for (fast, slow) in fast.into_iter().zip(slow) {
            let added = slow.capacity() - fast.capacity();
            // Neither fits, so nothing is charged.
            for first in [Cost::Peek(u64::from(added) + 1), Cost::Take(10)] {
                let mut subject = fresh();
                let mut rule = Rule::new(fast);
                let key = subject.key("only");
                let mut ask = |rule: &Rule, after, cost| {
                    let now = later(taste.start, after);
                    subject.decide(now, &[rule.charge(key, cost)])
                };
                assert!(ask(&rule, Span::ZERO, Cost::Take(10)).is_allowed());
                rule.change(slow);
                assert!(!ask(&rule, Span::ZERO, first).is_allowed(), "{slow}");
                let one = Cost::Take(u64::from(added) + 1);
                let denied = ask(&rule, Span::MINUTE, one);
                let wait = Span::from_secs(360);
                assert_eq!(wait_of(&denied), Some(wait - Span::MINUTE), "{slow}");
                assert!(!ask(&rule, wait - GRAIN, one).is_allowed(), "{slow}");
                assert!(ask(&rule, wait, one).is_allowed(), "{slow}");
            }
        }
    }
}

/// 8: the same of a bucket that becomes faster.
pub fn a_faster_bucket_refills_at_its_rate_at_once<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let slow = buckets(10, Span::HOUR, 10);
    for (slow, fast) in slow.into_iter().zip(buckets(10, Span::MINUTE, 10)) {
        let mut subject = fresh();
        let mut rule = Rule::new(slow);
        let key = subject.key("only");
        let mut ask = |rule: &Rule, after, cost| {
            let now = later(taste.start, after);
            subject.decide(now, &[rule.charge(key, cost)])
        };
        assert!(ask(&rule, Span::ZERO, Cost::Take(10)).is_allowed());
        rule.change(fast);
        let denied = ask(&rule, Span::ZERO, Cost::ONE);
        let wait = Span::from_secs(6);
        assert_eq!(wait_of(&denied), Some(wait), "{fast}");
        assert!(!ask(&rule, wait - GRAIN, Cost::ONE).is_allowed(), "{fast}");
        assert!(ask(&rule, wait, Cost::ONE).is_allowed(), "{fast}");
    }
}

/// The wait of a denied request that can fit.
pub(crate) fn wait_of(verdict: &Verdict) -> Option<Span> {
    match verdict.denial.map(|denial| denial.wait) {
        Some(Wait::For(wait)) => Some(wait),
        _ => None,
    }
}
