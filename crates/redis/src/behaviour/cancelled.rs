//! Callers that go away, after each call that their decision sends: every unit is accounted for.
//!
//! The scripts' time stands still, so nothing refills or expires.

use std::future::poll_fn;
use std::task::Poll;

use tollgate_behaviour::{Subject, Taste, algorithms};
use tollgate_core::{Charge, Cost, Key, Limit, Mode, Sharing, Span};

use super::{Driven, SINGLE, servers};
use crate::config::Config;
use crate::script_reply::Status;
use crate::script_request::Step;

/// More calls than any decision here sends.
const CALLS: u64 = 12;
/// Inspections until nothing may be reserved any more: each is a round trip.
const LOOKS: usize = 300;
const UNITS: u64 = 3;

fn limits() -> Vec<Limit> {
    let limit = |algorithm| Limit::new(algorithm, 100, Span::HOUR).expect("an hour is a window");
    algorithms().into_iter().map(limit).collect()
}

impl Driven {
    /// Decides, and cancels as soon as this many calls have been sent; returns whether it got a
    /// verdict.
    pub(super) fn decide_and_go(&self, charges: &[Charge<'_>], calls: u64) -> bool {
        let before = self.store.counts().calls;
        self.runtime.block_on(async {
            let mut asking = Box::pin(self.store.decide(charges));
            loop {
                let once = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context)));
                if once.await.is_ready() {
                    return true;
                }
                if self.store.counts().calls - before >= calls {
                    return false;
                }
                tokio::task::yield_now().await;
            }
        })
    }

    /// The units consumed of a key, and whether some are reserved, or were until now.
    fn used(&mut self, charge: &Charge<'_>) -> (u32, bool) {
        let peek = |units: u32| Charge {
            cost: Cost::Peek(units.into()),
            ..*charge
        };
        let now = Taste::MICROSECONDS.start;
        let remaining = self.decide(now, &[peek(1)]).decisions[0].remaining();
        // All that remains fits, unless units are reserved, or were charged since.
        let status = self.step(now, Step::Decide, peek(remaining));
        let used = charge.limit.capacity() - remaining;
        (used, status != Status::Allowed)
    }

    /// The units consumed of each key, once none are reserved.
    fn consumed_units(&mut self, charges: &[Charge<'_>]) -> Vec<u32> {
        for _ in 0..LOOKS {
            let used: Vec<(u32, bool)> = charges.iter().map(|charge| self.used(charge)).collect();
            if used.iter().all(|(_, is_reserved)| !is_reserved) {
                return used.into_iter().map(|(used, _)| used).collect();
            }
        }
        panic!("units stay reserved: {charges:#?}");
    }
}

/// Cancels after each number of calls, with different keys each time.
fn goes_away(subject: fn() -> Driven, keys: usize) {
    let mut was_answered = false;
    for limit in limits() {
        for calls in 0..CALLS {
            let mut subject = subject();
            let keys: Vec<Key> = (0..keys)
                .map(|key| subject.key(&format!("{key}")))
                .collect();
            let charges: Vec<Charge<'_>> = keys
                .iter()
                .map(|key| Charge::new(*key, &limit, Cost::Take(UNITS)))
                .collect();
            let now = Taste::MICROSECONDS.start;
            // The connection is open, and the scripts are loaded.
            let peeks = charges.iter().map(|charge| Charge {
                cost: Cost::Peek(1),
                ..*charge
            });
            let _there = subject.decide(now, &peeks.collect::<Vec<_>>());
            let is_answered = subject.decide_and_go(&charges, calls);
            was_answered |= is_answered;
            let used = subject.consumed_units(&charges);
            let all = u32::try_from(UNITS).expect("three");
            let is_whole = used.iter().all(|used| *used == all);
            let is_none = used.iter().all(|used| *used == 0);
            assert!(
                is_whole || is_none && !is_answered,
                "{used:?} after {calls} calls"
            );
            // Nothing blocks the next request.
            assert!(subject.decide(now, &charges).is_allowed());
        }
    }
    assert!(was_answered, "more calls than {CALLS}");
}

#[test]
fn from_a_single_key() {
    goes_away(|| Driven::new(&Config::single(SINGLE.address())), 1);
}

#[test]
fn from_several_keys() {
    goes_away(|| Driven::new(&Config::single(SINGLE.address())), 3);
}

#[test]
fn from_several_slots() {
    goes_away(Driven::apart, 3);
}

#[test]
fn from_several_slots_of_which_one_is_charged_at_once() {
    goes_away(Driven::apart_at_once, 3);
}

#[test]
fn from_one_server_over_tls() {
    for keys in [1, 3] {
        goes_away(|| Driven::new(&servers::tls()), keys);
    }
}

#[test]
fn from_several_slots_over_tls() {
    goes_away(|| Driven::apart_in(&servers::tls_cluster()), 3);
}

