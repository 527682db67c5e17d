//! Requests that take nothing: a peek or a denial, whatever is stored, changes neither the state in
//! Redis nor its expiry, so a server that cannot write answers it as well. In virtual time.

use tollgate_behaviour::{Subject, Taste, algorithms};
use tollgate_core::{Charge, Cost, Key, Limit, Mode, Now, Sharing, Span, Verdict, Wait};
use tollgate_testbed as testbed;

use super::{Driven, SINGLE};
use crate::config::Config;
use crate::fit::GRAIN;
use crate::leases::LASTS;
use crate::names::reservation_name;
use crate::script_reply::Status;
use crate::script_request::Step;

const COUNT: u32 = 100;
/// Units that fit when a state is stored.
const LEFT: u32 = 2;
/// The lifetime of reservations, in microseconds.
const RESERVED: u64 = 1_000_000;
/// Everything of a key that must not change: its value, and when it expires.
const VALUE: &str = "local value = redis.call('DUMP', KEYS[1]) \
    return redis.sha1hex(value or '') .. ' ' .. redis.call('PEXPIRETIME', KEYS[1])";

/// What is stored of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Charges,
    Lease,
    ExpiredLease,
    Reservation,
    ExpiredReservation,
    /// Another version of the limit has charged it after this one.
    OtherVersion(Limit),
}

/// A key with a state, and an instance that has not seen it.
struct Case {
    caller: Driven,
    /// Keeps its lease.
    _holder: Driven,
    now: Now,
    limit: Limit,
    key: Key,
    /// In the same slot, with a few units.
    second: Key,
}

fn instance(server: &testbed::Redis) -> Driven {
    Driven::new(&Config::single(server.address()))
}

fn at(span: Span) -> Now {
    Now::at(Taste::MICROSECONDS.start.utc + span)
}

fn limits(count: u32, window: Span) -> Vec<Limit> {
    let limit = |algorithm| Limit::new(algorithm, count, window).expect("a valid limit");
    algorithms().into_iter().map(limit).collect()
}

fn others() -> [Limit; 2] {
    let window = Span::HOUR.times(2);
    [
        Limit::fixed_window(10 * COUNT, window),
        Limit::sliding_log(10 * COUNT, window),
    ]
    .map(|limit| limit.expect("a valid limit"))
}

/// Every kind of state that a limit can have.
fn states(limit: &Limit) -> Vec<Stored> {
    let mut states = vec![
        Stored::Charges,
        Stored::Reservation,
        Stored::ExpiredReservation,
    ];
    states.extend(others().map(Stored::OtherVersion));
    if Mode::Leased.suits(limit) {
        states.extend([Stored::Lease, Stored::ExpiredLease]);
    }
    states
}

// === impl Case ===

impl Case {
    /// Stores a state in which `LEFT` units fit at `now`, or hardly more.
    fn new(server: &testbed::Redis, limit: Limit, stored: Stored) -> Case {
        let [mut caller, mut holder] = [(); 2].map(|()| instance(server));
        let [key, second] = ["one", "second"].map(|name| caller.key(name));
        let start = at(Span::ZERO);
        let take = |key, limit, units| Charge::new(key, limit, Cost::Take(u64::from(units)));
        assert!(
            holder
                .decide(start, &[take(second, &limit, 7)])
                .is_allowed()
        );
        let mut used = COUNT - LEFT;
        let mut now = start;
        match stored {
            Stored::Charges | Stored::OtherVersion(_) => {}
            Stored::Lease | Stored::ExpiredLease => {
                let leased = take(key, &limit, 1).shared(Sharing::in_mode(Mode::Leased));
                assert!((0..8).all(|_| holder.decide(start, &[leased]).is_allowed()));
                assert!(holder.store.counts().units_leased > 0, "{limit}");
            }
            Stored::Reservation | Stored::ExpiredReservation => {
                let name = reservation_name(RESERVED);
                let reserve = Step::Reserve {
                    name,
                    lasts: RESERVED,
                };
                let status = holder.step(start, reserve, take(key, &limit, 1));
                assert_eq!(status, Status::Allowed);
            }
        }
        if stored == Stored::Lease || stored == Stored::ExpiredLease {
            let peek = Charge::new(key, &limit, Cost::Peek(1));
            used = caller.decide(start, &[peek]).decisions[0].remaining() - LEFT;
        }
        assert!(
            holder
                .decide(start, &[take(key, &limit, used)])
                .is_allowed()
        );
        if let Stored::OtherVersion(other) = stored {
            assert!(holder.decide(start, &[take(key, &other, 1)]).is_allowed());
        }
        if stored == Stored::ExpiredLease || stored == Stored::ExpiredReservation {
            now = at(LASTS + GRAIN);
        }
        Case {
            caller,
            _holder: holder,
            now,
            limit,
            key,
            second,
        }
    }

