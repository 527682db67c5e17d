//! One limit, from outside, in virtual time.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Algorithm, Builder, JointError, Limit, Limiter, ManualClock, Span, Wait, check_all,
};

type TestClock = Arc<ManualClock>;

fn small(limit: Limit) -> (TestClock, Builder<TestClock>) {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::DAY);
    let builder = Limiter::builder(limit).max_keys(1_000);
    (Arc::clone(&clock), builder.clock(clock))
}

#[test]
fn a_decision_says_what_remains_and_when_to_come_back() {
    let (clock, builder) = small(Limit::per_minute(3));
    let limiter = builder.build();
    let first = limiter.check("ann");
    assert_eq!((first.is_allowed(), first.remaining()), (true, 2));
    assert_eq!(first.reset_after(), Duration::from_secs(20));
    assert_eq!(limiter.check_n("ann", 2).remaining(), 0);
    let refused = limiter.check("ann");
    assert!(!refused.is_allowed());
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(20)));
    assert_eq!(refused.reset_after(), Duration::from_secs(60));
    clock.advance(Span::from_secs(20).minus(Span::NANOSECOND));
    assert!(!limiter.check("ann").is_allowed());
    clock.advance(Span::NANOSECOND);
    assert!(limiter.check("ann").is_allowed());
}

#[test]
fn what_never_fits_has_no_wait() {
    let (_, builder) = small(Limit::per_minute(3));
    let refused = builder.build().check_n("ann", 4);
    assert_eq!(refused.wait(), Some(Wait::Never));
    assert_eq!(refused.retry_after(), None);
    assert_eq!(refused.remaining(), 3);
}

#[test]
fn a_peek_charges_nothing_and_a_refund_gives_back() {
    let (_, builder) = small(Limit::per_minute(3));
    let limiter = builder.build();
    assert_eq!(limiter.peek("ann", 3).remaining(), 3);
    assert!(!limiter.peek("ann", 4).is_allowed());
    assert!(limiter.check_n("ann", 3).is_allowed());
    assert!(!limiter.peek("ann", 1).is_allowed());
    assert_eq!(limiter.refund("ann", 2).remaining(), 2);
    assert_eq!(limiter.refund("ann", 1_000).remaining(), 3);
    assert!(
        limiter.check_n("ann", 0).is_allowed(),
        "a cost of 0 is a peek"
    );
    assert_eq!(limiter.peek("ann", 1).remaining(), 3);
}

#[test]
fn keys_are_anything_that_can_be_hashed() {
    let (_, builder) = small(Limit::per_minute(1));
    let limiter = builder.build();
    assert!(limiter.check("7").is_allowed());
    assert!(limiter.check(&7_u64).is_allowed());
    assert!(limiter.check(&IpAddr::from([0, 0, 0, 7])).is_allowed());
    assert!(limiter.check(&("ann", "/login")).is_allowed());
    assert!(limiter.check(&("ann/", "login")).is_allowed());
    assert!(!limiter.check(&("ann", "/login")).is_allowed());
    assert!(
        !limiter.check(&"7".to_owned()).is_allowed(),
        "a String is its text"
    );
}

#[test]
fn several_limits_charge_all_or_none_and_name_who_refused() {
    let (clock, builder) = small(Limit::per_minute(2));
    let minute = builder.name("minute").build();
    let hour = minute.sibling("hour", Limit::per_hour(3));
    let ask = || check_all(&[minute.ask("ann"), hour.ask("ann")]).unwrap();
    assert_eq!(ask().remaining(), Some(1));
    assert!(ask().is_allowed());
    let refused = ask();
    assert_eq!(refused.denied_by(), Some("minute"));
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(30)));
    assert_eq!(
        hour.peek("ann", 1).remaining(),
        1,
        "the refusal cost nothing here"
    );
    clock.advance(Span::MINUTE);
    assert!(ask().is_allowed());
    let refused = ask();
    assert_eq!(refused.denied_by(), Some("hour"));
    let names: Vec<&str> = refused.decisions().map(|(name, _)| name).collect();
    assert_eq!(names, ["minute", "hour"]);
    assert!(check_all::<TestClock>(&[]).unwrap().is_allowed());
}

