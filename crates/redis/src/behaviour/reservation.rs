//! `reservation.lua` does what the general script does, whatever else happens to the key meanwhile.

mod penalty;

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::time::Instant;
use tollgate_behaviour::{Random, Subject, Taste, check};
use tollgate_core::{
    Algorithm, Anchor, Charge, Cost, Decision, Enforcement, Key, Limit, Now, OnDenial, Span, step,
};

use super::expiry::ORIGIN;
use super::{Driven, SINGLE, on_one_line};
use crate::config::Config;
use crate::failure::Failure;
use crate::fit::{FittedLimit, GRAIN};
use crate::names::{reservation_name, unique_name};
use crate::script_reply::{General, ScriptReply, Status};
use crate::script_request::{Leasing, Plain, ScriptRequest, Step};
use crate::snapshot::{Snapshot, moment};

const STEPS: usize = 40;
/// The first bit of a lease's name, and the one that no name has.
const LEASE: u64 = 1 << 63;

/// One key that uses the short script where it can, and one that never does.
struct Pair {
    subject: Driven,
    keys: [Key; 2],
    now: Now,
    names: [u64; 3],
    /// How often the short script has decided, and how often it left it to the general one.
    answered: [u64; 2],
}

/// The result of a part: the status, for how many requests it is reserved, and core's decision
/// on one more unit; and what a confirmation has charged, if not all.
type Said = (Status, Option<(u32, Decision)>, Option<Bytes>);

// === impl Pair ===

impl Pair {
    fn new() -> Pair {
        let mut subject = Driven::new(&Config::single(SINGLE.address()));
        let keys = ["short", "general"].map(|name| subject.key(name));
        Pair {
            subject,
            keys,
            now: Taste::MICROSECONDS.start,
            names: [1_000, 20_000, 3_000_000].map(reservation_name),
            answered: [0; 2],
        }
    }

    fn ask(&self, request: &ScriptRequest) -> Option<General> {
        let micros = self.now.monotonic.as_nanos() / 1_000;
        self.subject.store.set_now(micros);
        let asked = self.subject.store.ask(|| request.clone(), Instant::now());
        match self.subject.runtime.block_on(asked) {
            Ok(ScriptReply::General(reply)) => Some(reply),
            Ok(other) => panic!("{other:?}"),
            Err(asked) if matches!(asked.failure, Failure::Changed) => None,
            Err(asked) => panic!("{}", asked.into_error(Span::SECOND)),
        }
    }

    /// Runs a step of one line on both keys.
    fn step(&mut self, step: Step, charge: Charge<'_>, times: u32) {
        let fitted = FittedLimit::new(charge.limit).expect("the limit is whole");
        let said = [0, 1].map(|place| {
            let key = self.keys[place];
            let (short, general) = on_one_line(Charge { key, ..charge }, times, |line| {
                let short = ScriptRequest::reservation(step, &[line]).filter(|_| place == 0);
                (short, ScriptRequest::of_step(step, &[line]))
            });
            let reply = short.and_then(|short| {
                let reply = self.ask(&short);
                self.answered[usize::from(reply.is_none())] += 1;
                reply
            });
            let reply = reply.or_else(|| self.ask(&general));
            summarize(&reply.expect("the general script knows"), &fitted)
        });
        assert_eq!(said[0], said[1], "{step:?} {times} x {charge:?}");
    }

    /// Charges units of both keys: immediately with the short script, and by reserving and
    /// confirming with the general one.
    fn charge_at_once(&mut self, charge: Charge<'_>, times: u32) {
        let said = [0, 1].map(|place| {
            let key = self.keys[place];
            let charge = Charge { key, ..charge };
            let short = on_one_line(charge, times, |line| ScriptRequest::charge_at_once(&line));
            let reply = short.filter(|_| place == 0).and_then(|short| {
                let reply = self.ask(&short);
                self.answered[usize::from(reply.is_none())] += 1;
                reply
            });
            let fitted = FittedLimit::new(charge.limit).expect("the limit is whole");
            match reply {
                Some(reply) => summarize(&reply, &fitted),
                None => self.reserve_and_confirm(charge, times, &fitted),
            }
        });
        assert_eq!(said[0], said[1], "{times} x {charge:?}");
    }

