//! Rules that change while threads decide under them, with exact accounts.
//!
//! Nothing refills while these run, so over all versions of a rule a key allows what the largest
//! of its limits allows, to the unit.
#![allow(clippy::unwrap_used)]

use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_core::{
    Algorithm, Anchor, Charge, Cost, Key, Limit, LimitHistory, Moment, Now, RESOLUTIONS_MAX,
    Resolution, Segments, Span, StoreError, Wait,
};
use tollgate_memory::{ManualClock, Memory};

/// Far from the end of any day or segment of one.
const NOON: Moment = Moment::from_nanos(1_763_730_000_000_000_001);
const THREADS: usize = 4;
/// How often each of them asks.
const ASKS: u32 = 150;
/// Each of so many asks gives its processor away between the rules and the store.
const SLOW_EACH: u32 = 16;
/// After how many allowed requests the rule changes.
const CHANGED_AT: u32 = 100;
/// Units that a limit allows before it changes and after.
const COUNTS: [[u32; 2]; 3] = [[200, 200], [200, 300], [300, 200]];

type Store = Memory<ManualClock>;

/// A rule as a rule set has it: replaced as a whole.
struct Rule {
    current: RwLock<(Limit, LimitHistory)>,
    /// Decisions under a rule that was replaced meanwhile.
    superseded: AtomicU32,
}

// === impl Rule ===

impl Rule {
    fn new(limit: Limit) -> Rule {
        Rule {
            current: RwLock::new((limit, LimitHistory::default())),
            superseded: AtomicU32::new(0),
        }
    }

    fn change(&self, limit: Limit) {
        let mut rule = self.current.write().unwrap();
        let history = rule.1.and(rule.0);
        *rule = (limit, history);
    }

    /// Resolves the request again for as long as other rules came into effect meanwhile.
    fn ask(&self, store: &Store, keys: &[Key], is_slow: bool) -> bool {
        for _ in 0..RESOLUTIONS_MAX {
            let (limit, history) = self.current.read().unwrap().clone();
            if is_slow {
                // Suspended here, it goes on under rules that others have replaced.
                std::thread::yield_now();
            }
            let charge = |key: &Key| Charge {
                history: &history,
                ..Charge::new(*key, &limit, Cost::ONE)
            };
            let charges: Vec<_> = keys.iter().map(charge).collect();
            match store.decide_now(&charges) {
                Ok(verdict) => return verdict.is_allowed(),
                Err(StoreError::Superseded) => {
                    self.superseded.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("more changes than were made")
    }
}

fn algorithms() -> [Algorithm; 7] {
    [
        Algorithm::FixedWindow(Anchor::Clock),
        Algorithm::FixedWindow(Anchor::FirstRequest),
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow(Segments::ONE),
        Algorithm::SlidingWindow(Segments::new(60).unwrap()),
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ]
}

/// Every algorithm after every other, over the same day.
fn changes() -> impl Iterator<Item = [Limit; 2]> {
    let pairs = algorithms()
        .into_iter()
        .flat_map(|from| algorithms().map(|to| [from, to]));
    let limit = |algorithm, count| Limit::new(algorithm, count, Span::DAY).unwrap();
    let limits = pairs.zip(COUNTS.iter().cycle());
    let limits =
        limits.map(move |([from, to], [before, after])| [limit(from, *before), limit(to, *after)]);
    limits.filter(|[from, to]| from != to)
}

/// Lets threads ask for more than there is while the rule changes, and then asks for the rest.
/// Gives what was allowed all in all, and how many decisions were under a rule that was replaced.
fn allowed(store: &Store, keys: &[Key], [from, to]: [Limit; 2]) -> (u32, u32) {
    let rule = Rule::new(from);
    let allowed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for number in 0..ASKS {
                    let is_allowed = rule.ask(store, keys, number % SLOW_EACH == 0);
                    allowed.fetch_add(u32::from(is_allowed), Ordering::Relaxed);
                }
            });
        }
        while allowed.load(Ordering::Relaxed) < CHANGED_AT {
            std::thread::yield_now();
        }
        rule.change(to);
    });
    let rest = std::iter::repeat_with(|| rule.ask(store, keys, false));
    let rest = rest.take_while(|is_allowed| *is_allowed).count();
    let allowed = allowed.into_inner() + u32::try_from(rest).unwrap();
    (allowed, rule.superseded.into_inner())
}

