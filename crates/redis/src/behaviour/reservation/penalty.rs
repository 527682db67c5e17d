//! Denied requests that are charged to a key with units reserved by others.

use tokio::time::Instant;
use tollgate_behaviour::{Random, Subject, Taste, algorithms, check, with_grain};
use tollgate_core::{Charge, Cost, Key, Ledger, Limit, Now, OnDenial, Span, Verdict};

use super::super::{Driven, SINGLE, on_one_line};
use crate::config::Config;
use crate::failure::Failure;
use crate::fit::GRAIN;
use crate::names::reservation_name;
use crate::script_reply::{ScriptReply, Status};
use crate::script_request::{ScriptRequest, Step};

/// The lifetime of the reservation: longer than the test's clock runs.
const LASTS: u64 = 1_000_000;

/// One key, in Redis and as expected.
struct Case {
    subject: Driven,
    expected: Ledger,
    now: Now,
    key: Key,
    /// A key whose limit allows nothing.
    closed: Key,
}

// === impl Case ===

impl Case {
    fn new() -> Case {
        let mut subject = Driven::new(&Config::single(SINGLE.address()));
        let [key, closed] = ["only", "closed"].map(|name| subject.key(name));
        Case {
            subject,
            expected: Ledger::default(),
            now: Taste::MICROSECONDS.start,
            key,
            closed,
        }
    }

    fn decide(&mut self, charges: &[Charge<'_>]) -> Verdict {
        self.subject.decide(self.now, charges)
    }

    fn expect(&mut self, charges: &[Charge<'_>]) -> Verdict {
        let verdict = self.expected.decide(self.now, charges);
        with_grain(verdict.expect("a few charges"), GRAIN)
    }

    /// One step for this many requests, with the short script where it can, or never.
    fn step(&self, step: Step, charge: Charge<'_>, times: u32, is_short: bool) -> Status {
        let micros = self.now.monotonic.as_nanos() / 1_000;
        self.subject.store.set_now(micros);
        let ask = |request: ScriptRequest| {
            let asked = self.subject.store.ask(|| request.clone(), Instant::now());
            match self.subject.runtime.block_on(asked) {
                Ok(ScriptReply::General(reply)) => Some(reply.status),
                Ok(other) => panic!("{other:?}"),
                Err(asked) if matches!(asked.failure, Failure::Changed) => None,
                Err(asked) => panic!("{}", asked.into_error(Span::SECOND)),
            }
        };
        let (short, general) = on_one_line(charge, times, |line| {
            let short = ScriptRequest::reservation(step, &[line]).filter(|_| is_short);
            (short, ScriptRequest::of_step(step, &[line]))
        });
        let status = short.and_then(&ask).or_else(|| ask(general));
        status.expect("the general script knows")
    }
}

fn limit(random: &mut Random) -> Limit {
    let window = GRAIN.times(600);
    let limit = Limit::new(random.pick(&algorithms()), 10, window).expect("valid for all");
    let share = random.pick(&[0, 0, 30]);
    limit.with_priority_share(share).expect("at most 100")
}

/// Whatever is confirmed of a reservation afterwards, all of it or nothing: as if it had come
/// before the denied requests.
#[test]
fn a_denial_is_charged_as_if_a_reservation_had_come_before() {
    check("as_if_a_reservation_had_come_before", 400, |random| {
        let mut case = Case::new();
        let (limit, nothing) = (limit(random), Limit::fixed_window(0, Span::HOUR));
        let nothing = nothing.expect("an hour is a window");
        let whole = limit.for_priority();
        let of_reservation = random.pick(&[limit, whole]);
        let (key, closed) = (case.key, Charge::new(case.closed, &nothing, Cost::ONE));
        let before = [Charge::new(key, &limit, Cost::Take(random.between(0, 7)))];
        assert_eq!(case.decide(&before), case.expect(&before));
        case.now = Now::at(case.now.utc + GRAIN.times(random.between(0, 130)));

        let units = random.small(1, 2);
        let charge = Charge::new(key, &of_reservation, Cost::Take(units.into()));
        let peek = [Charge::new(key, &of_reservation, Cost::Peek(1))];
        let remaining = case.expect(&peek).decisions[0].remaining();
        let times = random.small(0, remaining / units);
        let name = reservation_name(LASTS);
        let (reserve, is_short) = (Step::Reserve { name, lasts: LASTS }, random.chance(50));
        if times > 0 {
            let status = case.step(reserve, charge, times, is_short);
            assert_eq!(status, Status::Allowed, "{charge:?}");
        }
        let penalties = [(); 2].map(|()| Charge {
            on_denial: OnDenial::Charge,
            ..Charge::new(key, &limit, Cost::Take(random.between(0, 12)))
        });
        let answers = penalties.map(|penalty| case.decide(&[penalty, closed]));
        let confirmed = match limit == of_reservation {
            true => random.small(0, times),
            false => random.pick(&[0, times]),
        };
        if times > 0 {
            let status = case.step(Step::Confirm { name }, charge, confirmed, is_short);
            assert_eq!(status, Status::Allowed, "{charge:?}");
        }

        for _ in 0..confirmed {
            assert!(case.expect(&[charge]).is_allowed(), "{charge:?}");
        }
        let expected = penalties.map(|penalty| case.expect(&[penalty, closed]));
        let context = || format!("{before:?} {times} {confirmed} x {charge:?} {penalties:#?}");
        let peek = [Charge::new(key, &whole, Cost::Peek(1))];
        let left = [case.decide(&peek), case.expect(&peek)];
        let [got, want] = [0, 1].map(|place| left[place].decisions[0]);
        assert_eq!(got.remaining(), want.remaining(), "{}", context());
        let is_within = !limit.is_bucket() || got.reset() <= limit.refill();
        assert!(is_within, "{got:?}: {}", context());
        if confirmed == 0 {
            assert_eq!(answers, expected, "{}", context());
            assert_eq!(left[0], left[1], "{}", context());
        }
    });
}
