//! Requests with priority, for which a share of a limit is kept.
#![allow(clippy::unwrap_used)]

use tollgate::{Limit, Limiter, NotReady, check_all, reserve_all};

const LIMIT: Limit = Limit::per_hour(100).priority_share(20);

#[test]
fn a_settled_reservation_leaves_the_share_unless_it_has_priority() {
    let limiter = Limiter::new(LIMIT);
    let settlement = limiter.reserve("bob", 10).unwrap().settle(1_000);
    assert_eq!((settlement.charged, settlement.remaining), (80, 0));
    assert!(limiter.reserve("bob", 1).is_err());
    let reservation = limiter.reserve_with_priority("bob", 10).unwrap();
    assert_eq!(reservation.remaining(), 10);
    let settlement = reservation.settle(1_000);
    assert_eq!((settlement.charged, settlement.remaining), (20, 0));
    drop(limiter.reserve_with_priority("eve", 100).unwrap());
    assert!(limiter.check_with_priority("eve", 100).is_allowed());
}

#[test]
fn several_limits_reserve_with_priority_and_settle_with_it() {
    let limiter = Limiter::new(LIMIT);
    let sibling = limiter.sibling("sibling", LIMIT);
    let asks = |units| [limiter.ask_n("bob", units), sibling.ask_n("bob", units)];
    assert!(reserve_all(&asks(81)).is_err());
    let reservation = reserve_all(&asks(81).map(|ask| ask.with_priority())).unwrap();
    let settled = reservation.settle(200);
    assert!(settled.iter().all(|settlement| settlement.charged == 100));
    let peek = |ask: tollgate::Ask<'_>| check_all(&[ask.peek()]).unwrap().is_allowed();
    assert!(!peek(sibling.ask("bob").with_priority()));
    assert!(peek(sibling.ask("eve")));
}

/// Of the same key, all units are judged by the stricter of the two.
#[test]
fn a_key_that_is_also_asked_without_priority_has_no_share() {
    let limiter = Limiter::new(LIMIT);
    let with = |units| limiter.ask_n("bob", units).with_priority();
    let is_allowed = |asks: &[tollgate::Ask<'_>]| check_all(asks).unwrap().is_allowed();
    assert!(!is_allowed(&[with(50), limiter.ask_n("bob", 31)]));
    assert!(!is_allowed(&[limiter.ask_n("bob", 31), with(50)]));
    assert!(is_allowed(&[with(50), limiter.ask_n("eve", 31)]));
    assert!(is_allowed(&[with(25), with(25)]));
}

#[test]
fn a_replaced_limit_has_its_own_share() {
    let limiter = Limiter::new(Limit::per_hour(100));
    assert!(limiter.check_n("bob", 70).is_allowed());
    limiter.set_limit(LIMIT);
    assert_eq!(limiter.peek("bob", 1).remaining(), 10);
    assert!(limiter.check_with_priority("bob", 25).is_allowed());
    assert!(!limiter.check("bob").is_allowed());
    limiter.set_limit(Limit::per_hour(100));
    assert_eq!(limiter.peek("bob", 1).remaining(), 5);
}

#[tokio::test]
async fn what_needs_the_share_is_not_waited_for() {
    let limiter = Limiter::new(LIMIT);
    let wait = |units| limiter.until_n_ready_with("bob", units, |_| std::future::pending::<()>());
    let never = wait(81).await;
    assert!(matches!(never, Err(NotReady::NeverFits)), "{never:?}");
    assert!(wait(80).await.is_ok());
}