    /// Reserves units and confirms the reserved ones, with the general script.
    fn reserve_and_confirm(&self, charge: Charge<'_>, times: u32, fitted: &FittedLimit) -> Said {
        let (lasts, name) = (20_000, reservation_name(20_000));
        let ask = |step, times| {
            let request = on_one_line(charge, times, |line| ScriptRequest::of_step(step, &[line]));
            let reply = self.ask(&request);
            reply.expect("the general script knows")
        };
        let said = summarize(&ask(Step::Reserve { name, lasts }, times), fitted);
        let count = said.1.as_ref().map_or(0, |(count, _)| *count);
        let confirmed = ask(Step::Confirm { name }, count);
        assert_eq!(confirmed.status, Status::Allowed);
        said
    }

    /// Leases units of both keys, under the same name.
    fn lease(&self, charge: Charge<'_>, name: u64) {
        let leasing = small_lease(name);
        for key in self.keys {
            let charge = Charge { key, ..charge };
            let fitted = FittedLimit::new(charge.limit).expect("the limit is whole");
            let request = ScriptRequest::general_with_lease(&charge, &fitted, leasing);
            let _granted = self.ask(&request);
        }
    }

    /// The same decision on both keys.
    fn decide(&self, charge: Charge<'_>) {
        let fitted = FittedLimit::new(charge.limit).expect("the limit is whole");
        let status = self.keys.map(|key| {
            let charge = Charge { key, ..charge };
            let reply = self.ask(&Plain::general_request(&charge, &fitted));
            reply.expect("the general script knows").status
        });
        assert_eq!(status[0], status[1], "{charge:?}");
    }

    /// Neither key may expire while the other one matters: expired holds may still be stored in one
    /// of them only.
    fn expires_in_time(&self) {
        assert_expires_in_time(&self.subject, self.now, self.keys);
    }
}

/// Asserts that the first key, of the short script, does not expire while the second one matters,
/// which only the general one has changed.
pub(super) fn assert_expires_in_time(subject: &Driven, now: Now, keys: [Key; 2]) {
    let [short, general] = keys.map(|key| expiry_of(subject, key));
    let now = ORIGIN + now.utc.as_nanos() / 1_000_000;
    let is_over = u64::try_from(general).is_ok_and(|general| general <= now);
    let in_time = short >= general || is_over;
    assert!(
        in_time,
        "it expires at {short}, not at {general}; it is {now}"
    );
}

/// The terms of a lease of up to two units for a second.
pub(super) const fn small_lease(name: u64) -> Leasing {
    Leasing {
        name: name | LEASE,
        lasts: 1_000_000,
        spent: 0,
        owed: 0,
        want: 2,
        least: 1,
        next: name | LEASE,
    }
}

/// The time after a random pause, or before it if the clock is set back, in this percentage of
/// cases.
pub(super) fn time_after(random: &mut Random, now: Now, set_back: u64) -> Now {
    let most = random.pick(&[0, 1, 1, 100, 5_000, 100_000, 4_000_000]);
    let passed = GRAIN.times(random.between(0, most));
    match random.chance(set_back) {
        true => Now::at(now.utc - passed),
        false => Now::at(now.utc + passed),
    }
}

/// When a key expires, in milliseconds since 1970; negative if it does not exist.
fn expiry_of(subject: &Driven, key: Key) -> i64 {
    let at = SINGLE.ask(&["PEXPIRETIME", &subject.store.name_of(key)]);
    at.trim().parse().expect("a moment")
}

fn summarize(reply: &General, fitted: &FittedLimit) -> Said {
    let reserved = reply.states.first().map(|state| {
        let count = u32::from_be_bytes(state[..4].try_into().expect("four bytes"));
        let snapshot = Snapshot::read(&state.slice(4..), fitted);
        let mut snapshot = snapshot.expect("it makes sense");
        let now = moment(reply.now);
        let decision = step(&mut snapshot, &fitted.limit, now, Cost::ONE, OnDenial::Keep);
        (count, decision)
    });
    (reply.status, reserved, reply.charged.clone())
}

