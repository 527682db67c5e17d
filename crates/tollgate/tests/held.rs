//! Requests that a leaky bucket holds until their turn, in virtual time.

#![cfg(feature = "async")]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tollgate::{Algorithm, Limit, Limiter, TokioClock, until_all_ready};

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
