//! Refunds of units that were spent on a lease.

mod gone;

mod log;

use std::future::poll_fn;
use std::task::Poll;

use tollgate_behaviour::{Rule, Subject, Taste};
use tollgate_core::{Charge, Cost, Limit, Mode, NewReservation, SettledCharge, Sharing, Span};

use super::{Driven, SINGLE};
use crate::config::Config;
use crate::store::under_test::TimedRedis;

fn instance() -> Driven {
    Driven::new(&Config::single(SINGLE.address()))
}

/// A denial was decided before a refund, and its reply is read after that of the refund: it is not
/// cached.
#[test]
fn a_denial_from_before_a_refund_does_not_deny_after_it() {
    let config = Config {
        connections: 1,
        ..Config::single(SINGLE.address())
    };
    let limit = Limit::fixed_window(1, Span::DAY).expect("a day is a window");
    let mut instance = Driven::connect(&config, TimedRedis::connect_with_caches);
    let (key, now) = (instance.key("refunded"), Taste::MICROSECONDS.start);
    let take = [Charge::new(key, &limit, Cost::ONE)];
    let refund = [Charge::new(key, &limit, Cost::Refund(1))];
    assert!(instance.decide(now, &take).is_allowed());
    let store = &instance.store;
    instance.runtime.block_on(async {
        let mut denied = Box::pin(store.decide(&take));
        let mut refunded = Box::pin(store.decide(&refund));
        poll_fn(|context| {
            assert!(denied.as_mut().poll(context).is_pending());
            assert!(refunded.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(refunded.await.expect("Redis answers").is_allowed());
        let denied = denied.await.expect("Redis answers");
        assert!(!denied.is_allowed(), "it was sent first");
        assert!(
            store
                .decide(&take)
                .await
                .expect("Redis answers")
                .is_allowed()
        );
    });
}

/// The caller of a settlement goes away before its reply, and another request was denied meanwhile:
/// that denial, from before the refund, is not cached for longer.
#[test]
fn a_denial_from_before_a_settlement_does_not_deny_after_its_caller_has_gone() {
    let config = Config {
        connections: 1,
        ..Config::single(SINGLE.address())
    };
    let limit = Limit::fixed_window(1, Span::DAY).expect("a day is a window");
    let mut instance = Driven::connect(&config, TimedRedis::connect_with_caches);
    let (key, now) = (instance.key("settled"), Taste::MICROSECONDS.start);
    instance.store.set_now(now.utc.as_nanos() / 1_000);
    let take = [Charge::new(key, &limit, Cost::ONE)];
    let charge = Charge::new(key, &limit, Cost::Take(0));
    let settled = [SettledCharge { line: 0, charge }];
    let new = NewReservation {
        secret: 5,
        lifetime: Span::HOUR,
        memo: b"",
    };
    let store = &instance.store;
    instance.runtime.block_on(async {
        let reserved = store.reserve_kept(&take, &new).await;
        let record = reserved.expect("Redis answers").reservation;
        let record = record.expect("it is allowed");
        let mut settling = Box::pin(store.settle_kept(record, &settled));
        let mut denied = Box::pin(store.decide(&take));
        poll_fn(|context| {
            assert!(settling.as_mut().poll(context).is_pending());
            assert!(denied.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        // Calls of the plain script are sent first.
        assert!(!denied.await.expect("Redis answers").is_allowed());
        drop(settling);
        let found = store.find_kept(record).await.expect("Redis answers");
        assert_eq!(found, None, "it was settled");
        let verdict = store.decide(&take).await.expect("Redis answers");
        assert!(verdict.is_allowed());
    });
}

/// A refund applies to units spent on a lease, although they were not reported before.
#[test]
fn a_refund_returns_what_was_spent_on_a_lease() {
    let limits = [
        Limit::fixed_window(100, Span::HOUR),
        Limit::sliding_window(100, Span::HOUR, 4),
        Limit::token_bucket(100, Span::HOUR),
    ];
    for limit in limits {
        let strict = Rule::new(limit.expect("an hour is a window"));
        let rule = Rule {
            sharing: Sharing::in_mode(Mode::Leased),
            ..strict.clone()
        };
        let (mut instance, now) = (instance(), Taste::MICROSECONDS.start);
        let key = instance.key(&format!("refunded {rule:?}"));
        for _ in 0..6 {
            let verdict = instance.decide(now, &[rule.charge(key, Cost::ONE)]);
            assert!(verdict.is_allowed());
        }
        let decided = instance.store.counts().lease_decisions;
        assert_eq!(decided, 4, "the others ask Redis: {rule:#?}");
        let refund = instance.decide(now, &[rule.charge(key, Cost::Refund(5))]);
        assert!(refund.is_allowed());
        instance.runtime.block_on(instance.store.close());
        let peek = strict.charge(key, Cost::Peek(1));
        let remaining = self::instance().decide(now, &[peek]).decisions[0].remaining();
        assert_eq!(remaining, 99, "{rule:#?}");
    }
}