/// A limit of any kind, rarely of one that only the general script knows.
pub(super) fn limit(random: &mut Random) -> Limit {
    let count = random.pick(&[1, 2, 5, 20]);
    let window = Span::from_millis(random.pick(&[20, 1_000, 60_000]));
    let limit = match random.between(0, 8) {
        0..=2 => Limit::fixed_window(count, window),
        3..=5 => Limit::token_bucket(count, window),
        6 => Limit::leaky_bucket(count, window),
        7 => Limit::new(Algorithm::FixedWindow(Anchor::FirstRequest), count, window),
        _ => Limit::sliding_log(count, window),
    };
    limit.expect("a valid limit")
}

#[test]
fn the_short_script_does_what_the_general_one_does() {
    let answered = [0, 1].map(|_| AtomicU64::new(0));
    check(
        "the_short_script_does_what_the_general_one_does",
        40,
        |random| {
            let mut pair = Pair::new();
            let mut rule = limit(random);
            for _ in 0..STEPS {
                pair.now = time_after(random, pair.now, 3);
                if random.chance(4) {
                    rule = limit(random);
                }
                act(random, &mut pair, &rule);
                pair.expires_in_time();
            }
            for (all, some) in answered.iter().zip(pair.answered) {
                all.fetch_add(some, Ordering::Relaxed);
            }
        },
    );
    let [short, general] = answered.map(AtomicU64::into_inner);
    assert!(short > 500 && general > 50, "{short} and {general}");
}

#[test]
fn a_larger_bucket_owes_no_more_than_the_former_one_after_the_clock_is_set_back() {
    let of = |count| Limit::token_bucket(count, Span::from_secs(count.into()));
    let (small, large) = (of(10).expect("valid"), of(100).expect("valid"));
    let lasts = 20_000;
    for is_at_once in [false, true] {
        let mut pair = Pair::new();
        let take = |limit, units| Charge::new(pair.keys[0], limit, Cost::Take(units));
        let (first, next) = (take(&small, 10), take(&large, 85));
        pair.charge_at_once(first, 1);
        pair.now = Now::at(pair.now.utc - Span::from_secs(5));
        match is_at_once {
            false => pair.step(
                Step::Reserve {
                    name: pair.names[1],
                    lasts,
                },
                next,
                1,
            ),
            true => pair.charge_at_once(next, 1),
        }
    }
}

/// Something happens to both keys.
fn act(random: &mut Random, pair: &mut Pair, limit: &Limit) {
    let cost = random.pick(&[
        Cost::ONE,
        Cost::ONE,
        Cost::Take(2),
        Cost::Take(7),
        Cost::Take(0),
        Cost::Peek(2),
    ]);
    let charge = Charge {
        enforcement: random.pick(&[
            Enforcement::Enforce,
            Enforcement::Enforce,
            Enforcement::Shadow,
            Enforcement::Quota,
        ]),
        ..Charge::new(pair.keys[0], limit, cost)
    };
    let which = random.pick(&[0, 1, 2]);
    let name = pair.names[which];
    let lasts = [1_000, 20_000, 3_000_000][which];
    let times = random.pick(&[1, 1, 2, 3]);
    match random.between(0, 11) {
        10..=11 => pair.charge_at_once(charge, times),
        0..=3 => pair.step(Step::Reserve { name, lasts }, charge, times),
        4..=6 => pair.step(Step::Confirm { name }, charge, times),
        7 => pair.step(Step::Confirm { name }, charge, 0),
        8 if random.chance(20) => pair.lease(charge, unique_name()),
        _ => {
            let refund = Cost::Refund(random.between(0, 2));
            let cost = if random.chance(20) { refund } else { cost };
            pair.decide(Charge { cost, ..charge });
        }
    }
}
