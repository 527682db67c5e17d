//! The expiry of keys in Redis: no sooner than the key has no effect any more, and at most a second
//! later, whatever is leased, owed or changed meanwhile. In virtual time.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_behaviour::{Random, Rule, Subject, Taste, check};
use tollgate_core::{Algorithm, Anchor, Charge, Cost, Key, Limit, Mode, Now, Sharing, Span};

use super::{Driven, SINGLE};
use crate::config::{Config, SYNC_INTERVAL_MAX};
use crate::fit::GRAIN;

/// The test's scripts let keys live for this many milliseconds longer.
pub(super) const ORIGIN: u64 = 3_153_600_000_000;
/// Copies a key under more names, and returns when it expires and its first byte.
const COPIES: &str = "local at = redis.call('PEXPIRETIME', KEYS[1]) \
    if at < 0 then return 'none' end \
    for i = 2, #KEYS do redis.call('COPY', KEYS[1], KEYS[i], 'REPLACE') end \
    return string.format('%d %d', at, string.byte(redis.call('GETRANGE', KEYS[1], 0, 0)))";
/// The first byte of a key with leased or owed units.
const HELD: &str = "128";
/// Milliseconds that a key may live for longer than it matters.
const LATE: u64 = 1_000;
const STEPS: usize = 40;

/// Instances that share one key, each in its own mode.
struct Instances {
    instances: Vec<(Driven, Mode)>,
    now: Now,
}

// === impl Instances ===

impl Instances {
    fn new(modes: &[Mode]) -> Instances {
        Instances {
            instances: modes
                .iter()
                .map(|mode| (Instances::instance(), *mode))
                .collect(),
            now: Taste::MICROSECONDS.start,
        }
    }

    fn instance() -> Driven {
        Driven::new(&Config {
            // The test decides when to report.
            sync_interval: SYNC_INTERVAL_MAX,
            ..Config::single(SINGLE.address())
        })
    }

    fn pass(&mut self, random: &mut Random) {
        let most = random.pick(&[1, 1_000, 50_000, 50_000, 1_000_000, 12_000_000]);
        self.now = Now::at(self.now.utc + GRAIN.times(random.between(0, most)));
    }

    /// One of them decides, reports, or crashes with the units it holds.
    fn act(&mut self, random: &mut Random, rule: &Rule, key: Key) {
        let last = u64::try_from(self.instances.len() - 1).expect("a few");
        let index = usize::try_from(random.between(0, last)).expect("a few");
        let (instance, mode) = &mut self.instances[index];
        let cost = Cost::Take(random.pick(&[1, 1, 1, 1, 1, 1, 2, 2, 5, 20]));
        let charge = rule.charge(key, cost).shared(Sharing::in_mode(*mode));
        let _whatever = instance.decide(self.now, &[charge]);
        if random.chance(30) {
            instance.report();
        } else if random.chance(3) {
            *instance = Instances::instance();
        }
    }

    /// Checks the expiry of the key: no sooner than it has no effect under the last of these
    /// limits, which is in effect, and hardly later than under any of them; returns whether any
    /// units were held or owed.
    fn look(&self, watcher: &mut Driven, limits: &[Limit], key: Key) -> bool {
        let names = (0..limits.len()).map(|limit| format!("before {limit}"));
        let before: Vec<Key> = names.map(|name| watcher.key(&name)).collect();
        let then = watcher.key("then");
        let keys = [&[key, then], &before[..]].concat();
        let names = keys.iter().map(|key| watcher.store.name_of(*key));
        let names: Vec<String> = names.collect();
        let count = names.len().to_string();
        let mut words = vec!["EVAL", COPIES, &count];
        words.extend(names.iter().map(String::as_str));
        let reply = SINGLE.ask(&words);
        let Some((expires, first)) = reply.split_once(' ') else {
            assert_eq!(reply, "none");
            return false;
        };
        let expires = expires.parse::<u64>().expect("a moment") - ORIGIN;
        let now = self.now.utc.as_nanos() / 1_000_000;
        let mut has_recovered = |limit: &Limit, key, millis| {
            let at = Now::at(tollgate_core::Moment::from_nanos(millis * 1_000_000));
            let peek = Charge::new(key, limit, Cost::Peek(1));
            let remaining = watcher.decide(at, &[peek]).decisions[0].remaining();
            remaining == limit.capacity()
        };
        let present = limits.last().expect("a rule has a limit");
        let is_early = !has_recovered(present, then, expires);
        assert!(!is_early, "expired too early: {limits:?}");
        if expires > now + LATE {
            let mut pairs = limits.iter().zip(before);
            let is_late = pairs.all(|(limit, key)| has_recovered(limit, key, expires - LATE));
            assert!(!is_late, "expired too late: {limits:?}");
        }
        first == HELD
    }
}

