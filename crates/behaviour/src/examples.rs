//! The worked examples of docs/semantics.md.

use std::collections::VecDeque;

use tollgate_core::{Cost, Decision, Limit, Moment, Now, Span, Verdict, Wait};

use crate::rule::{Rule, Taste};
use crate::subject::Subject;

/// Noon of a day in 2025, UTC.
const NOON: Moment = Moment::from_nanos(1_763_726_400_000_000_000);

/// One key under one rule.
struct Only<S> {
    subject: S,
    rule: Rule,
}

/// #1: 3 a minute in a fixed window let 6 through around the window's end.
pub fn worked_example_1_fixed_window_lets_double_through<S: Subject>(
    _taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let mut only = Only::new(fresh(), Limit::fixed_window(3, Span::MINUTE));
    for millis in [30_000, 45_000, 59_999, 60_000, 65_000, 70_000] {
        assert!(only.ask(millis).is_allowed(), "denied at {millis} ms");
    }
    assert!(!only.ask(70_000).is_allowed());
}

/// #2: an exact log of 3 a minute tells the moment at which the oldest leaves.
pub fn worked_example_2_sliding_log_of_three_a_minute<S: Subject>(
    _taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let mut only = Only::new(fresh(), Limit::sliding_log(3, Span::MINUTE));
    assert!(only.ask(70_000).is_allowed());
    assert!(only.ask(88_000).is_allowed());
    let third = only.ask(90_000);
    assert!(third.is_allowed());
    assert_eq!(third.decisions[0].remaining(), 0);
    assert_eq!(wait(&only.ask(91_000)), Wait::For(Span::from_secs(39)));
}

/// #3: an exact log of 2 a second.
pub fn worked_example_3_sliding_log_of_two_a_second<S: Subject>(
    _taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let mut only = Only::new(fresh(), Limit::sliding_log(2, Span::SECOND));
    assert!(only.ask(100).is_allowed());
    assert!(only.ask(200).is_allowed());
    assert_eq!(wait(&only.ask(300)), Wait::For(Span::from_millis(800)));
    assert!(only.ask(1_100).is_allowed());
}

/// #4: previous 1, current 2, half-way: floor(0.5) + 2 + 1 = 3 of 4.
pub fn worked_example_4_sliding_window_allows<S: Subject>(
    _taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let mut only = Only::new(fresh(), Limit::sliding_window(4, Span::SECOND, 1));
    assert!(only.ask(500).is_allowed());
    assert!(only.ask(1_100).is_allowed());
    assert!(only.ask(1_200).is_allowed());
    let fourth = only.ask(1_500);
    assert!(fourth.is_allowed());
    assert_eq!(fourth.decisions[0].remaining(), 1);
}

/// #5: previous 9, at 15 s: floor(6.75) = 6, so of 10 a fourth fits and a fifth does not.
///
/// The literature's "current 5" counts denied requests; ours are not counted, so that no sequence
/// of questions leads there. Core's tests make that very state.
pub fn worked_example_5_sliding_window_denies<S: Subject>(
    _taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let mut only = Only::new(fresh(), Limit::sliding_window(10, Span::MINUTE, 1));
    for _ in 0..9 {
        assert!(only.ask(30_000).is_allowed());
    }
    for _ in 0..4 {
        assert!(only.ask(75_000).is_allowed());
    }
    assert!(!only.ask(75_000).is_allowed());
}

/// #6: a bucket of 3 a minute gives 3 at once, and a fourth after 20 s.
pub fn worked_example_6_token_bucket_of_three_a_minute<S: Subject>(
    _taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let mut only = Only::new(fresh(), Limit::token_bucket(3, Span::MINUTE));
    for _ in 0..3 {
        assert!(only.ask(0).is_allowed());
    }
    assert_eq!(wait(&only.ask(0)), Wait::For(Span::from_secs(20)));
}

/// #7: a queue of 10 that lets 2 a second go, asked 20 times at once.
pub fn worked_example_7_leaky_bucket_queues_ten<S: Subject>(
    _taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let limit = Limit::leaky_bucket(2, Span::SECOND).and_then(|limit| limit.with_burst(10));
    let mut only = Only::new(fresh(), limit);
    for turn in 0..10 {
        let verdict = only.ask(0);
        assert!(verdict.is_allowed());
        assert_eq!(verdict.delay(), Span::from_millis(500 * turn));
    }
    for _ in 0..10 {
        assert_eq!(wait(&only.ask(0)), Wait::For(Span::from_millis(500)));
    }
}

