//! Requests whose futures are dropped while Redis decides.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tollgate::Limit;
use tollgate::redis::{Config, check_all};
use tollgate_testbed as testbed;

use crate::{connect, wait_until};

/// More polls than a decision takes.
const POLLS_MAX: u32 = 12;
const LIMIT: u32 = 1_000;

/// Polls a future so often, and drops it; returns whether it was ready before.
async fn drop_after<F: Future>(polls: u32, future: F) -> bool {
    let mut future = pin!(future);
    let mut polled = 0;
    std::future::poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(false);
        }
        polled += 1;
        future.as_mut().poll(context).map(|_| true)
    })
    .await
}

/// Drops requests of two limits at each await, and returns when all of them are accounted for:
/// each was charged to both limits or to none.
async fn dropped_requests_are_whole(config: Config) {
    let redis = connect(config).await;
    let user = redis.limiter("per user", Limit::per_day(LIMIT)).unwrap();
    let address = redis.limiter("per address", Limit::per_day(LIMIT)).unwrap();
    let (mut all_finished, mut dropped_half_way) = (0, 0);
    // Several pairs, so that some are in one slot and others in two.
    for pair in 0..4 {
        let key = format!("user {pair}");
        let asks = [user.ask(&key), address.ask(&pair)];
        let (mut finished, mut asked) = (0, 0);
        for polls in 0..POLLS_MAX {
            asked += 1;
            let is_finished = drop_after(polls, check_all(&asks)).await;
            finished += u32::from(is_finished);
            dropped_half_way += u32::from(polls > 0 && !is_finished);
        }
        all_finished += finished;
        wait_until(
            "a dropped request was charged to one limit only",
            async || {
                let charged = LIMIT - user.peek(&key, 1).await.remaining();
                let other = LIMIT - address.peek(&pair, 1).await.remaining();
                charged == other && (finished..=asked).contains(&charged)
            },
        )
        .await;
        // No reservation is left: all that remains can be had.
        let remaining = user.peek(&key, 1).await.remaining();
        wait_until("a dropped request holds units", async || {
            let rest = u64::from(remaining);
            let asks = [user.ask_n(&key, rest), address.ask_n(&pair, rest)];
            check_all(&asks)
                .await
                .is_ok_and(|decision| decision.is_allowed())
        })
        .await;
        assert!(!user.check(&key).await.is_allowed());
        assert!(!address.check(&pair).await.is_allowed());
    }
    assert!(all_finished > 0, "every request was dropped");
    assert!(
        dropped_half_way > 0,
        "no request was dropped while Redis decided"
    );
}

#[tokio::test]
async fn a_dropped_request_is_charged_to_all_of_its_limits_or_to_none() {
    let server = testbed::Redis::start();
    let proxy = testbed::Proxy::to(&server.address());
    proxy.set(testbed::Faults {
        delay: Duration::from_millis(1),
        ..testbed::Faults::default()
    });
    dropped_requests_are_whole(Config::single(proxy.address())).await;
}

#[tokio::test]
async fn also_over_two_slots_of_a_cluster() {
    let cluster = testbed::Cluster::start();
    dropped_requests_are_whole(Config::cluster(cluster.addresses())).await;
}
