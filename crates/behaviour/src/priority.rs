//! What is kept for requests with priority, in docs/semantics.md: "Hard, soft, elastic, reserved".

use tollgate_core::{ChargeDenied, Cost, Decision, Now, Span, Verdict, Wait};

use crate::promises::{algorithms, limit};
use crate::random::{Random, check};
use crate::rule::{Rule, Taste};
use crate::subject::Subject;
use crate::trace::later;

/// The units of the limits below, and R of them.
const COUNT: u32 = 10;
const KEPT: u32 = 2;

/// A rule of each algorithm that keeps a fifth for requests with priority.
fn rules() -> impl Iterator<Item = Rule> {
    algorithms().into_iter().map(|algorithm| {
        let limit = limit(algorithm, COUNT).with_priority_share(20);
        Rule::new(limit.expect("a fifth is a share"))
    })
}

/// A request without priority leaves R units; one with priority takes them.
pub fn a_share_is_kept_for_requests_with_priority<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for rule in rules() {
        let mut subject = fresh();
        let key = subject.key("only");
        let mut ask = |has_priority, cost| {
            let charge = match has_priority {
                true => rule.charge_with_priority(key, cost),
                false => rule.charge(key, cost),
            };
            subject.decide(taste.start, &[charge]).decisions[0]
        };
        for left in (0..COUNT - KEPT).rev() {
            assert_eq!(ask(false, Cost::ONE).remaining(), left, "{rule:?}");
        }
        for cost in [Cost::ONE, Cost::Take(0), Cost::Peek(1)] {
            let denied = ask(false, cost);
            assert!(!denied.is_allowed() && denied.remaining() == 0, "{rule:?}");
        }
        for left in (0..KEPT).rev() {
            let allowed = ask(true, Cost::ONE);
            assert!(allowed.is_allowed(), "{rule:?}");
            assert_eq!(allowed.remaining(), left, "{rule:?}");
            assert!(!ask(false, Cost::ONE).is_allowed(), "{rule:?}");
        }
        assert!(!ask(true, Cost::ONE).is_allowed(), "{rule:?}");
        // Refunded units fill the share first, those of a request without priority as well.
        assert_eq!(ask(false, Cost::Refund(1)).remaining(), 0, "{rule:?}");
        assert_eq!(ask(true, Cost::Refund(2)).remaining(), 3, "{rule:?}");
        assert_eq!(ask(false, Cost::Peek(1)).remaining(), 1, "{rule:?}");
    }
}

/// A cost that would need units of the share never fits, except with priority.
pub fn a_cost_above_what_is_not_kept_never_fits<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for rule in rules() {
        let mut subject = fresh();
        let key = subject.key("only");
        let mut wait = |charge| wait_of(&subject.decide(taste.start, &[charge]));
        let cost = Cost::from(COUNT - KEPT + 1);
        assert_eq!(wait(rule.charge(key, cost)), Some(Wait::Never), "{rule:?}");
        let all = Cost::from(COUNT);
        assert_eq!(wait(rule.charge_with_priority(key, all)), None, "{rule:?}");
    }
}

/// However often requests without priority are denied and charged for it, the share stays.
pub fn a_denied_request_charges_nothing_of_the_share<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    for mut rule in rules() {
        let mut subject = fresh();
        rule.charge_denied = ChargeDenied::Always;
        let key = subject.key("only");
        // Three of the second five fit, beside the share.
        for (units, is_allowed) in [(5, true), (5, false), (1, false), (u64::MAX, false)] {
            let charge = rule.charge(key, Cost::Take(units));
            let verdict = subject.decide(taste.start, &[charge]);
            assert_eq!(verdict.is_allowed(), is_allowed, "{units} of {rule:?}");
        }
        let denied = subject.decide(taste.start, &[rule.charge(key, Cost::ONE)]);
        assert_eq!(denied.decisions[0].remaining(), 0, "{rule:?}");
        let share = rule.charge_with_priority(key, Cost::from(KEPT));
        assert!(
            subject.decide(taste.start, &[share]).is_allowed(),
            "{rule:?}"
        );
        let denied = rule.charge_with_priority(key, Cost::Take(3));
        let denied = subject.decide(taste.start, &[denied]);
        assert_eq!(denied.decisions[0].remaining(), 0, "{rule:?}");
    }
}

/// The definition: a request of cost k is judged as if it cost k and what it leaves (R, and of an
/// elastic part without headroom), and charged k.
pub fn without_priority_a_cost_is_judged_with_the_share<S: Subject>(
    taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    check("a_cost_is_judged_with_the_share", 60, |random| {
        let mut subject = fresh();
        let rule = Rule::new(taste.limit(random));
        let kept = u64::from(rule.limit.unavailable());
        let key = subject.key("only");
        let mut now = taste.start;
        for _ in 0..12 {
            let units = random.between(1, 4);
            let judged = rule.charge_with_both(key, Cost::Peek(units + kept));
            let judged = subject.decide(now, &[judged]);
            let before = remaining(&mut subject, &rule, now);
            let asked = subject.decide(now, &[rule.charge(key, Cost::Take(units))]);
            assert_eq!(wait_of(&asked), wait_of(&judged), "{units} of {rule:?}");
            let after = remaining(&mut subject, &rule, now);
            let charged = u64::from(before - after);
            match asked.is_allowed() {
                true => assert_eq!(charged, units, "{rule:?}"),
                false => assert_eq!(charged, 0, "{rule:?}"),
            }
            let of_asked = u64::from(asked.decisions[0].remaining());
            assert_eq!(of_asked, u64::from(after).saturating_sub(kept), "{rule:?}");
            take_some(&mut subject, &rule, random, now);
            let step = random.pick(&[Span::ZERO, taste.grain, rule.limit.window()]);
            now = later(now, step);
        }
    });
}

/// What a request could take that leaves nothing.
fn remaining<S: Subject>(subject: &mut S, rule: &Rule, now: Now) -> u32 {
    let key = subject.key("only");
    let peek = rule.charge_with_both(key, Cost::Peek(1));
    subject.decide(now, &[peek]).decisions[0].remaining()
}

/// Sometimes, such a request takes a few units.
fn take_some<S: Subject>(subject: &mut S, rule: &Rule, random: &mut Random, now: Now) {
    if random.chance(30) {
        let key = subject.key("only");
        let some = rule.charge_with_both(key, Cost::Take(random.between(1, 3)));
        let _allowed_or_not = subject.decide(now, &[some]);
    }
}

fn wait_of(verdict: &Verdict) -> Option<Wait> {
    match verdict.decisions[0] {
        Decision::Allow(_) => None,
        Decision::Deny(denial) => Some(denial.wait),
    }
}
