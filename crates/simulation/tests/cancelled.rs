//! A caller that goes away at any await of its decision: every unit is accounted for.
//!
//! The clocks of the servers stand still, so that nothing refills and no reservation expires: what
//! a cancelled decision leaves behind stays, and is seen.
#![allow(missing_docs, clippy::unwrap_used, clippy::tests_outside_test_module)]

use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_behaviour::{Random, Taste, algorithms, check};
use tollgate_core::{Charge, Cost, Key, Limit, Mode, Sharing, Span};
use tollgate_simulation::Simulated;

/// More polls than any decision here takes.
const POLLS_MAX: u32 = 400;
/// The longest delay of a message, in milliseconds.
const DELAY_MAX: u64 = 3;
/// What the limits allow.
const CAPACITY: u32 = 60;

/// A case: some decisions, and then two at once, of which one is cancelled.
struct Case {
    limits: Vec<Limit>,
    mode: Mode,
    /// What only the first key is charged before: other keys have units where it has none.
    alone: u64,
    /// The cost of each decision before, for all keys.
    before: Vec<u64>,
    cancelled: u64,
    kept: u64,
}

/// How the decisions of a case ended.
#[derive(Debug)]
struct Ended {
    /// The units that answered decisions took of each key.
    answered: u64,
    /// What the cancelled decision would take, or nothing if it was answered.
    open: u64,
}

// === impl Case ===

impl Case {
    fn draw(random: &mut Random, mode: Mode, keys: usize) -> Case {
        let limits = (0..keys).map(|_| limit(random, mode)).collect();
        let before = (0..random.pick(&[0, 0, 1, 5]))
            .map(|_| random.between(1, 5))
            .collect();
        Case {
            limits,
            mode,
            alone: random.pick(&[0, 0, 20, 55]),
            before,
            // Some do not fit, at once or with the other.
            cancelled: random.pick(&[1, 3, 10, 40, 61]),
            kept: random.pick(&[1, 2, 30]),
        }
    }

    fn charges(&self, keys: &[Key], mode: Mode, cost: Cost) -> Vec<Charge<'_>> {
        let sharing = Sharing::in_mode(mode);
        let charges = keys.iter().zip(&self.limits);
        charges
            .map(|(key, limit)| Charge::new(*key, limit, cost).shared(sharing))
            .collect()
    }

    /// Decides, and drops one decision after so many polls.
    fn run(&self, subject: &mut Simulated, keys: &[Key], polls: u32) -> Ended {
        let now = Taste::MICROSECONDS.start;
        let take = |cost| self.charges(keys, self.mode, Cost::Take(cost));
        let mut answered = 0;
        let alone = &take(self.alone)[..1];
        // With nothing before it, the decision also connects, or asks for its lease or count.
        assert!(self.alone == 0 || subject.decide(now, alone).is_allowed());
        for cost in &self.before {
            if subject.decide(now, &take(*cost)).is_allowed() {
                answered += cost;
            }
        }
        let [cancelled, kept] = [take(self.cancelled), take(self.kept)];
        let both = [&cancelled[..], &kept[..]];
        let (verdict, kept) = subject.decide_and_cancel(now, both, polls);
        if kept.is_allowed() {
            answered += self.kept;
        }
        if verdict.as_ref().is_some_and(|verdict| verdict.is_allowed()) {
            answered += self.cancelled;
        }
        Ended {
            answered,
            open: if verdict.is_none() { self.cancelled } else { 0 },
        }
    }
}

fn limit(random: &mut Random, mode: Mode) -> Limit {
    let limits = algorithms()
        .map(|algorithm| Limit::new(algorithm, CAPACITY, Span::HOUR).expect("an hour is a window"));
    let limits: Vec<Limit> = limits
        .into_iter()
        .filter(|limit| mode.suits(limit))
        .collect();
    random.pick(&limits)
}

/// The units consumed of each key, as another process finds them; none of them are reserved.
fn used(subject: &mut Simulated, case: &Case, keys: &[Key]) -> Vec<u64> {
    subject.restart();
    let now = Taste::MICROSECONDS.start;
    let peeks = case.charges(keys, Mode::Strict, Cost::Peek(1));
    let verdict = subject.decide(now, &peeks);
    let remaining: Vec<u64> = verdict
        .decisions
        .iter()
        .map(|one| one.remaining().into())
        .collect();
    // An exhausted limit denies a cost of nothing as well.
    let takes = peeks
        .iter()
        .zip(&remaining)
        .filter(|(_, remaining)| **remaining > 0);
    let takes: Vec<Charge<'_>> = takes
        .map(|(peek, remaining)| Charge {
            cost: Cost::Take(*remaining),
            ..*peek
        })
        .collect();
    // A reservation that was left behind would not let all that remains fit.
    assert!(
        subject.decide(now, &takes).is_allowed(),
        "units stay reserved: {remaining:?}"
    );
    remaining
        .iter()
        .map(|remaining| u64::from(CAPACITY) - remaining)
        .collect()
}

/// Cancels random decisions at each of their polls, and checks what was charged.
fn is_accounted_for(name: &'static str, new: fn() -> Simulated, mode: Mode, keys: usize) {
    let most = AtomicU32::new(0);
    check(name, 12, |random| {
        let case = Case::draw(random, mode, keys);
        let starts_again = random.chance(50);
        for polls in 0..=POLLS_MAX {
            assert!(polls < POLLS_MAX, "no answer after {polls} polls");
            let mut subject = new();
            if starts_again {
                // Processes with odd numbers reserve in all slots before they charge in any.
                subject.restart();
            }
            subject.delay_messages(DELAY_MAX);
            let keys: Vec<Key> = (0..keys)
                .map(|key| subject.key(&format!("{key}")))
                .collect();
            let ended = case.run(&mut subject, &keys, polls);
            let mut used = used(&mut subject, &case, &keys);
            used[0] -= case.alone;
            let possible = [ended.answered, ended.answered + ended.open];
            let is_whole = possible
                .iter()
                .any(|units| used.iter().all(|used| used == units));
            assert!(is_whole, "{used:?} after {polls} polls: {ended:?}");
            if ended.open == 0 {
                most.fetch_max(polls, Ordering::Relaxed);
                break;
            }
        }
    });
    let polls = most.into_inner();
    assert!(polls >= 4, "{polls}");
}

#[test]
fn of_a_single_key() {
    is_accounted_for("of_a_single_key", Simulated::single, Mode::Strict, 1);
}

#[test]
fn of_several_keys() {
    is_accounted_for("of_several_keys", Simulated::cluster, Mode::Strict, 3);
}

#[test]
fn of_several_slots() {
    is_accounted_for("of_several_slots", Simulated::apart, Mode::Strict, 3);
}

#[test]
fn of_leased_units() {
    is_accounted_for("of_leased_units", Simulated::single, Mode::Leased, 1);
}

#[test]
fn of_an_own_count() {
    is_accounted_for("of_an_own_count", Simulated::single, Mode::WriteBack, 1);
}
