//! Reservations of several limits at once.

use std::sync::Arc;

use tollgate::{
    Algorithm, Anchor, ChargeDenied, JointDenial, JointError, JointReservation, Limit, Limiter,
    Limits, NotReserved, Span, reserve_all,
};

use super::{TestClock, algorithms, remaining, small};

/// Ten requests and 100 tokens an hour.
fn requests_and_tokens() -> (TestClock, [Limiter<TestClock>; 2]) {
    let (clock, builder) = small(Limit::per_hour(10));
    let requests = builder.name("requests").build();
    let tokens = requests.sibling("tokens", Limit::per_hour(100));
    (clock, [requests, tokens])
}

#[test]
fn each_limit_is_settled_by_its_own_units() {
    let (_, [requests, tokens]) = requests_and_tokens();
    let asks = [requests.ask("ann"), tokens.ask_n("ann", 40)];
    let reservation = reserve_all(&asks).unwrap();
    assert_eq!(reservation.decision().remaining(), Some(9));
    assert_eq!((remaining(&requests), remaining(&tokens)), (9, 60));
    let settled = reservation.settle_each(|name, estimate| match name {
        "tokens" => 25,
        _ => estimate,
    });
    let charged: Vec<u64> = settled
        .iter()
        .map(|settlement| settlement.charged)
        .collect();
    assert_eq!(charged, [1, 25]);
    assert_eq!((remaining(&requests), remaining(&tokens)), (9, 75));
    drop(reserve_all(&asks).unwrap());
    assert_eq!((remaining(&requests), remaining(&tokens)), (9, 75));
}

#[test]
fn a_denial_reserves_nothing_of_any_limit() {
    let (_, [requests, tokens]) = requests_and_tokens();
    let asks = [requests.ask("ann"), tokens.ask_n("ann", 101)];
    let Err(NotReserved::Denied(decision)) = reserve_all(&asks) else {
        panic!("101 never fit");
    };
    assert_eq!(decision.denied_by(), Some("tokens"));
    assert_eq!((remaining(&requests), remaining(&tokens)), (10, 100));
}

#[test]
fn only_what_was_charged_is_settled() {
    let (_, [requests, tokens]) = requests_and_tokens();
    let peek = requests.ask("ann").peek();
    let shadow = tokens.ask_n("ann", 101).shadow();
    let own = requests.sibling("own", Limit::per_hour(100));
    let charged = own.ask_n("ann", 30).charge_denied(ChargeDenied::Always);
    let settled = reserve_all(&[peek, shadow, charged]).unwrap().settle(20);
    assert_eq!((settled.len(), settled[0].charged), (1, 20));
    assert_eq!((remaining(&requests), remaining(&tokens)), (10, 100));
    assert_eq!(remaining(&own), 80);
}

#[test]
fn limits_of_other_memory_reserve_nothing() {
    let (_, [requests, _]) = requests_and_tokens();
    let (_, [_, others]) = requests_and_tokens();
    let answer = reserve_all(&[requests.ask("ann"), others.ask("ann")]);
    let error = answer.map(drop).unwrap_err();
    assert!(matches!(
        error,
        NotReserved::Failed(JointError::NotSiblings { .. })
    ));
    assert_eq!(remaining(&requests), 10);
    assert!(reserve_all::<TestClock>(&[]).unwrap().settle(1).is_empty());
}

#[test]
fn limits_of_every_algorithm_settle_together() {
    let (clock, _) = small(Limit::per_hour(1));
    let mut builder = Limits::builder().max_keys(100).clock(clock.clone());
    for (number, algorithm) in algorithms().into_iter().enumerate() {
        let limit = Limit::per_hour(100).counted_by(algorithm);
        builder = builder.limit(&number.to_string(), limit);
    }
    let limits = builder.build();
    let others = limits.reserve("ann", 30).unwrap();
    let settled = limits.reserve("ann", 40).unwrap().settle(15);
    assert_eq!(settled.len(), algorithms().len());
    assert!(settled.iter().all(|settlement| settlement.charged == 15));
    assert_eq!(limits.peek("ann", 1).remaining(), Some(55));
    drop(others);
    drop(limits.reserve("ann", 85).unwrap());
    assert_eq!(limits.peek("ann", 1).remaining(), Some(85));
    // Each limit says for itself which units still count.
    let reservation = limits.reserve("ann", 85).unwrap();
    clock.advance(Span::HOUR.times(2));
    let settled = reservation.settle(1);
    assert!(settled.iter().all(|settlement| settlement.charged == 85));
    let denied = limits.reserve("ann", 101).unwrap_err();
    let denial = denied.denial().unwrap();
    assert_eq!(denial.retry_after(), None);
    let text = "denied by `0`: the cost exceeds what the limit ever allows";
    assert_eq!(denied.to_string(), text);
}