#[test]
fn a_reload_under_load_loses_nothing() {
    let mut superseded = 0;
    for (number, [from, to]) in (0u64..).zip(changes()) {
        let clock = ManualClock::at(NOON);
        let store = Memory::builder().max_keys(1_000).clock(clock).build();
        // Alone, and as one of two that are decided together.
        let keys: Vec<Key> = (0..=number % 2).map(|key| store.key_of(&key)).collect();
        let (allowed, of_old_rule) = allowed(&store, &keys, [from, to]);
        superseded += of_old_rule;
        // What was allowed before the change stays allowed.
        let most = from.count().max(to.count());
        assert!(allowed <= most, "{allowed} of {most}: {from:?} to {to:?}");
        assert!(allowed >= to.count(), "{allowed}: {from:?} to {to:?}");
    }
    // Otherwise no thread has met a change, and nothing was shown.
    assert!(superseded > 0, "no decision was superseded");
}

#[test]
fn a_window_that_had_more_units_than_nanoseconds_ends_when_it_ends() {
    let store = Memory::builder().clock(ManualClock::default()).build();
    let dense = Limit::fixed_window(u32::MAX, Span::SECOND).unwrap();
    let lowered = Limit::fixed_window(2, Span::SECOND).unwrap();
    let history = LimitHistory::default().and(dense);
    let now = Now::at(Moment::from_nanos(1_763_730_000_500_000_000));
    let key = store.key_of("only");
    let all = Charge::new(key, &dense, Cost::from(u32::MAX));
    assert!(store.check_at(now, &all).unwrap().is_allowed());
    let one = Charge {
        history: &history,
        ..Charge::new(key, &lowered, Cost::ONE)
    };
    let half = Span::from_millis(500);
    let denied = store.check_at(now, &one).unwrap();
    assert_eq!(denied.wait(), Some(Wait::For(half)));
    let next = Now::at(now.utc + half);
    assert!(store.check_at(next, &one).unwrap().is_allowed());
}

/// What a window has counted in more units than it has nanoseconds stays counted while the limit is
/// lowered for a moment.
#[test]
fn a_limit_that_is_lowered_and_raised_again_keeps_what_was_used() {
    let store = Memory::builder().clock(ManualClock::default()).build();
    let window = Span::from_millis(1);
    let dense = Limit::fixed_window(4_000_000, window).unwrap();
    let small = Limit::fixed_window(10, window).unwrap();
    let lowered = LimitHistory::default().and(dense);
    let raised = lowered.and(small);
    let now = Now::at(NOON);
    let key = store.key_of("only");
    let all = Charge::new(key, &dense, Cost::from(4_000_000));
    assert!(store.check_at(now, &all).unwrap().is_allowed());
    for (limit, history) in [(&small, &lowered), (&dense, &raised)] {
        let one = Charge {
            history,
            ..Charge::new(key, limit, Cost::ONE)
        };
        assert!(!store.check_at(now, &one).unwrap().is_allowed(), "{limit}");
    }
}