    /// Peeks and denials under `limit`, alone and beside another key.
    fn requests<'l>(&self, limit: &'l Limit) -> Vec<Vec<Charge<'l>>> {
        let of = |key, cost| Charge::new(key, limit, cost);
        let (key, second, more) = (self.key, self.second, u64::from(COUNT / 2));
        vec![
            vec![of(key, Cost::Peek(1))],
            vec![of(key, Cost::Take(0))],
            vec![of(key, Cost::Peek(more))],
            vec![of(key, Cost::Take(more))],
            vec![of(key, Cost::Take(u64::from(COUNT) + 1))],
            vec![of(key, Cost::Peek(1)), of(second, Cost::Peek(1))],
            vec![of(key, Cost::Take(more)), of(second, Cost::ONE)],
            vec![of(second, Cost::ONE), of(key, Cost::Take(more))],
        ]
    }

    /// The verdicts on all of these, one after another and at once.
    fn ask(&mut self, limit: &Limit) -> Vec<Verdict> {
        let (requests, now) = (self.requests(limit), self.now);
        let one_by_one = requests.iter().map(|one| self.caller.decide(now, one));
        let one_by_one: Vec<Verdict> = one_by_one.collect();
        assert_eq!(self.caller.decide_together(now, &requests), one_by_one);
        one_by_one
    }

    /// The values and expiries of its keys.
    fn values(&self, server: &testbed::Redis) -> [String; 2] {
        let name = |key| self.caller.store.name_of(key);
        [self.key, self.second].map(|key| server.ask(&["EVAL", VALUE, "1", &name(key)]))
    }
}

/// Every kind of state, under every algorithm.
fn cases(server: &testbed::Redis) -> Vec<(Case, String)> {
    let all = limits(COUNT, Span::HOUR).into_iter().flat_map(|limit| {
        let of = move |stored| {
            let context = format!("{limit} with {stored:?}");
            (Case::new(server, limit, stored), context)
        };
        states(&limit).into_iter().map(of)
    });
    all.collect()
}

#[test]
fn a_peek_or_a_denial_leaves_what_is_stored() {
    for (mut case, context) in cases(&SINGLE) {
        let before = case.values(&SINGLE);
        let (limit, now) = (case.limit, case.now);
        for request in case.requests(&limit) {
            let verdict = case.caller.decide(now, &request);
            let takes = request.iter().any(|one| one.cost.units_needed() > Some(1));
            assert_eq!(verdict.is_allowed(), !takes, "{context}: {request:?}");
            assert_eq!(case.values(&SINGLE), before, "{context}: {request:?}");
        }
        let _as_before = case.ask(&limit);
        assert_eq!(case.values(&SINGLE), before, "{context}");
    }
}

/// Expired leases are charged as of their end, whenever that is computed: a peek or a denial shows
/// what it would if the charge had been stored as soon as the lease expired.
#[test]
fn a_lease_that_expired_counts_the_same_whenever_it_is_found() {
    for limit in limits(COUNT, Span::MINUTE) {
        if !Mode::Leased.suits(&limit) {
            continue;
        }
        // The twin is charged, and refunded, as soon as its lease has expired.
        let [mut case, mut twin] =
            [(); 2].map(|()| Case::new(&SINGLE, limit, Stored::ExpiredLease));
        for cost in [Cost::ONE, Cost::Refund(1)] {
            let charge = Charge::new(twin.key, &limit, cost);
            assert!(twin.caller.decide(twin.now, &[charge]).is_allowed());
        }
        for seconds in [0, 1, 7, 20, 45, 59, 61, 75] {
            let now = Now::at(case.now.utc + Span::from_secs(seconds));
            for cost in [Cost::Peek(1), Cost::Peek(50), Cost::Take(101)] {
                let of = |case: &mut Case| {
                    let charge = Charge::new(case.key, &limit, cost);
                    case.caller.decide(now, &[charge])
                };
                assert_eq!(of(&mut case), of(&mut twin), "{limit} after {seconds} s");
            }
        }
    }
}

/// A version that decides on a key for the first time stores when, beside the state: answers under
/// the first version stay the same, and nothing is stored from then on.
#[test]
fn a_denial_under_another_version_changes_no_answer() {
    for limit in limits(COUNT, Span::HOUR) {
        for other in limits(COUNT / 4, Span::HOUR.times(3)) {
            if limit.is_bucket() && limit.algorithm() == other.algorithm() {
                // A bucket refills at one rate: a faster one changes it at once.
                continue;
            }
            let context = format!("{limit} and {other}");
            let [mut case, mut twin] = [(); 2].map(|()| Case::new(&SINGLE, limit, Stored::Charges));
            for case in [&mut case, &mut twin] {
                case.now = at(Span::from_secs(100));
                let more = Charge::new(case.key, &limit, Cost::ONE);
                assert!(case.caller.decide(case.now, &[more]).is_allowed());
                case.now = at(Span::from_secs(150));
            }
            assert!(!case.ask(&other)[3].is_allowed(), "{context}");
            let noted = case.values(&SINGLE);
            let _again = case.ask(&other);
            assert_eq!(case.values(&SINGLE), noted, "{context}");
            assert_eq!(case.ask(&limit), twin.ask(&limit), "{context}");
            assert_eq!(case.values(&SINGLE), noted, "{context}");
            let now = at(Span::from_secs(3_650));
            let later = [&mut case, &mut twin].map(|case| {
                let peek = Charge::new(case.key, &limit, Cost::Peek(1));
                case.caller.decide(now, &[peek])
            });
            assert_eq!(later[0], later[1], "{context}");
        }
    }
}

