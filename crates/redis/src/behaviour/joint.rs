//! `joint.lua` does what the general script does, whatever else happens to the keys meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use tollgate_behaviour::{Random, Subject, Taste, check};
use tollgate_core::{
    Bill, Charge, Cost, Decision, Enforcement, Key, Limit, Mode, Now, OnDenial, Sharing, Span, step,
};

use super::reservation::{assert_expires_in_time, limit, small_lease, time_after};
use super::{Driven, SINGLE};
use crate::config::Config;
use crate::fit::FittedLimit;
use crate::join::join_all;
use crate::names::{reservation_name, unique_name};
use crate::router::NodeFailure;
use crate::script_reply::{ScriptReply, Status};
use crate::script_request::{ScriptRequest, Step};
use crate::snapshot::{Snapshot, moment};

const STEPS: usize = 40;
/// The limits of a request, at most; each has its own key.
const LINES: usize = 3;
/// The lifetimes of reservations, in microseconds.
const LASTS: [u64; 2] = [20_000, 3_000_000];

/// The same keys twice: decided by the short script where it can, and by the general one.
struct Twins {
    subject: Driven,
    keys: [[Key; LINES]; 2],
    now: Now,
    /// The names of reservations, one for each lifetime.
    names: [u64; 2],
    /// How often the short script has decided, and how often it left it to the general one.
    answered: [u64; 2],
}

/// What one request met: its status, and for each line core's decision on one more unit.
type Said = (Status, Vec<Decision>);

/// One limit of a request, without its key.
#[derive(Clone, Copy, Debug)]
struct Part {
    limit: Limit,
    cost: Cost,
    enforcement: Enforcement,
    on_denial: OnDenial,
}

// === impl Twins ===

impl Twins {
    fn new() -> Twins {
        let mut subject = Driven::new(&Config::single(SINGLE.address()));
        let keys = ["short", "general"]
            .map(|set| std::array::from_fn(|line| subject.key(&format!("{set} {line}"))));
        Twins {
            subject,
            keys,
            now: Taste::MICROSECONDS.start,
            names: LASTS.map(reservation_name),
            answered: [0; 2],
        }
    }

    /// Sends requests that share a call; `None` for one that was left to the general script.
    fn ask(&self, requests: &[ScriptRequest], fitted: &[Vec<FittedLimit>]) -> Vec<Option<Said>> {
        let micros = self.now.monotonic.as_nanos() / 1_000;
        self.subject.store.set_now(micros);
        let since = Instant::now();
        let ask = |request: &ScriptRequest| {
            let request = request.clone();
            async move { self.subject.store.ask(|| request.clone(), since).await }
        };
        let replies = join_all(requests.iter().map(ask).collect());
        let replies = self.subject.runtime.block_on(replies);
        let said = replies
            .into_iter()
            .zip(fitted)
            .map(|(reply, fitted)| said(reply, fitted));
        said.collect()
    }

    /// Decides requests with these lines on both sets of keys; each set in one call, unless some
    /// are left to the general script.
    fn decide(&mut self, requests: &[Vec<Part>]) {
        let said = [0, 1].map(|place| {
            let keys = self.keys[place];
            let of = |parts: &Vec<Part>| request_of(parts, &keys);
            let (all, fitted): (Vec<_>, Vec<_>) = requests.iter().map(of).unzip();
            let general = || {
                all.iter()
                    .map(|(_, general)| general.clone())
                    .collect::<Vec<_>>()
            };
            let short = all.iter().map(|(short, _)| short.clone());
            let Some(short) = short.collect::<Option<Vec<_>>>().filter(|_| place == 0) else {
                return self.ask(&general(), &fitted);
            };
            let replies = self.ask(&short, &fitted);
            let is_left = replies.iter().any(Option::is_none);
            self.answered[usize::from(is_left)] += 1;
            assert!(
                !is_left || requests.len() == 1,
                "what shares a call is simple"
            );
            if is_left {
                self.ask(&general(), &fitted)
            } else {
                replies
            }
        });
        assert_eq!(said[0], said[1], "{requests:?}");
        assert!(
            said[0].iter().all(Option::is_some),
            "the general script knows"
        );
    }

    /// Runs a step on one key of both sets, with the general script.
    fn step(&self, step: Step, line: usize, part: Part) {
        let step = |keys: [Key; LINES]| self.subject.step(self.now, step, part.charge(keys[line]));
        let [short, general] = self.keys.map(step);
        assert_eq!(short, general, "{part:?}");
    }

