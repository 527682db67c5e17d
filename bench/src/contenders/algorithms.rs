//! Tollgate with other algorithms than a token bucket, and with two limits on each request.

use std::hash::Hash;
use std::marker::PhantomData;

use tollgate::{Limit, Limiter, Span, check_all};

use crate::contender::{Contender, Outcome};

/// A limiter of the algorithm `A`.
pub(crate) struct OfAlgorithm<A>(Limiter, PhantomData<A>);

/// Two token buckets, both charged by each request.
pub(crate) struct TwoBuckets([Limiter; 2]);

/// The algorithm of a limiter, known when it is compiled, as in a program with one limiter.
pub(crate) trait Counting: Sync {
    /// One an hour if requests are to be denied.
    fn limit(outcome: Outcome) -> Limit;
}

/// The limit of the other scenarios.
pub(crate) struct TokenBucket;

/// More an hour than any run asks for.
pub(crate) struct FixedWindow;

/// 10 000 an hour.
pub(crate) struct SlidingWindow<const SEGMENTS: u8>;

/// 100 an hour.
pub(crate) struct SlidingLog;

// === impl Counting ===

impl Counting for TokenBucket {
    fn limit(outcome: Outcome) -> Limit {
        outcome.limit()
    }
}

impl Counting for FixedWindow {
    fn limit(outcome: Outcome) -> Limit {
        let (_, count) = outcome.per_hour_and_burst();
        Limit::fixed_window(count, Span::HOUR).expect("an hour is a window")
    }
}

impl<const SEGMENTS: u8> Counting for SlidingWindow<SEGMENTS> {
    fn limit(outcome: Outcome) -> Limit {
        let (count, _) = outcome.per_hour_and_burst();
        Limit::sliding_window(count, Span::HOUR, SEGMENTS).expect("an hour has such segments")
    }
}

impl Counting for SlidingLog {
    fn limit(outcome: Outcome) -> Limit {
        let count = match outcome {
            Outcome::Allowed => 100,
            Outcome::Denied => 1,
        };
        Limit::sliding_log(count, Span::HOUR).expect("an hour is a window")
    }
}

// === impl OfAlgorithm ===

impl<A: Counting, K: Hash> Contender<K> for OfAlgorithm<A> {
    fn build(keys: u64, outcome: Outcome) -> OfAlgorithm<A> {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let builder = Limiter::builder(A::limit(outcome)).max_keys(keys);
        OfAlgorithm(builder.build(), PhantomData)
    }

    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        self.0.check(key).is_allowed()
    }
}

// === impl TwoBuckets ===

impl<K: Hash> Contender<K> for TwoBuckets {
    /// With room for each key twice.
    fn build(keys: u64, outcome: Outcome) -> TwoBuckets {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let builder = Limiter::builder(outcome.limit()).max_keys(keys.saturating_mul(2));
        let first = builder.name("first").build();
        let second = first.sibling("second", outcome.limit());
        TwoBuckets([first, second])
    }

    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        let [first, second] = &self.0;
        check_all(&[first.ask(key), second.ask(key)]).is_ok_and(|both| both.is_allowed())
    }
}
