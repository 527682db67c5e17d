//! Concurrent requests over several slots share rounds: with few calls, each with its own verdict,
//! and exactly.
//!
//! The scripts' time stands still, so nothing refills.

use tollgate_behaviour::{Random, Subject, Taste, algorithms, check};
use tollgate_core::{Charge, Cost, Enforcement, Key, Limit, OnDenial, Span, Verdict};

use super::{Driven, SINGLE};
use crate::config::Config;
use crate::keys;
use crate::names::reservation_name;
use crate::script_reply::Status;
use crate::script_request::Step;

/// The number of concurrent requests.
const REQUESTS: usize = 400;
/// Calls of one round over two slots: each reserves, and each confirms.
const QUESTIONS_OF_A_ROUND: u64 = 4;
/// The first request is alone in its round, and the others, which come meanwhile, fill two. Two
/// more, in case some of them come late.
const ROUNDS: u64 = 5;

fn limits(count: u32) -> Vec<Limit> {
    let limit = |algorithm| Limit::new(algorithm, count, Span::HOUR).expect("an hour is a window");
    algorithms().into_iter().map(limit).collect()
}

fn allowed(verdicts: &[Verdict]) -> u32 {
    let allowed = verdicts.iter().filter(|verdict| verdict.is_allowed());
    u32::try_from(allowed.count()).expect("a few hundred")
}

impl Driven {
    /// Keys in different slots.
    fn keys_apart<const N: usize>(&mut self) -> [Key; N] {
        let keys = std::array::from_fn(|name| self.key(&format!("{name}")));
        let mut slots = keys.map(keys::slot);
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[0] != pair[1]));
        keys
    }

    fn used_of(&mut self, key: Key, limit: &Limit) -> u32 {
        let peek = Charge::new(key, limit, Cost::Peek(1));
        let verdict = self.decide(Taste::MICROSECONDS.start, &[peek]);
        limit.capacity() - verdict.decisions[0].remaining()
    }
}

/// Stores whose rounds reserve everything, and whose rounds charge immediately what they can.
const STORES: [fn() -> Driven; 2] = [Driven::apart, Driven::apart_at_once];

/// Each limit with each store.
fn cases(count: u32) -> impl Iterator<Item = (Limit, Driven)> {
    let of_limit = |limit| STORES.map(|store| (limit, store()));
    limits(count).into_iter().flat_map(of_limit)
}

/// The number of calls does not grow with the number of requests.
#[test]
fn those_who_come_together_share_calls() {
    for (limit, mut subject) in cases(1_000) {
        let keys: [Key; 2] = subject.keys_apart();
        let charges = keys.map(|key| Charge::new(key, &limit, Cost::ONE)).to_vec();
        let now = Taste::MICROSECONDS.start;
        assert!(subject.decide(now, &charges).is_allowed());
        let before = subject.store.counts().requests;
        let verdicts = subject.decide_together(now, &vec![charges; REQUESTS]);
        let requests = subject.store.counts().requests - before;
        assert_eq!(allowed(&verdicts), 400);
        assert!(
            requests <= ROUNDS * QUESTIONS_OF_A_ROUND,
            "{requests} questions for {REQUESTS} requests: {limit:?}"
        );
        // Each verdict contains what remains after it.
        let mut remaining: Vec<u32> = verdicts
            .iter()
            .map(|verdict| verdict.decisions[1].remaining())
            .collect();
        remaining.sort_unstable();
        assert_eq!(remaining, (599..999).collect::<Vec<u32>>());
        assert_eq!(keys.map(|key| subject.used_of(key, &limit)), [401; 2]);
    }
}

/// As many as fit are allowed, and all others are denied, by one instance and by two.
#[test]
fn as_many_are_allowed_as_there_are_units() {
    for (limit, mut subject) in cases(101) {
        let keys: [Key; 2] = subject.keys_apart();
        let charges = keys.map(|key| Charge::new(key, &limit, Cost::ONE)).to_vec();
        let now = Taste::MICROSECONDS.start;
        assert!(subject.decide(now, &charges).is_allowed());
        let verdicts = subject.decide_together(now, &vec![charges; REQUESTS]);
        assert_eq!(allowed(&verdicts), 100, "{limit:?}");
        assert_eq!(keys.map(|key| subject.used_of(key, &limit)), [101; 2]);
    }
}