/// A limit of any algorithm that suits the modes.
fn limit(random: &mut Random, modes: &[Mode]) -> Limit {
    let count = random.small(16, 300);
    let window = Span::from_millis(random.pick(&[300, 2_000, 9_000, 30_000, 3_600_000]));
    let limit = match random.between(0, 6) {
        0 | 1 => Limit::fixed_window(count, window),
        2 => Limit::new(Algorithm::FixedWindow(Anchor::FirstRequest), count, window),
        3 if modes.contains(&Mode::WriteBack) => Limit::sliding_window(count, window, 2),
        3 => Limit::sliding_log(count, window),
        4 => Limit::sliding_window(count, window, 1),
        5 => Limit::sliding_window(count, window, 10),
        _ => {
            let interval = window.as_nanos() / 1_000 / u64::from(count);
            let bucket = Limit::token_bucket(1, GRAIN.times(interval));
            bucket.and_then(|bucket| bucket.with_burst(count))
        }
    };
    limit.expect("windows are whole microseconds")
}

#[test]
fn of_leased_units() {
    holds(
        "of_leased_units",
        &[Mode::Leased, Mode::Leased, Mode::Strict],
    );
}

#[test]
fn of_what_is_owed() {
    holds("of_what_is_owed", &[Mode::WriteBack; 3]);
}

#[test]
fn of_all_modes_at_once() {
    let modes = [Mode::WriteBack, Mode::Leased, Mode::Strict, Mode::WriteBack];
    holds("of_all_modes_at_once", &modes);
}

/// Checks on random traces that a key stays in Redis for as long as its state matters to any of the
/// limits that the rule has had.
fn holds(name: &'static str, modes: &[Mode]) {
    let held = AtomicU64::new(0);
    check(name, 60, |random| {
        let mut instances = Instances::new(modes);
        let mut watcher = Instances::instance();
        let mut rule = Rule::new(limit(random, modes));
        let mut limits = vec![rule.limit];
        let key = watcher.key("only");
        for step in 0..STEPS {
            instances.pass(random);
            if random.chance(4) {
                rule.change(limit(random, modes));
                limits.push(rule.limit);
            }
            instances.act(random, &rule, key);
            if step % 3 == 2 {
                // As under the previous rules, a key lives for as long as it mattered then.
                let peek = rule.charge(key, Cost::Peek(1));
                let _settles = watcher.decide(instances.now, &[peek]);
                let is_held = instances.look(&mut watcher, &limits, key);
                held.fetch_add(is_held.into(), Ordering::Relaxed);
            }
        }
    });
    assert!(held.into_inner() > 100, "hardly anything was held");
}

/// Redis has charged the first units, which have refilled when the next are reported, and their key
/// has expired. Those were allowed before.
#[test]
fn a_report_to_an_expired_bucket_is_charged_to_what_it_was() {
    let limit = Limit::token_bucket(1, Span::SECOND).and_then(|bucket| bucket.with_burst(40));
    let rule = Rule::new(limit.expect("a limit"));
    let mut instances = Instances::new(&[Mode::WriteBack]);
    let key = instances.instances[0].0.key("only");
    let ask = |instances: &mut Instances, cost| {
        let (instance, mode) = &mut instances.instances[0];
        let charge = rule.charge(key, cost).shared(Sharing::in_mode(*mode));
        instance.decide(instances.now, &[charge]).decisions[0].remaining()
    };
    assert_eq!(ask(&mut instances, Cost::Take(10)), 30);
    instances.now = Now::at(instances.now.utc + Span::from_secs(9));
    assert_eq!(ask(&mut instances, Cost::Take(5)), 34);
    instances.now = Now::at(instances.now.utc + Span::from_secs(2));
    let (instance, _) = &instances.instances[0];
    instance.store.set_now(instances.now.utc.as_nanos() / 1_000);
    assert_eq!(SINGLE.ask(&["DEL", &instance.store.name_of(key)]), "1");
    instance.report();
    assert_eq!(ask(&mut instances, Cost::Peek(1)), 36);
}