/// Requests that bring limits of their own to one key: no more is allowed than the largest allows.
#[test]
fn fixed_windows_of_any_size_on_one_key_count_together() {
    let store = Memory::builder().clock(ManualClock::default()).build();
    let limit = |count| Limit::fixed_window(count, Span::from_millis(1)).unwrap();
    let (small, dense) = (limit(500_000), limit(2_000_000));
    let now = Now::at(NOON);
    let key = store.key_of("only");
    let mut allowed = 0;
    for round in 0..20 {
        let limit = if round % 2 == 0 { &small } else { &dense };
        let charge = Charge::new(key, limit, Cost::Take(400_000));
        let decision = store.check_at(now, &charge).unwrap();
        allowed += if decision.is_allowed() { 400_000 } else { 0 };
    }
    assert_eq!(allowed, 2_000_000);
}

/// A thread is suspended while its limit is replaced so often that the state's revision looks like
/// one before its own. It does not know that one either: it must not read the state as its own.
#[test]
fn a_decision_under_a_limit_that_was_replaced_200_times_touches_nothing() {
    let store = Memory::builder().clock(ManualClock::default()).build();
    let limit = |count| Limit::per_hour(count).counted_by(Algorithm::TokenBucket);
    let (small, large) = (limit(1_000), limit(1_001));
    let stale = LimitHistory::default().and(large);
    let mut latest = stale.clone();
    for _ in 0..100 {
        latest = latest.and(small).and(large);
    }
    let (now, key) = (Now::at(NOON), store.key_of("only"));
    let charge = |history, cost| Charge {
        history,
        ..Charge::new(key, &small, Cost::Take(cost))
    };
    assert!(
        store
            .check_at(now, &charge(&latest, 7))
            .unwrap()
            .is_allowed()
    );
    let outcome = store.check_at(now, &charge(&stale, 1));
    assert!(
        matches!(outcome, Err(StoreError::Superseded)),
        "{outcome:?}"
    );
    assert_eq!(
        store
            .check_at(now, &charge(&latest, 0))
            .unwrap()
            .remaining(),
        993
    );
}

/// A key is idle while its limit changes so often that the revision of its state is unknown, or
/// looks like the present one. Then the tag still says by which clock it was counted: a moment of
/// UTC is decades ahead of a machine's monotonic clock.
#[test]
fn a_state_of_an_unknown_limit_denies_no_longer_than_the_present_one() {
    let limit = |algorithm| Limit::new(algorithm, 10, Span::DAY).unwrap();
    for (from, to) in algorithms()
        .into_iter()
        .flat_map(|from| algorithms().map(|to| (limit(from), limit(to))))
    {
        for (changes, resolution) in [(128, Resolution::Latest), (256, Resolution::First)] {
            let mut history = LimitHistory::default().and(from);
            for _ in 1..changes {
                history = history.and(to);
            }
            for count in [1, 2] {
                let wait = wait_after_change(count, [&from, &to], &history, resolution);
                let is_long = wait.is_some_and(|wait| wait > Wait::For(to.window()));
                assert!(
                    !is_long,
                    "{wait:?}, {count} keys: {from:?}, {changes} times, {to:?}"
                );
            }
        }
    }
}

/// The longest wait of so many keys that were charged under the first of two limits and are asked
/// under the second, at a moment of which the two clocks differ by decades.
fn wait_after_change(
    count: u8,
    [from, to]: [&Limit; 2],
    history: &LimitHistory,
    resolution: Resolution,
) -> Option<Wait> {
    let clock = ManualClock::default();
    clock.set(Now {
        monotonic: Moment::ZERO + Span::HOUR,
        utc: NOON,
    });
    let store = Memory::builder().max_keys(100).clock(clock).build();
    let charges = |limit, history| -> Vec<Charge<'_>> {
        let charge = |key| Charge {
            history,
            resolution,
            ..Charge::new(store.key_of(&key), limit, Cost::ONE)
        };
        (0..count).map(charge).collect()
    };
    let first = store.decide_now(&charges(from, LimitHistory::none()));
    assert!(first.unwrap().is_allowed());
    let verdict = store.decide_now(&charges(to, history)).unwrap();
    verdict.decisions.iter().filter_map(|it| it.wait()).max()
}