/// #8: 10 a second, offered from 1 to 100 a second, what is denied queues and asks again.
pub fn worked_example_8_phases<S: Subject>(_taste: &Taste, mut fresh: impl FnMut() -> S) {
    let phases = [1, 2, 5, 10, 20, 25, 50, 100];
    let limits = [
        (Limit::fixed_window(10, Span::SECOND), 0),
        (Limit::sliding_log(10, Span::SECOND), 0),
        (Limit::token_bucket(10, Span::SECOND), 10),
        (Limit::leaky_bucket(10, Span::SECOND), 10),
        (Limit::sliding_window(10, Span::SECOND, 1), 10),
        (Limit::sliding_window(10, Span::SECOND, 10), 10),
    ];
    for (limit, tolerance) in limits {
        let mut only = Only::new(fresh(), limit);
        for (phase, rate) in phases.into_iter().enumerate() {
            let start = 10_000 * u64::try_from(phase).expect("eight phases");
            let (served, fair) = (only.serve(start, rate), 10 * rate.min(10));
            assert!(
                served.abs_diff(fair) <= tolerance,
                "{limit:?} at {rate} a second: {served} in 10 s"
            );
        }
    }
}

/// #9: two race for the last unit, in whatever order: one gets it.
pub fn worked_example_9_the_last_unit_goes_once<S: Subject>(
    _taste: &Taste,
    mut fresh: impl FnMut() -> S,
) {
    let mut only = Only::new(fresh(), Limit::sliding_log(5, Span::MINUTE));
    for _ in 0..4 {
        assert!(only.ask(0).is_allowed());
    }
    let racers = [only.ask(1), only.ask(1)];
    let winners = racers.iter().filter(|verdict| verdict.is_allowed());
    assert_eq!(winners.count(), 1);
}

// === impl Only ===

impl<S: Subject> Only<S> {
    fn new(subject: S, limit: Result<Limit, tollgate_core::InvalidLimit>) -> Only<S> {
        let limit = limit.expect("the examples' limits are valid");
        Only {
            subject,
            rule: Rule::new(limit),
        }
    }

    /// Asks for one unit, so many milliseconds after noon.
    fn ask(&mut self, millis: u64) -> Verdict {
        self.ask_at(Span::from_millis(millis))
    }

    fn ask_at(&mut self, after_noon: Span) -> Verdict {
        let key = self.subject.key("only");
        let charge = self.rule.charge(key, Cost::ONE);
        self.subject.decide(Now::at(NOON + after_noon), &[charge])
    }

    /// How many of `rate` a second are served in 10 s from `start` on; the first in the queue
    /// asks again at its retry time.
    fn serve(&mut self, start: u64, rate: u64) -> u64 {
        let start = Span::from_millis(start);
        let gap = Span::from_nanos(Span::SECOND.as_nanos() / rate);
        let mut arrivals: VecDeque<Span> = (0..10 * rate).map(|n| start + gap.times(n)).collect();
        let end = start + Span::from_secs(10);
        let (mut served, mut queue, mut retry) = (0, 0_u64, end);
        loop {
            let arrival = arrivals.front().copied().unwrap_or(end);
            let at = arrival.min(retry);
            if at >= end {
                return served;
            }
            let is_retry = retry <= arrival;
            match self.ask_at(at).decisions[0] {
                Decision::Allow(_) => {
                    served += 1;
                    queue -= u64::from(is_retry);
                    // The next in the queue asks at once.
                    retry = if queue > 0 { at } else { end };
                }
                Decision::Deny(denial) => {
                    queue += u64::from(!is_retry);
                    let Wait::For(wait) = denial.wait else {
                        panic!("one unit fits 10 a second");
                    };
                    retry = at + wait;
                }
            }
            if !is_retry {
                arrivals.pop_front();
            }
        }
    }
}

fn wait(verdict: &Verdict) -> Wait {
    verdict.denial.expect("the request is denied").wait
}
