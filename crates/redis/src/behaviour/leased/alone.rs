//! One instance: its retry times, its peeks, and a reset through it.

use std::sync::atomic::{AtomicU64, Ordering};

use std::task::{Context, Poll};

use tollgate_behaviour::{Subject, Taste, algorithms, check};
use tollgate_core::{Charge, Cost, InspectStore, Limit, Mode, Now, Sharing, Span, Wait};

use super::{Care, Instances, STEPS, limit, rule};
use crate::behaviour::{Driven, SINGLE};
use crate::config::Config;
use crate::fit::GRAIN;
use crate::store::under_test::TimedRedis;

/// Alone on a key, a request that was denied is allowed after exactly its retry time, and no
/// microsecond earlier: a denial returns what its instance holds.
#[test]
fn the_retry_time_of_one_instance_is_exact() {
    let denied = AtomicU64::new(0);
    check("the_retry_time_of_one_instance", 40, |random| {
        let mut instances = Instances::new(1);
        let limit = limit(random);
        let rule = rule(limit);
        let key = instances.instances[0].key("only");
        let pause = random.pick(&[1, 1_000, 20_000]);
        for step in 0..STEPS {
            instances.now = Now::at(instances.now.utc + GRAIN.times(random.between(0, pause)));
            instances.disturb(random, Care::Taken);
            let units = random.pick(&[1, 1, 2, 5, 12]);
            let mut decide = |now, cost| {
                let verdict = instances.instances[0].decide(now, &[rule.charge(key, cost)]);
                verdict.decisions[0]
            };
            let decision = decide(instances.now, Cost::Take(units));
            let Some(wait) = decision.wait().and_then(Wait::to_duration) else {
                continue;
            };
            let then = Now::at(instances.now.utc + Span::from(wait));
            let early = Now::at(then.utc - GRAIN);
            let context = format!("step {step}: {units} of {limit}");
            assert!(!decide(early, Cost::Peek(units)).is_allowed(), "{context}");
            assert!(decide(then, Cost::Take(units)).is_allowed(), "{context}");
            instances.now = then;
            denied.fetch_add(1, Ordering::Relaxed);
        }
        instances.close();
    });
    assert!(denied.into_inner() > 200, "hardly anything was denied");
}

/// An instance that peeks finds the units that it holds, as a request that takes them does.
#[test]
fn a_peek_finds_what_its_instance_holds() {
    let now = Taste::MICROSECONDS.start;
    for algorithm in algorithms() {
        let limit = Limit::new(algorithm, 100, Span::HOUR).expect("an hour is a window");
        if !Mode::Leased.suits(&limit) {
            continue;
        }
        let (mut holder, mut other) = (Instances::instance(), Instances::instance());
        let key = holder.key("only");
        let rule = rule(limit);
        let leased = |cost| rule.charge(key, cost);
        assert!((0..3).all(|_| holder.decide(now, &[leased(Cost::ONE)]).is_allowed()));
        let free = other.decide(now, &[leased(Cost::Peek(0))]).decisions[0].remaining();
        let all_others = leased(Cost::Take(free.into()));
        assert!(other.decide(now, &[all_others]).is_allowed());
        let costs = [Cost::Peek(0), Cost::Peek(1), Cost::Take(0)];
        for cost in costs {
            assert!(!other.decide(now, &[leased(cost)]).is_allowed());
        }
        // At a bucket, the first also returns to all what was not spent.
        for cost in costs {
            let peek = holder.decide(now, &[leased(cost)]).decisions[0];
            assert_eq!(peek.remaining(), 97 - free, "{cost:?} of {limit:?}");
            assert!(peek.is_allowed());
        }
        let held = u64::from(97 - free);
        for (units, fits) in [(held, true), (held + 1, false)] {
            let peek = holder.decide(now, &[leased(Cost::Peek(units))]);
            assert_eq!(peek.is_allowed(), fits, "{units} of {limit:?}");
        }
        let mut allowed = 0;
        while holder.decide(now, &[leased(Cost::ONE)]).is_allowed() {
            allowed += 1;
        }
        assert_eq!(allowed, held, "{limit:?}");
        let peek = holder.decide(now, &[leased(Cost::Peek(0))]);
        assert!(!peek.is_allowed());
    }
}

/// After a reset, its instance denies nothing on what it knew of the key before.
#[test]
fn a_reset_is_effective_at_once() {
    let now = Taste::MICROSECONDS.start;
    for (mode, limit) in [
        (Mode::Strict, Limit::token_bucket(100, Span::HOUR)),
        (Mode::Leased, Limit::token_bucket(100, Span::HOUR)),
        (Mode::Leased, Limit::fixed_window(100, Span::HOUR)),
    ] {
        let limit = limit.expect("an hour is a window");
        let config = Config::single(SINGLE.address());
        let mut instance = Driven::connect(&config, TimedRedis::connect_with_caches);
        let key = instance.key("only");
        let charge = Charge::new(key, &limit, Cost::ONE).shared(Sharing::in_mode(mode));
        while instance.decide(now, &[charge]).is_allowed() {}
        let asked = instance.store.counts().requests;
        assert!(!instance.decide(now, &[charge]).is_allowed());
        assert_eq!(instance.store.counts().requests, asked, "not denied here");
        let reset = instance.runtime.block_on(instance.store.reset(key));
        assert!(reset.is_ok_and(|deleted| deleted));
        assert!(instance.decide(now, &[charge]).is_allowed(), "{mode:?}");
    }
}

/// Units that Redis grants after a reset, for a call from before it, are returned, also if the next
/// request leases its own.
#[test]
fn a_lease_that_is_granted_after_a_reset_is_returned() {
    let now = Taste::MICROSECONDS.start;
    let limit = Limit::fixed_window(100, Span::HOUR).expect("an hour is a window");
    // Over one connection, the reset comes before the leases.
    let mut instance = Driven::new(&Config {
        connections: 1,
        ..Config::single(SINGLE.address())
    });
    let key = instance.key("only");
    let leased = Charge::new(key, &limit, Cost::ONE).shared(Sharing::in_mode(Mode::Leased));
    assert!(instance.decide(now, &[leased]).is_allowed());
    let store = &instance.store;
    let held = instance.runtime.block_on(async {
        let charges = [leased];
        let mut first = Box::pin(store.decide(&charges));
        let poll = |context: &mut Context<'_>| Poll::Ready(first.as_mut().poll(context));
        assert!(std::future::poll_fn(poll).await.is_pending());
        // Its renewal is sent after the reset, which drops its lease before it awaits anything.
        let mut reset = Box::pin(store.reset(key));
        let poll = |context: &mut Context<'_>| Poll::Ready(reset.as_mut().poll(context));
        assert!(std::future::poll_fn(poll).await.is_pending());
        let second = store.decide(&charges).await.expect("Redis answers");
        assert!(second.is_allowed());
        let first = first.await.expect("Redis answers");
        assert!(first.is_allowed() && reset.await.expect("Redis answers"));
        let returned = async {
            while store.counts().leases_returned == 0 {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(Span::from_secs(30).into(), returned).await;
        in_time.expect("the units are returned");
        store.counts().units_leased - store.counts().units_returned
    });
    let peek = Charge::new(key, &limit, Cost::Peek(1));
    let mut other = Driven::new(&Config::single(SINGLE.address()));
    let free = other.decide(now, &[peek]).decisions[0].remaining();
    assert_eq!(u64::from(free) + held, 98);
}