/// The units of another version count as used when this one is first asked, and not again when the
/// request comes back: its retry time holds.
#[test]
fn the_retry_time_under_a_new_version_holds() {
    for limit in limits(COUNT, Span::HOUR) {
        for other in limits(COUNT / 4, Span::MINUTE.times(3)) {
            let mut case = Case::new(&SINGLE, limit, Stored::Charges);
            case.now = at(Span::from_secs(150));
            let one = Charge::new(case.key, &other, Cost::Take(2));
            let denied = case.caller.decide(case.now, &[one]);
            let Some(Wait::For(wait)) = denied.denial.map(|denial| denial.wait) else {
                panic!("{denied:?} from {limit} to {other}");
            };
            for (grains, is_allowed) in [(2, false), (1, false), (0, true)] {
                let now = Now::at(case.now.utc + wait - GRAIN.times(grains));
                let verdict = case.caller.decide(now, &[one]);
                let context = format!("from {limit} to {other}: {verdict:?} after {wait}");
                assert_eq!(verdict.is_allowed(), is_allowed, "{context}");
            }
        }
    }
}

/// A server that rejects writes, for want of memory or of replicas, still answers.
fn is_answered_by(server: &testbed::Redis) {
    let mut cases = cases(server);
    let other = Limit::fixed_window(COUNT / 4, Span::HOUR.times(3)).expect("a valid limit");
    let ask = |(case, _): &mut (Case, String)| {
        let limit = case.limit;
        case.ask(&limit)
    };
    let expected: Vec<_> = cases.iter_mut().map(ask).collect();
    for setting in ["maxmemory", "min-replicas-to-write"] {
        assert_eq!(server.ask(&["CONFIG", "SET", setting, "1"]), "OK");
        for ((case, context), expected) in cases.iter_mut().zip(&expected) {
            let (limit, now, before) = (case.limit, case.now, case.values(server));
            assert_eq!(&case.ask(&limit), expected, "{context}: {setting}");
            // When another version decided first is not stored.
            assert!(!case.ask(&other)[3].is_allowed(), "{context}: {setting}");
            // Nor are new dates after the clock was set back.
            case.now = Now::at(now.utc - Span::HOUR.times(9));
            let _answered = case.ask(&limit);
            case.now = now;
            assert_eq!(
                case.caller.store.error_replies(),
                [],
                "{context}: {setting}"
            );
            assert_eq!(case.values(server), before, "{context}: {setting}");
        }
        assert_eq!(server.ask(&["CONFIG", "SET", setting, "0"]), "OK");
    }
}

#[test]
fn a_server_that_cannot_write_answers_peeks_and_denials() {
    is_answered_by(&testbed::Redis::start());
}

#[test]
fn a_valkey_that_cannot_write_answers_peeks_and_denials() {
    is_answered_by(&testbed::Redis::start_with(&testbed::Setup::valkey()));
}

/// Another instance refunds all that was charged, so nothing but a lease is stored.
#[test]
fn a_peek_at_a_key_with_nothing_but_a_lease_leaves_it() {
    let server = testbed::Redis::start();
    let leased = limits(COUNT, Span::HOUR).into_iter();
    for limit in leased.filter(|limit| Mode::Leased.suits(limit)) {
        let [mut caller, mut holder] = [(); 2].map(|()| instance(&server));
        let key = caller.key("only");
        let charge = |cost| Charge::new(key, &limit, cost);
        let leased = charge(Cost::ONE).shared(Sharing::in_mode(Mode::Leased));
        assert!((0..8).all(|_| holder.decide(at(Span::ZERO), &[leased]).is_allowed()));
        assert!(holder.store.counts().leases_held > 0, "{limit}");
        let refund = charge(Cost::Refund(u64::from(COUNT)));
        assert!(caller.decide(at(Span::ZERO), &[refund]).is_allowed());
        let value = || server.ask(&["EVAL", VALUE, "1", &holder.store.name_of(key)]);
        let before = value();
        assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
        for cost in [Cost::Peek(1), Cost::Take(u64::from(COUNT))] {
            let verdict = caller.decide(at(Span::SECOND), &[charge(cost)]);
            assert_eq!(verdict.is_allowed(), cost == Cost::Peek(1), "{limit}");
            assert_eq!(value(), before, "{limit}");
        }
        assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    }
}