#[test]
fn limits_of_different_memory_cannot_be_asked_together() {
    let (_, builder) = small(Limit::per_minute(2));
    let (_, other) = small(Limit::per_minute(2));
    let (minute, stranger) = (builder.build(), other.name("stranger").build());
    let error = check_all(&[minute.ask("ann"), stranger.ask("ann")]).unwrap_err();
    assert!(matches!(&error, JointError::Strangers { name } if &**name == "stranger"));
    assert!(error.to_string().contains("make it with `sibling`"));
    assert_eq!(minute.peek("ann", 1).remaining(), 2);
}

#[test]
fn too_many_limits_are_an_error() {
    let (_, builder) = small(Limit::per_minute(1_000));
    let limiter = builder.build();
    let asks: Vec<_> = (0..129).map(|key| limiter.ask(&key)).collect();
    assert!(matches!(check_all(&asks), Err(JointError::Store(_))));
    assert!(check_all(&asks[..128]).unwrap().is_allowed());
}

#[test]
fn siblings_share_memory_and_no_counter() {
    let (_, builder) = small(Limit::per_minute(1));
    let one = builder.build();
    let two = one.sibling("two", Limit::per_minute(1));
    assert!(one.check("ann").is_allowed());
    assert!(two.check("ann").is_allowed());
    assert_eq!(one.stats().live_keys, 2);
    assert_eq!(one.stats(), two.stats());
}

#[test]
fn a_batch_says_what_single_decisions_say() {
    let (_, one) = small(Limit::per_minute(3));
    let (_, many) = small(Limit::per_minute(3));
    let (one, many) = (one.build(), many.build());
    let keys: Vec<u32> = (0..1_000).map(|number| number % 200).collect();
    let singles: Vec<_> = keys.iter().map(|key| one.check(key)).collect();
    assert_eq!(many.check_batch(&keys), singles);
    assert_eq!(
        singles
            .iter()
            .filter(|decision| decision.is_allowed())
            .count(),
        600
    );
    let mut decisions = singles;
    many.check_batch_into(&keys[..10], &mut decisions);
    assert_eq!(decisions.len(), 1_010);
}

#[test]
fn another_limit_keeps_what_was_consumed() {
    let (_, builder) = small(Limit::per_minute(10));
    let mut limiter = builder.build();
    assert_eq!(limiter.check_n("ann", 8).remaining(), 2);
    limiter.set_limit(Limit::per_minute(20));
    assert_eq!(limiter.peek("ann", 1).remaining(), 12);
    limiter.set_limit(Limit::per_hour(20).counted_by(Algorithm::SlidingLog));
    assert_eq!(limiter.peek("ann", 1).remaining(), 12);
    assert_eq!(limiter.peek("bob", 1).remaining(), 20);
}

#[test]
fn a_store_without_room_refuses_and_counts_it() {
    let log = Limit::per_hour(100_000).counted_by(Algorithm::SlidingLog);
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::DAY);
    let builder = Limiter::builder(log).max_keys(1_000).max_bytes(30_000);
    let limiter = builder.clock(Arc::clone(&clock)).build();
    // No two units at one moment, so that each needs room of its own.
    let mut asked = 0..100_000;
    let full = asked.find(|_| {
        clock.advance(Span::from_nanos(7_919));
        !limiter.check("ann").is_allowed()
    });
    assert!(full.is_some(), "100 000 stamps do not fit in 30 kB");
    assert_eq!(limiter.failures(), 1);
    let refused = limiter.check("ann");
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
    assert!(limiter.try_check("ann", 1).is_err());
}