/// A request whose caller has gone may be charged later. Until then, the local count of its key is
/// not learned: it would lack these units, and would allow them again.
#[test]
fn from_a_local_count_and_another_slot() {
    let [limit, large] = [9, 90].map(|count| Limit::fixed_window(count, Span::HOUR));
    let [limit, large] = [limit, large].map(|limit| limit.expect("an hour is a window"));
    for calls in 0..CALLS {
        let mut subject = Driven::apart_at_once();
        let keys = ["counted", "strict"].map(|name| subject.key(name));
        let [counted, strict] = keys.map(|key| Charge::new(key, &limit, Cost::Take(UNITS)));
        let both = [counted.shared(Sharing::in_mode(Mode::WriteBack)), strict];
        let now = Taste::MICROSECONDS.start;
        // The connections are open, and the scripts are loaded.
        let peeks = [counted, strict].map(|charge| Charge {
            cost: Cost::Peek(1),
            ..charge
        });
        let _there = subject.decide(now, &peeks);
        let _is_answered = subject.decide_and_go(&both, calls);
        let one = Charge {
            cost: Cost::ONE,
            ..both[0]
        };
        let ones = (0..limit.capacity()).map(|_| subject.decide(now, &[one]).is_allowed());
        let allowed = u32::try_from(ones.filter(|is_allowed| *is_allowed).count()).expect("few");
        subject.report();
        // Under a larger limit, units beyond this one are seen.
        let stored = subject.consumed_units(&[Charge::new(counted.key, &large, Cost::ONE)])[0];
        assert!(
            stored <= limit.capacity(),
            "{stored} units after {calls} calls, of which {allowed} were allowed alone"
        );
    }
}

/// A request that is blocked by another one's reservations is cancelled too.
#[test]
fn from_several_slots_while_they_are_blocked() {
    goes_away_blocked(Driven::apart, 1);
}

#[test]
fn from_several_slots_over_tls_while_they_are_blocked() {
    goes_away_blocked(|| Driven::apart_in(&servers::tls_cluster()), 1);
}

/// The other request has reserved units of the key that would be charged immediately.
#[test]
fn from_several_slots_while_the_one_that_is_charged_at_once_is_blocked() {
    goes_away_blocked(Driven::apart_at_once, 2);
}

/// Cancels after each number of calls, while units of the key at this index are reserved.
fn goes_away_blocked(subject: fn() -> Driven, place: usize) {
    let limit = Limit::fixed_window(4, Span::HOUR).expect("an hour is a window");
    for calls in 0..CALLS {
        let mut subject = subject();
        let keys = ["one", "two", "three"].map(|name| subject.key(name));
        let charges = keys.map(|key| Charge::new(key, &limit, Cost::Take(UNITS)));
        let now = Taste::MICROSECONDS.start;
        let _there = subject.decide(
            now,
            &charges.map(|charge| Charge {
                cost: Cost::Peek(1),
                ..charge
            }),
        );
        let name = crate::names::reservation_name(1_000_000);
        let reserve = Step::Reserve {
            name,
            lasts: 1_000_000,
        };
        let _holds = subject.step(now, reserve, charges[place]);
        assert!(!subject.decide_and_go(&charges, calls));
        let _free = subject.release(now, name, charges[place]);
        assert_eq!(subject.consumed_units(&charges), [0; 3]);
        assert!(subject.decide(now, &charges).is_allowed());
    }
}

/// In the end only decided and cancelled requests are charged, and all decided ones are.
fn is_accounted_for(mode: Mode, config: fn() -> Config) {
    let limits = limits().into_iter().filter(|limit| mode.suits(limit));
    for limit in limits {
        for calls in 0..4 {
            let mut subject = Driven::new(&config());
            let strict = Charge::new(subject.key("only"), &limit, Cost::ONE);
            let charge = strict.shared(Sharing::in_mode(mode));
            let now = Taste::MICROSECONDS.start;
            let (mut reply, mut gone) = (0, 0);
            for turn in 0..40 {
                if turn % 4 == 3 && !subject.decide_and_go(&[charge], calls) {
                    gone += 1;
                } else if turn % 4 == 3 {
                    reply += 1;
                } else {
                    reply += u32::from(subject.decide(now, &[charge]).is_allowed());
                }
            }
            subject.report();
            subject.runtime.block_on(subject.store.close());
            let used = subject.consumed_units(&[strict])[0];
            assert!(
                (reply..=reply + gone).contains(&used),
                "{used} of {reply} and {gone} after {calls} calls: {limit:?}"
            );
        }
    }
}

#[test]
fn from_leased_units() {
    is_accounted_for(Mode::Leased, || Config::single(SINGLE.address()));
}

#[test]
fn from_an_own_count() {
    is_accounted_for(Mode::WriteBack, || Config::single(SINGLE.address()));
}

#[test]
fn from_units_without_redis_over_tls() {
    for mode in [Mode::Leased, Mode::WriteBack] {
        is_accounted_for(mode, servers::tls);
    }
}
