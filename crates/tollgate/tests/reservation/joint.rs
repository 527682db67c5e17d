//! Reservations of several limits at once.

use tollgate::{
    Algorithm, Anchor, ChargeDenied, JointError, Limit, Limiter, Limits, NotReserved, Span,
    reserve_all,
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
    assert_eq!(denied.retry_after(), None);
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
