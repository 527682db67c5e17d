//! Reservations that clients settle: Redis charges and refunds as the store in memory does.

mod log;

mod migrating;

mod twin;

mod written_back;

use std::task::{Context, Poll};

use tollgate_behaviour::{Subject, Taste, algorithms};
use tollgate_core::{
    Charge, Cost, Key, Limit, Mode, NewReservation, Now, Settled, SettledCharge, Settlement,
    Sharing, Span, StoreError, Verdict,
};
use tollgate_testbed as testbed;

use super::{CLUSTER, Driven, SINGLE};
use crate::config::Config;
use crate::names::reservation_name;
use crate::script_reply::Status;
use crate::script_request::Step;

const MEMO: &[u8] = b"what\0ever";
const UNITS_MAX: u64 = 1 << 32;

fn new(secret: u128) -> NewReservation<'static> {
    NewReservation {
        secret,
        lifetime: Span::HOUR,
        memo: MEMO,
    }
}

impl Driven {
    fn reserve(&self, charges: &[Charge<'_>], secret: u128) -> (Verdict, Option<Key>) {
        let new = new(secret);
        let reserved = self.store.reserve_kept(charges, &new);
        let reserved = self.runtime.block_on(reserved).expect("it can be kept");
        (reserved.verdict, reserved.reservation)
    }

    fn settle(&self, record: Key, charges: &[SettledCharge<'_>]) -> Settled {
        let settled = self.store.settle_kept(record, charges);
        self.runtime.block_on(settled).expect("Redis answers")
    }
}

/// Refilled units of a bucket are not refunded, although others have consumed units since.
#[test]
fn a_bucket_refunds_nothing_that_has_refilled() {
    let mut redis = Driven::new(&Config::single(SINGLE.address()));
    let limit = Limit::token_bucket(10, Span::SECOND).expect("a limit");
    let key = redis.key("refilled");
    let charge = |units| Charge::new(key, &limit, Cost::Take(units));
    let start = Taste::MICROSECONDS.start.utc;
    redis.store.set_now(start.as_nanos() / 1_000);
    let (_, record) = redis.reserve(&[charge(10)], 5);
    let later = start + Span::from_millis(600);
    assert!(redis.decide(Now::at(later), &[charge(6)]).is_allowed());
    let line = SettledCharge {
        line: 0,
        charge: charge(0),
    };
    let settled = redis.settle(record.expect("it is allowed"), &[line]);
    assert_eq!(settled, Some(vec![Settlement::new(6, 4)]));
}

/// The rate of a bucket has changed since: what has not refilled at the faster of both is refunded,
/// as in memory.
#[test]
fn a_bucket_refunds_units_that_were_charged_at_another_rate() {
    let bucket = |count| Limit::token_bucket(count, Span::SECOND).expect("a limit");
    let burst = bucket(10).with_burst(20).expect("a limit");
    // The limit in effect, the units reserved of ten a second, those charged since, those settled,
    // and the settlement.
    let table = [
        (bucket(10), 8, 0, 1, Settlement::new(1, 9)),
        (bucket(20), 8, 0, 1, Settlement::new(1, 19)),
        (burst, 8, 0, 1, Settlement::new(1, 19)),
        (bucket(5), 5, 0, 1, Settlement::new(1, 4)),
        (bucket(20), 8, 3, 1, Settlement::new(1, 16)),
        (bucket(5), 2, 1, 1, Settlement::new(1, 3)),
    ];
    let now = Taste::MICROSECONDS.start;
    for (limit, reserved, since, actual, expected) in table {
        let mut redis = Driven::new(&Config::single(SINGLE.address()));
        let key = redis.key("another rate");
        redis.store.set_now(now.utc.as_nanos() / 1_000);
        let old = bucket(10);
        let (_, record) = redis.reserve(&[Charge::new(key, &old, Cost::Take(reserved))], 5);
        let taken = Charge::new(key, &limit, Cost::Take(since));
        assert!(
            since == 0 || redis.decide(now, &[taken]).is_allowed(),
            "{limit}"
        );
        let charge = Charge::new(key, &limit, Cost::Take(actual));
        let line = SettledCharge { line: 0, charge };
        let settled = redis.settle(record.expect("it is allowed"), &[line]);
        assert_eq!(settled, Some(vec![expected]), "{limit}");
    }
}

/// A settlement beyond the estimate exhausts the limit, whether the units that a request over
/// several slots has reserved are released or confirmed. It is not said to be charged those units,
/// which the other request may be granted.
#[test]
fn a_settlement_exhausts_a_limit_beside_what_others_have_reserved() {
    for (algorithm, is_confirmed) in algorithms()
        .into_iter()
        .flat_map(|one| [(one, false), (one, true)])
    {
        let mut redis = Driven::new(&Config::single(SINGLE.address()));
        let limit = Limit::new(algorithm, 10, Span::MINUTE).expect("a limit");
        let (key, now) = (redis.key("beside"), Taste::MICROSECONDS.start);
        let charge = |units| Charge::new(key, &limit, Cost::Take(units));
        redis.store.set_now(now.utc.as_nanos() / 1_000);
        let (_, record) = redis.reserve(&[charge(4)], 5);
        let lasts = 1_000_000;
        let name = reservation_name(lasts);
        let status = redis.step(now, Step::Reserve { name, lasts }, charge(3));
        assert_eq!(status, Status::Allowed, "{limit}");
        let line = SettledCharge {
            line: 0,
            charge: charge(20),
        };
        let settled = redis.settle(record.expect("it is allowed"), &[line]);
        assert_eq!(settled, Some(vec![Settlement::new(7, 0)]), "{limit}");
        let status = match is_confirmed {
            true => redis.step(now, Step::Confirm { name }, charge(3)),
            false => redis.release(now, name, charge(3)),
        };
        assert_eq!(status, Status::Allowed, "{limit}");
        let decision = redis.decide(now, &[charge(10)]).decisions[0];
        assert_eq!(decision.remaining(), 0, "{limit}");
    }
}

/// Every line of a request whose keys share a slot.
#[test]
fn all_limits_of_a_request_are_settled_at_once() {
    for config in [
        Config::single(SINGLE.address()),
        Config::cluster(CLUSTER.addresses()),
    ] {
        let mut redis = Driven::new(&config);
        redis.store.set_now(1_000_000_000_000);
        let hour = Limit::fixed_window(100, Span::HOUR).expect("a limit");
        let log = Limit::sliding_log(50, Span::HOUR).expect("a limit");
        let [one, other] = ["one", "other"].map(|name| redis.key(name));
        let cost = Cost::Take(20);
        let charges = [
            Charge::new(one, &hour, cost),
            Charge::new(other, &log, cost),
            Charge::new(one, &hour, cost),
        ];
        let (verdict, record) = redis.reserve(&charges, 7);
        assert!(verdict.is_allowed());
        let record = record.expect("it is allowed");
        // The second line was removed from the rules meanwhile.
        let charge = Charge::new(one, &hour, Cost::Take(10));
        let settled = redis.settle(record, &[SettledCharge { line: 0, charge }]);
        assert_eq!(settled, Some(vec![Settlement::new(10, 90)]));
        let (_, record) = redis.reserve(&charges, 8);
        let settled = [(1, other, &log), (0, one, &hour)].map(|(line, key, limit)| {
            let charge = Charge::new(key, limit, Cost::Take(UNITS_MAX));
            SettledCharge { line, charge }
        });
        let settled = redis.settle(record.expect("it is allowed"), &settled);
        let expected = vec![Settlement::new(30, 0), Settlement::new(90, 0)];
        assert_eq!(settled, Some(expected));
        // A request without limits has a reservation as well.
        let (_, record) = redis.reserve(&[], 9);
        let record = record.expect("it is allowed");
        assert_eq!(redis.settle(record, &[]), Some(vec![]));
        assert_eq!(redis.settle(record, &[]), None);
    }
}

#[test]
fn what_redis_cannot_keep_is_an_error_and_charges_nothing() {
    let mut apart = Driven::apart();
    apart.store.set_now(1_000_000_000_000);
    let limit = Limit::fixed_window(100, Span::HOUR).expect("a limit");
    let [one, other] = ["one", "other"].map(|name| apart.key(name));
    let one = Charge::new(one, &limit, Cost::Take(10));
    let other = Charge::new(other, &limit, Cost::Take(10));
    let written_back = one.shared(Sharing::in_mode(Mode::WriteBack));
    let refund = Charge::new(other.key, &limit, Cost::Refund(5));
    let now = Now::at(Taste::MICROSECONDS.start.utc);
    assert!(apart.decide(now, &[other]).is_allowed());
    for charges in [&[one, other][..], &[written_back], &[refund]] {
        let new = new(7);
        let reserved = apart.store.reserve_kept(charges, &new);
        let error = apart
            .runtime
            .block_on(reserved)
            .expect_err("cannot be kept");
        assert!(matches!(error, StoreError::Unfit { .. }), "{error:?}");
    }
    let peek = Charge::new(one.key, &limit, Cost::Peek(1));
    assert_eq!(apart.decide(now, &[peek]).decisions[0].remaining(), 100);
    let peek = Charge::new(other.key, &limit, Cost::Peek(1));
    assert_eq!(apart.decide(now, &[peek]).decisions[0].remaining(), 90);
}

/// A Redis that is out of memory rejects the first write of a script if it needs memory, and no
/// later one. The first one of a settlement deletes the reservation, so all of it happens.
#[test]
fn a_full_redis_settles_all_of_a_reservation() {
    let redis = testbed::Redis::start();
    let mut store = Driven::new(&Config::single(redis.address()));
    let now = Taste::MICROSECONDS.start;
    store.store.set_now(now.utc.as_nanos() / 1_000);
    let limits = [
        Limit::fixed_window(100, Span::HOUR).expect("a limit"),
        Limit::sliding_window(100, Span::HOUR, 6).expect("a limit"),
        Limit::sliding_log(100, Span::HOUR).expect("a limit"),
        Limit::token_bucket(100, Span::HOUR).expect("a limit"),
    ];
    for (secret, limit) in (1..).zip(&limits) {
        let key = store.key(&format!("{limit}"));
        let charge = |cost| Charge::new(key, limit, cost);
        let (_, record) = store.reserve(&[charge(Cost::Take(40))], secret);
        let record = record.expect("it is allowed");
        redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
        let line = SettledCharge {
            line: 0,
            charge: charge(Cost::Take(10)),
        };
        let settled = store.settle(record, &[line]);
        assert_eq!(settled, Some(vec![Settlement::new(10, 90)]), "{limit}");
        redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
        let verdict = store.decide(now, &[charge(Cost::Peek(1))]);
        assert_eq!(verdict.decisions[0].remaining(), 90, "{limit}");
    }
}

/// A former primary is a replica without later reservations. Connections to it may still be open.
#[test]
fn a_former_primary_is_an_error_and_does_not_say_that_there_is_no_reservation() {
    let redis = testbed::Redis::start();
    let mut store = Driven::new(&Config::single(redis.address()));
    let limit = Limit::fixed_window(100, Span::HOUR).expect("a limit");
    let charge = Charge::new(store.key("former"), &limit, Cost::Take(10));
    assert!(
        store
            .decide(Taste::MICROSECONDS.start, &[charge])
            .is_allowed()
    );
    redis.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    let line = SettledCharge { line: 0, charge };
    let lines = [line];
    let settled = store.store.settle_kept(Key::from_bits(7), &lines);
    let settled = store.runtime.block_on(settled);
    assert!(
        matches!(settled, Err(StoreError::Rejected { .. })),
        "{settled:?}"
    );
}

/// Names of counters are hashes without a secret, so they can be found by others.
#[test]
fn a_counter_is_no_reservation() {
    let mut redis = Driven::new(&Config::single(SINGLE.address()));
    let limit = Limit::fixed_window(100, Span::HOUR).expect("a limit");
    let key = redis.key("counter");
    let now = Taste::MICROSECONDS.start;
    let charge = Charge::new(key, &limit, Cost::Take(10));
    assert!(redis.decide(now, &[charge]).is_allowed());
    let found = redis.store.find_kept(key);
    assert_eq!(redis.runtime.block_on(found).expect("Redis answers"), None);
    assert_eq!(redis.settle(key, &[]), None);
    let peek = Charge::new(key, &limit, Cost::Peek(1));
    assert_eq!(redis.decide(now, &[peek]).decisions[0].remaining(), 90);
}

/// Leased units are charged already; the refund is that of the reservation.
#[test]
fn a_leased_limit_is_reserved_and_settled() {
    let mut redis = Driven::new(&Config::single(SINGLE.address()));
    let limit = Limit::fixed_window(1_000, Span::HOUR).expect("a limit");
    let key = redis.key("leased");
    let leased = |cost| Charge::new(key, &limit, cost).shared(Sharing::in_mode(Mode::Leased));
    let now = Taste::MICROSECONDS.start;
    for _ in 0..6 {
        assert!(redis.decide(now, &[leased(Cost::ONE)]).is_allowed());
    }
    assert!(redis.store.counts().leases_held > 0);
    let (verdict, record) = redis.reserve(&[leased(Cost::Take(100))], 3);
    assert!(verdict.is_allowed());
    let charge = leased(Cost::Take(40));
    let settled = redis.settle(
        record.expect("it is allowed"),
        &[SettledCharge { line: 0, charge }],
    );
    assert_eq!(settled.expect("it was kept")[0].charged, 40);
    redis.runtime.block_on(redis.store.close());
    let other = Driven::new(&Config::single(SINGLE.address()));
    let mut other = other;
    let peek = Charge::new(key, &limit, Cost::Peek(1));
    assert_eq!(
        other.decide(now, &[peek]).decisions[0].remaining(),
        1_000 - 46
    );
}

/// A settlement whose caller goes away happens, or can be repeated; not both.
#[test]
fn a_settlement_that_is_cancelled_at_any_time_happens_at_most_once() {
    let mut redis = Driven::new(&Config {
        connections: 1,
        ..Config::single(SINGLE.address())
    });
    let limit = Limit::sliding_log(100, Span::HOUR).expect("a limit");
    let key = redis.key("cancelled");
    let now = Taste::MICROSECONDS.start;
    redis.store.set_now(now.utc.as_nanos() / 1_000);
    let (mut repeated, mut happened) = (0, 0);
    for polls in 0..200 {
        let charge = Charge::new(key, &limit, Cost::Take(40));
        let (_, record) = redis.reserve(&[charge], polls);
        let record = record.expect("it is allowed");
        let charge = Charge::new(key, &limit, Cost::Take(0));
        let lines = [SettledCharge { line: 0, charge }];
        let (store, lines) = (&redis.store, &lines);
        redis.runtime.block_on(async {
            let mut settling = Box::pin(store.settle_kept(record, lines));
            for _ in 0..polls % 5 {
                let poll = |context: &mut Context<'_>| Poll::Ready(settling.as_mut().poll(context));
                if std::future::poll_fn(poll).await.is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        });
        match redis.settle(record, lines) {
            Some(_) => repeated += 1,
            None => happened += 1,
        }
        let peek = Charge::new(key, &limit, Cost::Peek(1));
        let decision = redis.decide(now, &[peek]).decisions[0];
        assert_eq!(decision.remaining(), 100, "{polls}");
    }
    assert!(repeated > 0 && happened > 0, "{repeated}, {happened}");
}

#[test]
fn of_two_instances_that_settle_at_once_one_does() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let mut one = Driven::new(&config);
    let limit = Limit::fixed_window(100, Span::HOUR).expect("a limit");
    let key = one.key("raced");
    let now = Taste::MICROSECONDS.start;
    one.store.set_now(now.utc.as_nanos() / 1_000);
    for round in 0..100 {
        let charge = Charge::new(key, &limit, Cost::Take(40));
        let (_, record) = one.reserve(&[charge], round);
        let record = record.expect("it is allowed");
        let settled = std::thread::scope(|scope| {
            let settle = || {
                let config = &config;
                scope.spawn(move || {
                    let other = Driven::new(config);
                    other.store.set_now(now.utc.as_nanos() / 1_000);
                    let charge = Charge::new(key, &limit, Cost::Take(0));
                    let line = SettledCharge { line: 0, charge };
                    usize::from(other.settle(record, &[line]).is_some())
                })
            };
            let threads = [settle(), settle()];
            let settled = threads.map(|thread| thread.join().expect("it does not panic"));
            settled.iter().sum::<usize>()
        });
        assert_eq!(settled, 1);
    }
    let peek = Charge::new(key, &limit, Cost::Peek(1));
    assert_eq!(one.decide(now, &[peek]).decisions[0].remaining(), 100);
}
