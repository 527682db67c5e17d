//! What `docs/from-governor.md` says, held against `governor` itself in virtual time.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, FakeRelativeClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use tollgate::{InvalidLimit, Limit, Limiter, ManualClock, Span, Wait};

type Governor = RateLimiter<
    u32,
    DashMapStateStore<u32>,
    FakeRelativeClock,
    NoOpMiddleware<governor::nanos::Nanos>,
>;

/// Both crates, at the same virtual time.
struct Both {
    governor: Governor,
    governor_clock: FakeRelativeClock,
    ours: Limiter<Arc<ManualClock>>,
    our_clock: Arc<ManualClock>,
}

// === impl Both ===

impl Both {
    fn new(quota: Quota, limit: Limit) -> Both {
        let governor_clock = FakeRelativeClock::default();
        let our_clock = Arc::new(ManualClock::default());
        our_clock.advance(Span::DAY);
        let builder = Limiter::builder(limit).max_keys(200_000);
        Both {
            governor: RateLimiter::new(quota, DashMapStateStore::default(), governor_clock.clone()),
            governor_clock,
            ours: builder.clock(Arc::clone(&our_clock)).build(),
            our_clock,
        }
    }

    fn advance(&self, nanos: u64) {
        self.governor_clock.advance(Duration::from_nanos(nanos));
        self.our_clock.advance(Span::from_nanos(nanos));
    }

    /// The waits of both for one unit; `None` if the request is allowed.
    fn ask(&self, key: u32) -> (Option<Duration>, Option<Duration>) {
        let theirs = self.governor.check_key(&key).err();
        let theirs = theirs.map(|not_until| not_until.wait_time_from(self.governor_clock.now()));
        (theirs, self.ours.check(&key).retry_after())
    }
}

fn positive(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

#[test]
fn both_allow_the_same_at_the_same_moments() {
    let quota = Quota::per_second(positive(10)).allow_burst(positive(20));
    let both = Both::new(quota, Limit::per_second(10).burst(20));
    let mut state = 1_u64;
    let mut denied = 0;
    for _ in 0..20_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        both.advance((state >> 33) % 80_000_000);
        let (theirs, ours) = both.ask(u32::try_from(state >> 63).unwrap());
        assert_eq!(theirs, ours);
        denied += u32::from(ours.is_some());
    }
    assert!((1_000..19_000).contains(&denied), "{denied} of both kinds");
}

#[test]
fn a_denial_costs_nothing_in_both() {
    let both = Both::new(Quota::per_second(positive(1)), Limit::per_second(1));
    assert_eq!(both.ask(1), (None, None));
    for _ in 0..9 {
        both.advance(100_000_000);
        let (theirs, ours) = both.ask(1);
        assert!(theirs.is_some() && ours.is_some());
    }
    both.advance(100_000_000);
    assert_eq!(both.ask(1), (None, None));
}

#[test]
fn three_per_second_is_rounded_against_the_caller() {
    let both = Both::new(Quota::per_second(positive(3)), Limit::per_second(3));
    (0..3).for_each(|_| assert_eq!(both.ask(1), (None, None)));
    let (theirs, ours) = both.ask(1);
    assert_eq!(theirs, Some(Duration::from_nanos(333_333_333)));
    assert_eq!(ours, Some(Duration::from_nanos(333_333_334)));
}

#[test]
fn a_rate_that_is_too_fast_is_an_error() {
    let quota = Quota::per_second(positive(700_000_000));
    assert_eq!(quota.replenish_interval(), Duration::from_nanos(1));
    let ours = Limit::token_bucket(700_000_000, Span::SECOND);
    assert!(matches!(
        ours,
        Err(InvalidLimit::TooFast {
            count_max: 10_000_000,
            ..
        })
    ));
    let window = Limit::fixed_window(700_000_000, Span::SECOND).unwrap();
    assert_eq!(window.capacity(), 700_000_000);
}

#[test]
fn what_never_fits_says_so_in_both() {
    let both = Both::new(Quota::per_second(positive(5)), Limit::per_second(5));
    assert!(both.governor.check_key_n(&1, positive(6)).is_err());
    assert_eq!(both.ours.check_n(&1, 6).wait(), Some(Wait::Never));
}

#[test]
fn memory_does_not_grow() {
    let both = Both::new(Quota::per_second(positive(1)), Limit::per_second(1));
    let built = both.ours.stats().bytes_max;
    for key in 0..100_000 {
        assert_eq!(both.ask(key), (None, None));
    }
    both.advance(Span::MINUTE.as_nanos());
    assert_eq!(both.governor.len(), 100_000, "keys stay");
    assert_eq!(both.ours.stats().live_keys, 0, "idle keys are no live keys");
    both.governor.retain_recent();
    assert!(both.governor.is_empty(), "until they are asked to leave");
    assert_eq!(both.ours.stats().bytes_max, built);
    assert_eq!(both.ours.stats().evicted_keys, 0);
}

#[test]
fn zero_denies_everything() {
    let limiter = Limiter::builder(Limit::per_second(0)).max_keys(10).build();
    assert_eq!(limiter.check("ann").wait(), Some(Wait::Never));
}

#[test]
fn one_key_is_a_direct_limiter() {
    let limiter = Limiter::single(Limit::per_hour(2));
    let allowed = (0..3).filter(|_| limiter.check().is_allowed());
    assert_eq!(allowed.count(), 2);
}

#[test]
fn texts_make_the_same_limits_as_quotas() {
    let quota = Quota::per_minute(positive(30)).allow_burst(positive(5));
    let limit: Limit = "30/minute burst 5".parse().unwrap();
    assert_eq!(limit, Limit::per_minute(30).burst(5));
    let both = Both::new(quota, limit);
    (0..5).for_each(|_| assert_eq!(both.ask(1), (None, None)));
    let two_seconds = Some(Duration::from_secs(2));
    assert_eq!(both.ask(1), (two_seconds, two_seconds));
}
