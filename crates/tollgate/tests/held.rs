//! Requests that a leaky bucket holds until their turn, in virtual time.

#![cfg(feature = "async")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{Algorithm, Anchor, Limit, Limiter, ManualClock, TokioClock, until_all_ready};

const KEY: &str = "key";
/// One per second, of which so many may wait or go.
const LEAKY: Limit = Limit::per_second(1)
    .counted_by(Algorithm::LeakyBucket)
    .burst(3);

#[tokio::test(start_paused = true)]
async fn a_request_that_was_held_has_no_delay_left() {
    let leaky = Limiter::builder(LEAKY).max_keys(100);
    let leaky = leaky.clock(TokioClock::new()).build();
    let hour = leaky.sibling("hour", Limit::per_hour(10));
    let grant = leaky.until_ready(KEY).await.unwrap();
    assert_eq!(grant.delay.as_nanos(), 0);
    let grant = leaky.until_ready(KEY).await.unwrap();
    assert_eq!(grant.delay.as_nanos(), 0, "it has waited for a second");
    let joint = until_all_ready(&[leaky.ask(KEY), hour.ask(KEY)]).await;
    let joint = joint.unwrap();
    assert!(joint.is_allowed());
    assert_eq!(joint.delay(), Duration::ZERO);
    let mut decisions = joint.decisions();
    assert!(decisions.all(|(_, decision)| decision.delay().is_zero()));
}

/// Holds `count` requests, and drops the first of them after this time, before it is polled again.
/// Returns how long the next request would be delayed.
fn delay_after_drop(count: usize, after: Duration) -> Duration {
    let clock = Arc::new(ManualClock::default());
    let builder = Limiter::builder(LEAKY).max_keys(100);
    let limiter = builder.clock(Arc::clone(&clock)).build();
    assert!(limiter.check(KEY).is_allowed());
    let mut context = Context::from_waker(Waker::noop());
    let never = |_span| std::future::pending::<()>();
    let mut held: Vec<_> = (0..count)
        .map(|_| Box::pin(limiter.until_ready_with(KEY, never)))
        .collect();
    for request in &mut held {
        assert!(matches!(request.as_mut().poll(&mut context), Poll::Pending));
    }
    clock.advance(after);
    drop(held.remove(0));
    let delay = limiter.check(KEY).delay();
    drop(held);
    delay
}

/// As in `select!` with a timeout of its delay, which may be looked at first.
#[test]
fn a_request_that_is_dropped_at_its_turn_costs_nothing() {
    for millis in [1_000, 1_300, 1_999, 2_000] {
        let delay = delay_after_drop(1, Duration::from_millis(millis));
        assert_eq!(delay, Duration::ZERO, "{millis} ms");
    }
}

/// The turn of the one behind does not move into the past: the next would follow too soon.
#[test]
fn a_request_that_is_dropped_at_its_turn_moves_nobody() {
    let delay = delay_after_drop(2, Duration::from_millis(1_300));
    assert_eq!(delay, Duration::from_millis(1_700), "after the one at 2 s");
}

/// Under another limit, the units of a far turn have left the bucket before it comes: a refund
/// would be of units of others.
#[test]
fn a_request_that_is_dropped_after_a_change_of_its_limit_refunds_no_unit_of_others() {
    let slow = Limit::per_minute(1).counted_by(Algorithm::LeakyBucket);
    let (slow, fast) = (slow.burst(10), Limit::per_second(10));
    let leaky = fast.counted_by(Algorithm::LeakyBucket);
    for limits in [
        [leaky, leaky],
        [fast, fast],
        [fast.counted_by(Algorithm::FixedWindow(Anchor::FirstRequest)); 2],
        [fast.counted_by(Algorithm::SlidingLog); 2],
        // The first limit again.
        [leaky, slow],
    ] {
        let clock = Arc::new(ManualClock::default());
        let builder = Limiter::builder(slow).max_keys(100).sibling_limits(&limits);
        let limiter = builder.clock(Arc::clone(&clock)).build();
        assert!(limiter.check(KEY).is_allowed());
        let mut held: Vec<_> = (0..4)
            .map(|_| Box::pin(limiter.until_ready_with(KEY, |_| std::future::pending::<()>())))
            .collect();
        let mut context = Context::from_waker(Waker::noop());
        for request in &mut held {
            assert!(request.as_mut().poll(&mut context).is_pending());
        }
        limiter.set_limit(limits[0]);
        let _state_of_the_new_limit = limiter.check(KEY);
        clock.advance(Duration::from_secs(2));
        limiter.set_limit(limits[1]);
        assert!(limiter.check_n(KEY, 10).is_allowed(), "{limits:?}");
        drop(held);
        assert!(!limiter.check(KEY).is_allowed(), "{limits:?}");
    }
}

/// A request that is held under the limit of now does not get the turn of one that was held under
/// another limit, whose units have left the bucket.
#[test]
fn a_request_that_is_dropped_after_a_change_of_its_limit_moves_nobody() {
    let leaky = |limit: Limit| limit.counted_by(Algorithm::LeakyBucket).burst(10);
    let (slow, fast) = (leaky(Limit::per_minute(1)), leaky(Limit::per_second(1_000)));
    let clock = Arc::new(ManualClock::default());
    let builder = Limiter::builder(slow).max_keys(100);
    let builder = builder.sibling_limits(&[fast, slow]);
    let limiter = builder.clock(Arc::clone(&clock)).build();
    let mut context = Context::from_waker(Waker::noop());
    let hold = || Box::pin(limiter.until_ready_with(KEY, |_| std::future::pending::<()>()));
    assert!(limiter.check(KEY).is_allowed());
    let mut former = hold();
    assert!(former.as_mut().poll(&mut context).is_pending());
    limiter.set_limit(fast);
    assert!(limiter.check(KEY).is_allowed());
    clock.advance(Duration::from_secs(2));
    limiter.set_limit(slow);
    assert!(limiter.check(KEY).is_allowed());
    let mut latter = hold();
    assert!(latter.as_mut().poll(&mut context).is_pending());
    let remaining = limiter.peek(KEY, 1).remaining();
    drop(former);
    assert_eq!(limiter.peek(KEY, 1).remaining(), remaining);
}
