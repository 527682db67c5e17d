//! Renewals whose replies are lost.

use std::time::{Duration, Instant};

use tollgate_behaviour::{Rule, Subject, Taste};
use tollgate_core::{Algorithm, Anchor, Charge, Cost, Limit, Span};
use tollgate_testbed as testbed;

use super::rule;
use crate::behaviour::Driven;
use crate::config::Config;
use crate::store::under_test::TimedRedis;

/// The timeout of a decision whose reply is to be lost.
const TIMEOUT: Span = Span::from_millis(200);
/// How long to retry until Redis replies.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// More units than one lease has.
const LEASED_MAX: usize = 100;

/// The fate of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// Redis executes it, and the reply is too late.
    Reply,
    /// The connection breaks before Redis has read it.
    Call,
}

/// Decides until Redis replies; returns what remains.
fn answer(instance: &Driven, charge: &Charge<'_>) -> u32 {
    let deadline = Instant::now() + ANSWERS_WITHIN;
    loop {
        let decided = instance.runtime.block_on(async {
            tokio::task::yield_now().await;
            instance.store.decide(std::slice::from_ref(charge)).await
        });
        match decided {
            Ok(verdict) => return verdict.decisions[0].remaining(),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// Whatever happens to a renewal whose reply is lost, its units are returned: the first one of a
/// key, and one with spent units.
#[test]
fn a_lost_reply_costs_no_more_than_its_request() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let mut instance = Driven::new(&config);
    instance.store = {
        let _inside = instance.runtime.enter();
        let config = Config {
            timeout: TIMEOUT,
            ..config
        };
        TimedRedis::connect(&config).expect("the config is valid")
    };
    instance
        .store
        .set_now(Taste::MICROSECONDS.start.monotonic.as_nanos() / 1_000);
    let limits = [
        Limit::fixed_window(1_000, Span::DAY),
        Limit::new(
            Algorithm::FixedWindow(Anchor::FirstRequest),
            1_000,
            Span::DAY,
        ),
        Limit::sliding_log(1_000, Span::DAY),
        Limit::token_bucket(1_000, Span::DAY),
    ];
    let mut asked = Vec::new();
    for limit in limits.map(|limit| limit.expect("a day is a window")) {
        for (loss, before) in [
            (Loss::Reply, 1),
            (Loss::Reply, 4),
            (Loss::Call, 1),
            (Loss::Call, 4),
        ] {
            let key = instance.key(&format!("{limit:?} {loss:?} {before}"));
            let rule = rule(limit);
            let charge = rule.charge(key, Cost::ONE);
            let peek = Charge {
                cost: Cost::Peek(1),
                ..charge
            };
            answer(&instance, &peek);
            let decide = || instance.runtime.block_on(instance.store.decide(&[charge]));
            let mut allowed = (0..before).filter(|_| decide().is_ok()).count();
            // On a busy machine other replies may be late as well.
            let lost = before - allowed + usize::from(loss == Loss::Reply);
            redis.ask(&["CLIENT", "PAUSE", "60000", "WRITE"]);
            // Until the lease is spent, and renewed.
            allowed += (0..LEASED_MAX).take_while(|_| decide().is_ok()).count();
            if loss == Loss::Call {
                redis.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
            }
            redis.ask(&["CLIENT", "UNPAUSE"]);
            asked.push((key, limit, loss, allowed, lost));
        }
    }
    instance.runtime.block_on(instance.store.close());
    for (key, limit, loss, allowed, lost) in asked {
        let rule = Rule::new(limit);
        let remaining = answer(&instance, &rule.charge(key, Cost::Peek(1)));
        let counted = usize::try_from(limit.capacity() - remaining).expect("a few");
        // The requests whose replies were lost may be charged themselves.
        let bounds = allowed..=allowed + lost;
        assert!(
            bounds.contains(&counted),
            "{counted} of {allowed} and {lost}, {loss:?}: {limit:?}"
        );
    }
}
