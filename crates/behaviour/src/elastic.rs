//! What is allowed only while there is headroom, in docs/semantics.md: "Hard, soft, elastic,
//! reserved".

use tollgate_core::{Cost, Decision, Limit, Now, Span, Verdict};

use crate::promises::{algorithms, limit};
use crate::random::{Random, check};
use crate::rule::{Rule, Taste};
use crate::subject::{Plain, Subject};
use crate::trace::later;

/// The units of the limits below.
const COUNT: u32 = 4;
/// What is elastic of them, in per cent.
const PERCENT: u32 = 50;
/// How many traces test one promise with one algorithm, and how long they are.
const CASES: u64 = 12;
const STEPS: usize = 30;

/// A limit of each algorithm: plain, soft, and elastic.
fn limits() -> impl Iterator<Item = [Limit; 3]> {
    algorithms().into_iter().map(|algorithm| {
        let plain = limit(algorithm, COUNT);
        let valid = "half as much again is a limit";
        [
            plain,
            plain.with_soft(PERCENT).expect(valid),
            plain.with_elastic(PERCENT).expect(valid),
        ]
    })
}

/// While nobody reports headroom, every answer is that of the limit without an elastic part.
pub fn without_headroom_an_elastic_limit_is_the_limit<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for [plain, _, elastic] in limits() {
        let (plain, elastic) = (Rule::new(plain), Rule::new(elastic));
        check("without_headroom", CASES, |random| {
            let mut subject = fresh();
            let keys = ["plain", "elastic"].map(|name| subject.key(name));
            let mut now = taste.start;
            for _ in 0..STEPS {
                let cost = cost(random);
                let expected = subject.decide(now, &[plain.charge(keys[0], cost)]);
                let verdict = subject.decide(now, &[elastic.charge(keys[1], cost)]);
                assert_eq!(verdict, expected, "{cost:?} of {elastic:?}");
                now = step(now, taste, &plain, random);
            }
        });
    }
}

/// However often headroom comes and goes: what is allowed would have been by the limit with its
/// elastic part always there; and what is allowed without headroom, by a limit without that part
/// which has counted since the headroom went.
pub fn an_elastic_limit_never_allows_more_than_its_parts<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for [plain, soft, elastic] in limits() {
        let [plain, soft, elastic] = [plain, soft, elastic].map(Rule::new);
        check("elastic_parts", CASES, |random| {
            let mut subject = fresh();
            let mut whole = Plain::default();
            let mut since = Plain::default();
            let key = subject.key("only");
            let (whole_key, since_key) = (whole.key("only"), since.key("only"));
            let (mut now, mut has_headroom) = (taste.start, false);
            for _ in 0..STEPS {
                if random.chance(15) {
                    has_headroom = !has_headroom;
                    since = Plain::default();
                }
                let cost = Cost::Take(random.between(1, 3));
                let charge = match has_headroom {
                    true => elastic.charge_with_headroom(key, cost),
                    false => elastic.charge(key, cost),
                };
                if subject.decide(now, &[charge]).is_allowed() {
                    let also = whole.decide(now, &[soft.charge(whole_key, cost)]);
                    assert!(also.is_allowed(), "{cost:?} of {elastic:?}");
                    if !has_headroom {
                        let also = since.decide(now, &[plain.charge(since_key, cost)]);
                        assert!(also.is_allowed(), "{cost:?} of {elastic:?}");
                    }
                }
                now = step(now, taste, &plain, random);
            }
            // It is there again, and nothing of it is lost.
            let rest = later(now, elastic.memory() + elastic.memory());
            let all = Cost::from(elastic.limit.capacity());
            let charge = elastic.charge_with_headroom(key, all);
            assert_eq!(over_soft(&subject.decide(rest, &[charge])), Some(true));
        });
    }
}

fn cost(random: &mut Random) -> Cost {
    let units = random.between(0, 5);
    match random.between(0, 9) {
        0 => Cost::Refund(units),
        1 => Cost::Peek(units),
        _ => Cost::Take(units),
    }
}

/// Mostly at once, sometimes up to two windows later.
fn step(now: Now, taste: &Taste, rule: &Rule, random: &mut Random) -> Now {
    let window = rule.limit.window();
    let part = Span::from_nanos(window.as_nanos() / 4);
    later(
        now,
        random.pick(&[Span::ZERO, Span::ZERO, taste.grain, part, window]),
    )
}

fn over_soft(verdict: &Verdict) -> Option<bool> {
    match verdict.decisions[0] {
        Decision::Allow(grant) => Some(grant.over_soft),
        Decision::Deny(_) => None,
    }
}
