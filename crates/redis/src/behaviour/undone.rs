//! What a request over several slots was charged in one of them is refunded when another one fails:
//! its own units, as far as they still count, and no others.

use tollgate_behaviour::{Subject, Taste, algorithms};
use tollgate_core::{Charge, Cost, Key, Limit, Moment, Now, Span};

use super::{Driven, SINGLE};
use crate::config::Config;
use crate::names::reservation_name;
use crate::script_reply::Status;
use crate::script_request::Step;

const COUNT: u32 = 10;
/// What the request costs that is undone.
const UNITS: u64 = 5;
const WINDOW: Span = Span::MINUTE;

fn limits() -> impl Iterator<Item = Limit> {
    let limit = |algorithm| Limit::new(algorithm, COUNT, WINDOW).expect("a limit");
    algorithms().into_iter().map(limit)
}

/// A time after the start of a window.
fn at(passed: Span) -> Now {
    let start = Taste::MICROSECONDS.start.utc.as_nanos();
    Now::at(Moment::from_nanos(start - start % WINDOW.as_nanos()) + passed)
}

/// A limit of which a request over several slots has taken [`UNITS`].
struct Charged {
    redis: Driven,
    limit: Limit,
    key: Key,
    at: Now,
}

impl Charged {
    fn new(limit: Limit, at: Now) -> Charged {
        let mut redis = Driven::new(&Config::single(SINGLE.address()));
        let key = redis.key("undone");
        let charge = Charge::new(key, &limit, Cost::Take(UNITS));
        let lasts = 1_000_000;
        let name = reservation_name(lasts);
        let reserved = redis.step(at, Step::Reserve { name, lasts }, charge);
        let confirmed = redis.step(at, Step::Confirm { name }, charge);
        assert_eq!([reserved, confirmed], [Status::Allowed; 2], "{limit}");
        Charged {
            redis,
            limit,
            key,
            at,
        }
    }

    fn take(&mut self, now: Now, units: u64) -> bool {
        let charge = Charge::new(self.key, &self.limit, Cost::Take(units));
        self.redis.decide(now, &[charge]).is_allowed()
    }

    fn undo(&mut self, now: Now) {
        let charge = Charge::new(self.key, &self.limit, Cost::Refund(UNITS));
        let charged_at = self.at.utc.as_nanos() / 1_000;
        let status = self.redis.step(now, Step::Undo { charged_at }, charge);
        assert_eq!(status, Status::Allowed, "{}", self.limit);
    }
}

#[test]
fn units_that_still_count_are_refunded() {
    for limit in limits() {
        let now = at(Span::ZERO);
        let mut charged = Charged::new(limit, now);
        charged.undo(now);
        assert!(charged.take(now, COUNT.into()), "{limit}");
    }
}

/// In the next window, or once the bucket has refilled, others have used the whole limit.
#[test]
fn units_that_no_longer_count_are_not_taken_from_others() {
    for limit in limits() {
        let mut charged = Charged::new(limit, at(WINDOW.minus(Span::from_millis(1))));
        // A sliding window and a log have all of their units again after two windows.
        let later = at(WINDOW + WINDOW + WINDOW);
        assert!(charged.take(later, COUNT.into()), "{limit}");
        charged.undo(later);
        assert!(!charged.take(later, 1), "{limit}");
    }
}

/// The units of another request count for longer: they are not the ones to be refunded.
#[test]
fn a_log_refunds_the_units_of_the_request() {
    let limit = Limit::sliding_log(COUNT, WINDOW).expect("a limit");
    let mut charged = Charged::new(limit, at(Span::ZERO));
    let later = at(WINDOW.minus(Span::SECOND));
    assert!(charged.take(later, u64::from(COUNT) - UNITS));
    charged.undo(later);
    let next = at(WINDOW);
    assert!(charged.take(next, UNITS));
    assert!(!charged.take(next, 1));
}

/// A bucket that has refilled in part refunds what cannot have refilled.
#[test]
fn a_bucket_refunds_what_has_not_refilled() {
    for limit in [
        Limit::token_bucket(COUNT, WINDOW),
        Limit::leaky_bucket(COUNT, WINDOW),
    ] {
        let limit = limit.expect("a limit");
        let mut charged = Charged::new(limit, at(Span::ZERO));
        // A unit every six seconds: two are back, and three of the request are left.
        let later = at(Span::from_secs(12));
        assert!(charged.take(later, 6), "{limit}");
        charged.undo(later);
        assert!(charged.take(later, 4), "{limit}");
        assert!(!charged.take(later, 1), "{limit}");
    }
}