    /// Leases units of one key of both sets, under the same name.
    fn lease(&self, line: usize, part: Part) {
        self.step(Step::Lease(small_lease(unique_name())), line, part);
    }

    /// No key may expire while its twin matters.
    fn expire_in_time(&self) {
        for (short, general) in self.keys[0].into_iter().zip(self.keys[1]) {
            assert_expires_in_time(&self.subject, self.now, [short, general]);
        }
    }
}

/// The request with these lines for the short script, and for the general one.
fn request_of(
    parts: &[Part],
    keys: &[Key; LINES],
) -> ((Option<ScriptRequest>, ScriptRequest), Vec<FittedLimit>) {
    let charges = parts.iter().zip(keys).map(|(part, key)| part.charge(*key));
    let bill = Bill::new(&charges.collect::<Vec<_>>()).expect("a few charges");
    let fit = |part: &Part| FittedLimit::new(&part.limit).expect("the limit is whole");
    let fitted: Vec<FittedLimit> = parts.iter().map(fit).collect();
    let short = ScriptRequest::joint(&bill, &fitted);
    ((short, ScriptRequest::of(&bill, &fitted)), fitted)
}

fn said(reply: Result<ScriptReply, NodeFailure>, fitted: &[FittedLimit]) -> Option<Said> {
    let reply = match reply {
        Ok(ScriptReply::General(reply)) => reply,
        Ok(other) => panic!("{other:?}"),
        Err(failed) if failed.needs_general() => return None,
        Err(failed) => panic!("{}", failed.into_error(Span::SECOND)),
    };
    let decide = |(state, fitted): (&bytes::Bytes, &FittedLimit)| {
        let mut snapshot = Snapshot::read(state, fitted).expect("it makes sense");
        let now = moment(reply.now);
        step(&mut snapshot, &fitted.limit, now, Cost::ONE, OnDenial::Keep)
    };
    let decisions = reply.states.iter().zip(fitted).map(decide);
    Some((reply.status, decisions.collect()))
}

// === impl Part ===

impl Part {
    /// The same part with no larger cost than its limit ever allows.
    fn within_its_limit(self) -> Part {
        let most = u64::from(self.limit.capacity());
        let cost = match self.cost {
            Cost::Take(units) => Cost::Take(units.min(most)),
            Cost::Peek(units) => Cost::Peek(units.min(most)),
            Cost::Refund(_) => self.cost,
        };
        Part { cost, ..self }
    }

    fn charge(&self, key: Key) -> Charge<'_> {
        Charge {
            enforcement: self.enforcement,
            on_denial: self.on_denial,
            ..Charge::new(key, &self.limit, self.cost)
        }
    }
}

/// A line that the short script can decide.
fn part(random: &mut Random, limit: Limit) -> Part {
    let costs = [1, 1, 1, 2, 7, 0].map(Cost::Take);
    let cost = random.pick(&costs);
    Part {
        limit,
        cost: if random.chance(10) {
            Cost::Peek(2)
        } else {
            cost
        },
        enforcement: random.pick(&[
            Enforcement::Enforce,
            Enforcement::Enforce,
            Enforcement::Shadow,
            Enforcement::Quota,
        ]),
        on_denial: OnDenial::Keep,
    }
}

fn simple_limit(random: &mut Random) -> Limit {
    loop {
        let limit = limit(random);
        let fitted = FittedLimit::new(&limit).expect("the limit is whole");
        if fitted.kind.is_bucket() || fitted.kind == crate::fit::Kind::FixedClock {
            return limit;
        }
    }
}

#[test]
fn it_decides_as_the_general_script_does() {
    let name = "it_decides_as_the_general_script_does";
    let answered = [0, 1].map(|_| AtomicU64::new(0));
    check(name, 40, |random| {
        let mut twins = Twins::new();
        let mut limits: [Limit; LINES] = std::array::from_fn(|_| simple_limit(random));
        for _ in 0..STEPS {
            twins.now = time_after(random, twins.now, 3);
            if random.chance(4) {
                limits[random.pick(&[0, 1, 2])] = limit(random);
            }
            act(random, &mut twins, &limits);
            if random.chance(20) {
                twins.expire_in_time();
            }
        }
        for (all, some) in answered.iter().zip(twins.answered) {
            all.fetch_add(some, Ordering::Relaxed);
        }
    });
    let [short, general] = answered.map(AtomicU64::into_inner);
    assert!(short > 300 && general > 30, "{short} and {general}");
}

