//! Promise 8 where the window or the algorithm changes: what was used counts as used at the first
//! decision after the change.

use tollgate_core::{Cost, Limit, Span};

use crate::changed_buckets::{GRAIN, wait_of};
use crate::promises::pairs;
use crate::rule::{Rule, Taste};
use crate::subject::Subject;
use crate::trace::later;

/// What each limit allows.
const COUNT: u32 = 10;
/// How long after the last charge the limit has changed.
const LATER: Span = Span::from_secs(30);

/// 8: that decision may be a denial or a peek, and its wait is exact. If it fixed nothing, what was
/// used would count as used at each later decision, and a key that is asked until it is allowed
/// would be denied for as long as the former limit remembers it.
pub fn the_wait_after_a_change_is_honest<S: Subject>(taste: &Taste, mut fresh: impl FnMut() -> S) {
    for (old, new) in pairs() {
        for windows in [[Span::DAY, Span::MINUTE], [Span::HOUR, Span::DAY]] {
            let [from, to] = [(old, windows[0]), (new, windows[1])].map(|(algorithm, window)| {
                Limit::new(algorithm, COUNT, window).expect("valid for every algorithm")
            });
            for first in [Cost::ONE, Cost::Peek(1)] {
                let mut subject = fresh();
                let mut rule = Rule::new(from);
                let key = subject.key("only");
                let mut ask = |rule: &Rule, after, cost| {
                    let now = later(taste.start, after);
                    subject.decide(now, &[rule.charge(key, cost)])
                };
                assert!(ask(&rule, Span::ZERO, Cost::from(COUNT)).is_allowed());
                rule.change(to);
                let denied = ask(&rule, LATER, first);
                let wait = wait_of(&denied);
                let wait = wait.unwrap_or_else(|| panic!("{denied:?}: {from} to {to}"));
                let allowed_at = LATER + wait;
                let earlier = ask(&rule, allowed_at - GRAIN, Cost::ONE);
                assert!(!earlier.is_allowed(), "{from} to {to}, {first:?}");
                let allowed = ask(&rule, allowed_at, Cost::ONE);
                assert!(allowed.is_allowed(), "{from} to {to}, {first:?}");
            }
        }
    }
}
