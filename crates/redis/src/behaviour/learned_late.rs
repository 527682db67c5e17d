//! What other instances return or use is learned by a local count that has nothing to report: by
//! the first decision a second after Redis's last reply.

use tollgate_behaviour::{Subject, Taste, algorithms};
use tollgate_core::{Charge, Cost, InspectStore, Key, Limit, Mode, Now, Sharing, Span};

use super::{Driven, SINGLE};
use crate::config::{Config, SYNC_INTERVAL_MAX};
use crate::denials::DENIAL_CACHE_MAX;
use crate::fit::GRAIN;

const COUNT: u32 = 20;

/// How another instance returns units.
#[derive(Clone, Copy, Debug)]
enum Returned {
    Reset,
    Refund,
}

/// Two instances that report local counts when the test says so.
struct Case {
    store: Driven,
    other: Driven,
    limit: Limit,
    keys: [Key; 2],
}

// === impl Case ===

impl Case {
    fn new(limit: Limit) -> Case {
        let config = Config {
            sync_interval: SYNC_INTERVAL_MAX,
            ..Config::single(SINGLE.address())
        };
        let [mut store, other] = [(); 2].map(|()| Driven::new(&config));
        Case {
            keys: ["one", "other"].map(|name| store.key(name)),
            store,
            other,
            limit,
        }
    }

    /// A request with a cost for each of the first keys: whether it is allowed, and what remains of
    /// its last limit.
    fn ask(&mut self, now: Now, costs: &[Cost]) -> (bool, u32) {
        let (limit, sharing) = (self.limit, Sharing::in_mode(Mode::WriteBack));
        let pairs = self.keys.iter().zip(costs);
        let charges = pairs.map(|(key, cost)| Charge::new(*key, &limit, *cost).shared(sharing));
        let charges: Vec<Charge<'_>> = charges.collect();
        let verdict = self.store.decide(now, &charges);
        let last = verdict.decisions.last().expect("at least one charge");
        (verdict.is_allowed(), last.remaining())
    }

    fn is_allowed(&mut self, now: Now, costs: &[Cost]) -> bool {
        self.ask(now, costs).0
    }

    fn charge_elsewhere(&mut self, now: Now, key: Key, cost: Cost) {
        let charge = Charge::new(key, &self.limit, cost);
        assert!(self.other.decide(now, &[charge]).is_allowed(), "{charge:?}");
    }

    fn return_elsewhere(&mut self, now: Now, key: Key, returned: Returned) {
        match returned {
            Returned::Refund => self.charge_elsewhere(now, key, Cost::Refund(COUNT.into())),
            Returned::Reset => {
                let reset = self.other.runtime.block_on(self.other.store.reset(key));
                assert!(reset.expect("Redis answers"), "{:?}", self.limit);
            }
        }
    }
}

fn limits() -> impl Iterator<Item = Limit> {
    let limit = |algorithm| Limit::new(algorithm, COUNT, Span::DAY).expect("a day is a window");
    let limits = algorithms().into_iter().map(limit);
    limits.filter(|limit| Mode::WriteBack.suits(limit))
}

/// The last moment at which a count of `now` may be used for a denial, and the next.
fn around_the_end(now: Now) -> [Now; 2] {
    let end = now.utc + DENIAL_CACHE_MAX;
    [Now::at(end - GRAIN), Now::at(end)]
}

fn a_denial_ends(keys: usize) {
    let one = &[Cost::ONE; 2][..keys];
    for limit in limits() {
        for returned in [Returned::Reset, Returned::Refund] {
            let (mut case, now) = (Case::new(limit), Taste::MICROSECONDS.start);
            let context = format!("{keys} keys, {returned:?}: {limit:?}");
            while case.is_allowed(now, one) {}
            case.store.report();
            assert!(!case.is_allowed(now, one), "{context}");
            for key in case.keys.into_iter().take(keys) {
                case.return_elsewhere(now, key, returned);
            }
            let [last, next] = around_the_end(now);
            assert!(!case.is_allowed(last, one), "{context}");
            assert!(case.is_allowed(next, one), "{context}");
        }
    }
}

#[test]
fn a_denied_key_has_what_is_returned_elsewhere() {
    a_denial_ends(1);
}

#[test]
fn a_key_of_a_denied_request_has_what_is_returned_elsewhere() {
    a_denial_ends(2);
}

fn a_peek_shows(costs: &[Cost]) {
    for limit in limits() {
        let (mut case, now) = (Case::new(limit), Taste::MICROSECONDS.start);
        assert_eq!(case.ask(now, costs), (true, COUNT), "{limit:?}");
        case.charge_elsewhere(now, case.keys[costs.len() - 1], Cost::Take(7));
        let [last, next] = around_the_end(now);
        assert_eq!(case.ask(last, costs), (true, COUNT), "{limit:?}");
        assert_eq!(case.ask(next, costs), (true, COUNT - 7), "{limit:?}");
    }
}

#[test]
fn a_peek_shows_what_is_used_elsewhere() {
    a_peek_shows(&[Cost::Peek(1)]);
}

#[test]
fn a_peek_beside_a_charge_shows_what_is_used_elsewhere() {
    a_peek_shows(&[Cost::ONE, Cost::Peek(1)]);
}
