//! One limit, from outside, in virtual time.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Algorithm, BuildError, Builder, ChargeDenied, JointError, Limit, Limiter, Limits, ManualClock,
    Span, Wait, check_all,
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
    let denied = limiter.check("ann");
    assert!(!denied.is_allowed());
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(20)));
    assert_eq!(denied.reset_after(), Duration::from_secs(60));
    clock.advance(Span::from_secs(20).minus(Span::NANOSECOND));
    assert!(!limiter.check("ann").is_allowed());
    clock.advance(Span::NANOSECOND);
    assert!(limiter.check("ann").is_allowed());
}

#[test]
fn what_never_fits_has_no_wait() {
    let (_, builder) = small(Limit::per_minute(3));
    let denied = builder.build().check_n("ann", 4);
    assert_eq!(denied.wait(), Some(Wait::Never));
    assert_eq!(denied.retry_after(), None);
    assert_eq!(denied.remaining(), 3);
}

#[test]
fn a_peek_charges_nothing_and_a_refund_gives_back() {
    let (_, builder) = small(Limit::per_minute(3));
    let limiter = builder.build();
    assert_eq!(limiter.peek("ann", 3).remaining(), 3);
    assert!(!limiter.peek("ann", 4).is_allowed());
    assert!(limiter.check_n("ann", 3).is_allowed());
    assert!(!limiter.peek("ann", 1).is_allowed());
    assert_eq!(limiter.refund("ann", 2), 2);
    assert_eq!(limiter.refund("ann", 1_000), 3);
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
fn several_limits_charge_all_or_none_and_name_what_denied() {
    let (clock, builder) = small(Limit::per_minute(2));
    let minute = builder.name("minute").build();
    let hour = minute.sibling("hour", Limit::per_hour(3));
    let ask = || check_all(&[minute.ask("ann"), hour.ask("ann")]).unwrap();
    assert_eq!(ask().remaining(), Some(1));
    assert!(ask().is_allowed());
    let denied = ask();
    assert_eq!(denied.denied_by(), Some("minute"));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(30)));
    assert_eq!(
        hour.peek("ann", 1).remaining(),
        1,
        "the denial cost nothing here"
    );
    clock.advance(Span::MINUTE);
    assert!(ask().is_allowed());
    let denied = ask();
    assert_eq!(denied.denied_by(), Some("hour"));
    let names: Vec<&str> = denied.decisions().map(|(name, _)| name).collect();
    assert_eq!(names, ["minute", "hour"]);
    assert!(check_all::<TestClock>(&[]).unwrap().is_allowed());
}

#[test]
fn limits_of_different_memory_cannot_be_asked_together() {
    let (_, builder) = small(Limit::per_minute(2));
    let (_, other) = small(Limit::per_minute(2));
    let (minute, hour) = (builder.build(), other.name("hour").build());
    let error = check_all(&[minute.ask("ann"), hour.ask("ann")]).unwrap_err();
    assert!(matches!(&error, JointError::NotSiblings { name } if &**name == "hour"));
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
    let limiter = builder.build();
    assert_eq!(limiter.check_n("ann", 8).remaining(), 2);
    limiter.set_limit(Limit::per_minute(20));
    assert_eq!(limiter.peek("ann", 1).remaining(), 12);
    limiter.set_limit(Limit::per_hour(20).counted_by(Algorithm::SlidingLog));
    assert_eq!(limiter.peek("ann", 1).remaining(), 12);
    assert_eq!(limiter.peek("bob", 1).remaining(), 20);
}

#[test]
fn a_single_counter_has_what_a_limiter_has() {
    let (clock, builder) = small(Limit::per_minute(3));
    let single = builder.name("upstream").try_build_single().unwrap();
    assert_eq!(single.limiter().name(), "upstream");
    assert_eq!(single.stats().live_keys, 0);
    assert_eq!(single.try_check(2).unwrap().remaining(), 1);
    let own = single.limiter();
    let joint = check_all(&[own.ask_n(&(), 2)]).unwrap();
    assert_eq!(joint.denied_by(), Some("upstream"));
    assert_eq!(
        (single.check().is_allowed(), single.check().is_allowed()),
        (true, false)
    );
    assert_eq!(single.stats().live_keys, 1);
    clock.advance(Span::from_secs(20));
    assert!(single.check().is_allowed());
}

#[test]
fn a_store_without_room_denies_and_counts_it() {
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
    let denied = limiter.check("ann");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    assert!(limiter.try_check("ann", 1).is_err());
}