/// A job that is stored, and ends in another thread or not at all.
#[test]
fn an_owned_reservation_outlives_what_made_it() {
    struct Jobs(Vec<JointReservation<'static, TestClock>>);

    let (clock, _) = small(Limit::per_hour(1));
    let builder = Limits::builder().max_keys(100).clock(clock);
    let builder = builder.limit("minute", Limit::per_minute(40));
    let limits = Arc::new(builder.limit("day", Limit::per_day(100)).build());
    let reserve = |units| Arc::clone(&limits).reserve_owned("ann", units);
    let mut jobs = Jobs(vec![reserve(20).unwrap(), reserve(10).unwrap()]);
    let left = || ["minute", "day"].map(|name| remaining(limits.limiter(name).unwrap()));
    assert_eq!(left(), [10, 70]);
    let denied = reserve(11).unwrap_err();
    assert_eq!(denied.denial().unwrap().denied_by(), Some("minute"));
    let last = jobs.0.pop().unwrap();
    let settled = std::thread::spawn(move || last.settle(4)).join().unwrap();
    assert_eq!(settled.len(), 2);
    assert_eq!(left(), [16, 76]);
    drop(jobs);
    assert_eq!(left(), [36, 96]);
}

/// A program that passes the error on, and one that prints it.
#[test]
fn errors_of_several_limits_pass_through_question_marks_and_say_why() {
    fn work(limits: &Limits<TestClock>, units: u64) -> Result<u64, Box<dyn std::error::Error>> {
        let reservation = limits.reserve("ann", units)?;
        limits.check("ann").into_result()?;
        Ok(reservation.settle(1).iter().map(|it| it.charged).sum())
    }
    let (clock, _) = small(Limit::per_hour(1));
    let builder = Limits::builder().max_keys(100).clock(clock);
    let builder = builder.limit("minute", Limit::per_minute(4));
    let limits = builder.limit("day", Limit::per_day(100)).build();
    assert_eq!(work(&limits, 1).unwrap(), 2);
    let reserved = work(&limits, 4).unwrap_err();
    assert_eq!(reserved.to_string(), "denied by `minute`; try again in 30s");
    assert!(reserved.is::<NotReserved>());
    let checked = work(&limits, 2).unwrap_err();
    assert_eq!(checked.to_string(), "denied by `minute`; try again in 15s");
    assert!(checked.is::<JointDenial>());
}

#[test]
fn an_error_of_the_store_is_called_so() {
    let log = Limit::per_hour(100_000).counted_by(Algorithm::SlidingLog);
    let (clock, _) = small(log);
    let builder = Limiter::builder(log).max_keys(1_000).max_bytes(30_000);
    let limiter = builder.clock(clock.clone()).build();
    let is_full = (0..100_000).any(|_| {
        clock.advance(Span::from_nanos(7_919));
        limiter.try_check("ann", 1).is_err()
    });
    assert!(is_full, "100 000 stamps do not fit in 30 kB");
    let error = reserve_all(&[limiter.ask("ann")]).unwrap_err();
    assert!(error.denial().is_none());
    assert_eq!(error.to_string(), "the store has no answer");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(
        source.to_string(),
        "the store's memory for large states is full; raise `max_bytes`"
    );
}

#[test]
fn a_shadow_that_was_not_charged_refunds_nothing() {
    let window = Algorithm::FixedWindow(Anchor::Clock);
    let limit = Limit::per_hour(10).counted_by(window).priority_share(20);
    let (_, builder) = small(limit);
    let limiter = builder.build();
    assert!(limiter.check_n("bob", 4).is_allowed());
    // With priority three would fit. Six do not, and so nothing is charged.
    let asks = [
        limiter.ask_n("bob", 3).with_priority().shadow(),
        limiter.ask_n("bob", 3).shadow(),
    ];
    drop(reserve_all(&asks).unwrap());
    assert_eq!(limiter.peek("bob", 1).remaining(), 4);
}

#[test]
fn what_one_key_was_charged_twice_is_settled_once() {
    let (clock, builder) = small(Limit::per_second(1).burst(10));
    let limiter = builder.build();
    let twice = [limiter.ask_n("bob", 3), limiter.ask_n("bob", 3)];
    let reservation = reserve_all(&twice).unwrap();
    assert!(limiter.check_n("bob", 4).is_allowed());
    clock.advance(Span::from_secs(3));
    // Three of the six have refilled; the other three are refunded, and the four stay.
    let settled = reservation.settle_each(|_, estimate| {
        assert_eq!(estimate, 6);
        0
    });
    assert_eq!(settled.len(), 1);
    assert_eq!(limiter.peek("bob", 1).remaining(), 6);
}