/// Requests of all kinds with shared keys: the used units of each key are those that the limits of
/// allowed requests allowed, and those that the denied ones were charged.
#[test]
fn every_unit_of_mixed_requests_is_accounted_for() {
    check(
        "every_unit_of_mixed_requests_is_accounted_for",
        60,
        |random| {
            let mut subject = random.pick(&STORES)();
            let keys: [Key; 4] = subject.keys_apart();
            let count = random.small(1, 60);
            let limit = random.pick(&limits(count));
            let penalises = random.between(0, 3) == 0;
            let requests: Vec<Vec<Charge<'_>>> = (0..random.between(2, 60))
                .map(|_| request(random, &keys, &limit, penalises))
                .collect();
            let now = Taste::MICROSECONDS.start;
            let verdicts = subject.decide_together(now, &requests);
            for key in keys {
                let (mut taken, mut owed) = (0, 0);
                for (charges, verdict) in requests.iter().zip(&verdicts) {
                    let decided = charges.iter().zip(&verdict.decisions);
                    let of_key = decided.filter(|(charge, decision)| {
                        let is_charged = decision.is_allowed() || !verdict.is_allowed();
                        charge.key == key && is_charged
                    });
                    let units: u64 = of_key.map(|(charge, _)| units(charge.cost)).sum();
                    match verdict.is_allowed() {
                        true => taken += units,
                        false if penalises => owed += units,
                        false => {}
                    }
                }
                let capacity = u64::from(limit.capacity());
                assert!(taken <= capacity, "{taken} of {limit:?}");
                let used = u64::from(subject.used_of(key, &limit));
                assert_eq!(
                    used,
                    capacity.min(taken + owed),
                    "{taken} and {owed} of {limit:?}"
                );
            }
        },
    );
}

fn units(cost: Cost) -> u64 {
    match cost {
        Cost::Take(units) => units,
        Cost::Peek(_) | Cost::Refund(_) => 0,
    }
}

/// Two or three of the keys, each with its own cost. If denials are not charged, some limits are in
/// shadow mode.
fn request<'l>(
    random: &mut Random,
    keys: &[Key],
    limit: &'l Limit,
    penalises: bool,
) -> Vec<Charge<'l>> {
    let first = random.pick(&[0, 1, 2, 3]);
    let count = random.pick(&[2, 2, 3]);
    let charge = |random: &mut Random, key| {
        let cost = match random.between(0, 9) {
            0 => Cost::Peek(random.between(1, 3)),
            _ => Cost::Take(random.pick(&[1, 1, 1, 2, 5])),
        };
        Charge {
            on_denial: match penalises {
                true => OnDenial::Charge,
                false => OnDenial::Keep,
            },
            enforcement: match !penalises && random.between(0, 3) == 0 {
                true => Enforcement::Shadow,
                false => Enforcement::Enforce,
            },
            ..Charge::new(key, limit, cost)
        }
    };
    (first..first + count)
        .map(|place| charge(random, keys[place % keys.len()]))
        .collect()
}

/// A request waits for the reservations of others, but not for a limit that is exceeded and does
/// not deny.
#[test]
fn an_exceeded_limit_that_does_not_deny_is_not_blocked() {
    let lasts = 1_000_000;
    let now = Taste::MICROSECONDS.start;
    for (limit, enforcement) in limits(10)
        .into_iter()
        .flat_map(|limit| [(limit, Enforcement::Shadow), (limit, Enforcement::Quota)])
    {
        let mut redis = Driven::new(&Config::single(SINGLE.address()));
        let key = redis.key("exceeded");
        let charge = |units| Charge {
            enforcement,
            ..Charge::new(key, &limit, Cost::Take(units))
        };
        let reserve = || Step::Reserve {
            name: reservation_name(lasts),
            lasts,
        };
        assert_eq!(redis.step(now, reserve(), charge(6)), Status::Allowed);
        assert_eq!(redis.step(now, reserve(), charge(6)), Status::Blocked);
        assert_eq!(redis.step(now, reserve(), charge(11)), Status::Allowed);
    }
}