#[test]
fn a_limit_is_replaced_while_threads_decide() {
    let (_, builder) = small(Limit::per_hour(1_000));
    let limiter = builder.build();
    let allowed = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let is_allowed = limiter.check("ann").is_allowed();
                    allowed.fetch_add(is_allowed.into(), std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
        // More often than a revision can tell apart.
        for round in 0..300 {
            limiter.set_limit(Limit::per_hour(1_000 + round % 2));
        }
    });
    assert_eq!(limiter.limit(), Limit::per_hour(1_001));
    let allowed = allowed.into_inner();
    assert!((1_000..=1_001).contains(&allowed), "{allowed}");
    assert_eq!(limiter.failures(), 0);
}

#[test]
fn a_limit_is_replaced_between_decisions_of_every_kind() {
    let (_, builder) = small(Limit::per_minute(10));
    let limiter = builder.build();
    let sibling = limiter.sibling("hour", Limit::per_hour(100));
    assert!(limiter.check_n("ann", 4).is_allowed());
    limiter.set_limit(Limit::per_minute(20).counted_by(Algorithm::LeakyBucket));
    let joint = check_all(&[limiter.ask_n("ann", 6), sibling.ask("ann")]).unwrap();
    assert_eq!(joint.remaining(), Some(10));
    limiter.set_limit(Limit::per_minute(30));
    limiter.check_each(["ann", "bob"], |decision| assert!(decision.is_allowed()));
    assert_eq!(limiter.peek("ann", 1).remaining(), 19);
    assert_eq!(limiter.try_check("bob", 29).unwrap().remaining(), 0);
    limiter.reset("bob");
    assert_eq!(limiter.peek("bob", 1).remaining(), 30);
}

#[test]
fn what_does_not_fit_into_memory_is_an_error() {
    let builder = Limiter::builder(Limit::per_second(1)).max_keys(usize::MAX);
    assert!(matches!(
        builder.try_build(),
        Err(BuildError::TooLarge { .. })
    ));
    let many = (0..129).fold(Limits::builder().max_keys(10), |limits, number: u32| {
        limits.limit(&number.to_string(), Limit::per_second(1))
    });
    let error = many.try_build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "129 limits on one request, and at most 128 are allowed"
    );
}

#[test]
fn limits_of_a_group_have_different_names() {
    let twice = Limits::builder()
        .limit("a", Limit::per_second(1))
        .limit("b", Limit::per_minute(1))
        .limit("a", Limit::per_hour(1));
    let error = twice.max_keys(10).try_build().err().unwrap();
    assert_eq!(error, BuildError::SameName { name: "a".into() });
    let shown = "two limits have the name `a`: give each its own";
    assert_eq!(error.to_string(), shown);
}

#[test]
fn a_group_of_limits_allows_all_or_nothing() {
    let (clock, _) = small(Limit::per_second(1));
    let limits = Limits::builder()
        .limit("minute", Limit::per_minute(2))
        .limit("hour", Limit::per_hour(3))
        .max_keys(100)
        .clock(Arc::clone(&clock))
        .build();
    assert_eq!(limits.check("ann").remaining(), Some(1));
    assert!(limits.check("ann").is_allowed());
    let denied = limits.check("ann");
    assert_eq!(denied.denied_by(), Some("minute"));
    assert_eq!(denied.retry_after_secs(), Some(30));
    assert_eq!(
        limits.limiter("hour").unwrap().peek("ann", 1).remaining(),
        1
    );
    clock.advance(Duration::from_secs(60));
    assert!(limits.peek("ann", 1).is_allowed());
    assert!(limits.check("ann").is_allowed());
    // The decision owns the names, so it outlives the limits.
    let denied = limits.check("ann");
    limits.reset("ann");
    assert!(limits.check_n("ann", 2).is_allowed());
    drop(limits);
    assert_eq!(denied.denied_by(), Some("hour"));
    let names: Vec<&str> = denied.decisions().map(|(name, _)| name).collect();
    assert_eq!(names, ["minute", "hour"]);
}

#[test]
fn limits_on_trial_peeks_and_charged_denials() {
    let (_, builder) = small(Limit::per_hour(10));
    let limiter = builder.name("hour").build();
    let trial = limiter.sibling("trial", Limit::per_hour(1));
    let ask = || check_all(&[limiter.ask("ann"), trial.ask("ann").shadow()]).unwrap();
    assert!(ask().is_allowed());
    assert!(ask().is_allowed(), "the limit on trial denies nothing");
    let peek = check_all(&[limiter.ask_n("ann", 9).peek()]).unwrap();
    assert_eq!(peek.denied_by(), Some("hour"));
    let charged = limiter.ask_n("ann", 9).charge_denied(ChargeDenied::Excess);
    assert!(!check_all(&[charged]).unwrap().is_allowed());
    assert_eq!(limiter.peek("ann", 1).remaining(), 0);
    // A shadow of the limit itself does not turn it off.
    let both = [limiter.ask_n("bob", 9).shadow(), limiter.ask_n("bob", 2)];
    assert_eq!(check_all(&both).unwrap().denied_by(), Some("hour"));
}