/// Something happens to some keys of both sets.
fn act(random: &mut Random, twins: &mut Twins, limits: &[Limit; LINES]) {
    let line = random.pick(&[0, 1, 2]);
    let one = part(random, limits[line]);
    let which = random.pick(&[0, 1]);
    let (name, lasts) = (twins.names[which], LASTS[which]);
    match random.between(0, 11) {
        0..=1 => twins.step(Step::Reserve { name, lasts }, line, one),
        2 => twins.step(Step::Confirm { name }, line, one),
        3 if random.chance(20) => twins.lease(line, one),
        4 if random.chance(20) => {
            let cost = Cost::Refund(random.between(0, 2));
            twins.step(Step::Decide, line, Part { cost, ..one });
        }
        _ => {
            let count = random.pick(&[2, 2, 3]);
            let mut parts: Vec<Part> = limits[..count]
                .iter()
                .map(|limit| part(random, *limit))
                .collect();
            if random.chance(5) {
                parts[0].on_denial = OnDenial::Charge;
            }
            twins.decide(&[parts]);
        }
    }
}

/// Each is decided as if the ones before it had been decided alone.
#[test]
fn requests_that_share_a_call_are_decided_in_their_order() {
    let name = "requests_that_share_a_call_are_decided_in_their_order";
    let answered = AtomicU64::new(0);
    check(name, 40, |random| {
        let mut twins = Twins::new();
        let limits: [Limit; LINES] = std::array::from_fn(|_| simple_limit(random));
        for _ in 0..10 {
            // Set back, a key would need the general script.
            twins.now = time_after(random, twins.now, 0);
            let request = |random: &mut Random| -> Vec<Part> {
                let count = random.pick(&[1, 2, 3]);
                let parts = limits[..count].iter().map(|limit| part(random, *limit));
                parts.map(Part::within_its_limit).collect()
            };
            let count = random.pick(&[1, 2, 5, 9]);
            let requests: Vec<Vec<Part>> = (0..count).map(|_| request(random)).collect();
            twins.decide(&requests);
        }
        twins.expire_in_time();
        answered.fetch_add(twins.answered[0], Ordering::Relaxed);
    });
    assert_eq!(answered.into_inner(), 400, "the short script decided");
}

/// Such keys mostly have leases, which only the general script knows: it would be asked second.
#[test]
fn limits_that_are_leased_go_to_the_general_script() {
    let limit = Limit::fixed_window(5, Span::HOUR).expect("an hour is a window");
    let fitted = FittedLimit::new(&limit).expect("the limit is whole");
    for (mode, is_short) in [(Mode::Strict, true), (Mode::Leased, false)] {
        let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
        let bill = Bill::new(&[charge.shared(Sharing::in_mode(mode))]).expect("one charge");
        assert_eq!(ScriptRequest::joint(&bill, &[fitted]).is_some(), is_short);
    }
}

fn one_limit(limit: Limit, units: u64) -> Vec<Part> {
    vec![Part {
        limit,
        cost: Cost::Take(units),
        enforcement: Enforcement::Enforce,
        on_denial: OnDenial::Keep,
    }]
}

#[test]
fn a_larger_bucket_owes_no_more_than_the_former_one_after_the_clock_is_set_back() {
    let mut twins = Twins::new();
    let of = |count| Limit::token_bucket(count, Span::from_secs(count.into()));
    let (small, large) = (of(5).expect("valid"), of(20).expect("valid"));
    twins.decide(&[one_limit(small, 5)]);
    twins.now = Now::at(twins.now.utc - Span::from_secs(3));
    twins.decide(&[one_limit(large, 14)]);
    twins.decide(&[one_limit(large, 1)]);
}

#[test]
fn a_reservation_that_has_expired_does_not_come_back_with_the_clock() {
    let mut twins = Twins::new();
    let limit = Limit::fixed_window(5, Span::from_secs(3_600)).expect("an hour is a window");
    for (name, lasts) in twins.names.into_iter().zip(LASTS) {
        let one = one_limit(limit, 1)[0];
        twins.step(Step::Reserve { name, lasts }, 0, one);
    }
    let expired = twins.now.utc + Span::from_millis(30);
    twins.now = Now::at(expired);
    twins.decide(&[one_limit(limit, 1)]);
    twins.now = Now::at(expired - Span::from_millis(20));
    twins.decide(&[one_limit(limit, 3)]);
}
