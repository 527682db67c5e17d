#![allow(clippy::unwrap_used)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate_behaviour::{Subject, Taste, store_behaves};
use tollgate_core::{
    Account, Charge, Cost, Decision, Denial, Key, KeyHasher, Limit, Mode, Moment, Now, Sharing,
    Span, Verdict, Wait,
};
use tollgate_testbed as testbed;

use super::WriteBack;
use super::report::Report;
use super::table::{KEYS_MAX, Next, Table};
use crate::config::{Config, SYNC_INTERVAL_MAX};
use crate::fit::GRAIN;
use crate::keys;
use crate::monotonic::MonotonicClock;
use crate::snapshot::Snapshot;
use crate::store::under_test::{TimedRedis, environment};

static SINGLE: LazyLock<testbed::Redis> = LazyLock::new(testbed::Redis::start);
static CLUSTER: LazyLock<testbed::Cluster> = LazyLock::new(testbed::Cluster::start);

impl WriteBack {
    /// Stops reporting in the background.
    pub(crate) fn stop_keeper(&mut self) {
        let WriteBack { _keeper, .. } = self;
        _keeper.abort_all();
    }
}

/// An instance with local counts, at times that the test chooses.
struct Instance {
    runtime: Runtime,
    store: TimedRedis,
    number: u64,
    /// Reports after this many decisions; never, if zero.
    reports_after: u64,
    decided: u64,
}

// === impl Instance ===

impl Instance {
    fn new(config: &Config, reports_after: u64) -> Instance {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let config = Config {
            timeout: Span::from_secs(30),
            // The test decides when to report.
            sync_interval: SYNC_INTERVAL_MAX,
            ..config.clone()
        };
        let store = runtime.block_on(async { TimedRedis::connect(&config) });
        Instance {
            runtime,
            store: store.unwrap(),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            reports_after,
            decided: 0,
        }
    }

    /// Another instance with the same keys.
    fn beside(&self) -> Instance {
        let mut other = Instance::new(&Config::single(SINGLE.address()), 0);
        other.number = self.number;
        other
    }

    fn report(&self, now: Now) {
        self.store.set_now(now.monotonic.as_nanos() / 1_000);
        let deadline = tokio::time::Instant::now() + Span::from_secs(30).into();
        self.runtime.block_on(self.store.report_all(deadline));
    }

    /// Fetches the count of a key that is not known here yet.
    fn peek(&mut self, now: Now, charge: Charge<'_>) {
        let cost = Cost::Peek(1);
        let verdict = self.decide(now, &[Charge { cost, ..charge }]);
        assert!(verdict.is_allowed());
    }

    /// How many of `units` requests for one unit are allowed.
    fn spend(&mut self, now: Now, charge: Charge<'_>, units: u32) -> u32 {
        let decided = (0..units).map(|_| self.decide(now, &[charge]).is_allowed());
        decided.map(u32::from).sum()
    }
}

impl Subject for Instance {
    fn key(&mut self, name: &str) -> Key {
        let number = self.number.to_le_bytes();
        self.store
            .key([b"write_back", &number[..], name.as_bytes()].into_iter())
    }

    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        self.store.set_now(now.monotonic.as_nanos() / 1_000);
        let sharing = Sharing::in_mode(Mode::WriteBack);
        let charges: Vec<Charge<'_>> = charges
            .iter()
            .map(|charge| charge.shared(sharing))
            .collect();
        let verdict = self.runtime.block_on(self.store.decide(&charges));
        let verdict = verdict
            .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
        self.decided += 1;
        if self.reports_after > 0 && self.decided.is_multiple_of(self.reports_after) {
            self.report(now);
        }
        verdict
    }
}

// A single instance decides as Redis would, however often it reports.
store_behaves!(
    seldom,
    Taste::MICROSECONDS,
    Instance::new(&Config::single(SINGLE.address()), 0)
);
store_behaves!(
    always,
    Taste::MICROSECONDS,
    Instance::new(&Config::single(SINGLE.address()), 1)
);
store_behaves!(
    now_and_then,
    Taste::MICROSECONDS,
    Instance::new(&Config::single(SINGLE.address()), 7)
);
store_behaves!(
    cluster,
    Taste::MICROSECONDS,
    Instance::new(&Config::cluster(CLUSTER.addresses()), 3)
);

/// A time after the start of a minute.
fn at(micros: u64) -> Now {
    let start = Taste::MICROSECONDS.start.utc;
    let into = start.as_nanos() % Span::MINUTE.as_nanos();
    Now::at(start - Span::from_nanos(into) + GRAIN.times(micros))
}

fn second(seconds: u64) -> Now {
    at(seconds * 1_000_000)
}

/// The time since the start of the hour, in nanoseconds.
fn into_hour(now: Now) -> u64 {
    now.utc.as_nanos() % Span::HOUR.as_nanos()
}

fn charge<'l>(instance: &mut Instance, limit: &'l Limit) -> Charge<'l> {
    Charge::new(instance.key("hot"), limit, Cost::ONE)
}

fn wait(verdict: &Verdict) -> Span {
    match verdict.decisions[0] {
        Decision::Deny(Denial {
            wait: Wait::For(wait),
            ..
        }) => wait,
        other => panic!("{other:?}"),
    }
}

/// Three instances that each allow what they can before any of them reports, and then report;
/// returns how much that was, and two more instances.
fn three_instances(limit: &Limit, now: Now) -> (u32, [Instance; 2]) {
    let mut first = Instance::new(&Config::single(SINGLE.address()), 0);
    let charge = charge(&mut first, limit);
    let two_more = [first.beside(), first.beside()];
    let mut instances = [first.beside(), first.beside(), first];
    let mut allowed = 0;
    // Each has fetched the count before any other has reported.
    for instance in &mut instances {
        instance.peek(now, charge);
    }
    for instance in &mut instances {
        allowed += instance.spend(now, charge, 2 * limit.capacity());
    }
    for instance in &instances {
        instance.report(now);
    }
    (allowed, two_more)
}

#[test]
fn a_bucket_pays_back_what_was_too_much() {
    let limit = Limit::token_bucket(60, Span::MINUTE)
        .unwrap()
        .with_burst(10)
        .unwrap();
    let (allowed, mut instances) = three_instances(&limit, second(0));
    // Each instance knows only its own units, and the bound is (3 - 1) x N.
    assert_eq!(allowed, 30);
    let charge = charge(&mut instances[0], &limit);
    // 30 units, of which the bucket holds 10 and refills one a second: the next at 21 s.
    for (index, seconds) in [(0, 1), (0, 20), (1, 20)] {
        let denied = instances[index].decide(second(seconds), &[charge]);
        assert_eq!(
            wait(&denied),
            Span::from_secs(21 - seconds),
            "{index} at {seconds}"
        );
    }
    assert_eq!(instances[0].spend(second(21), charge, 5), 1);
    instances[0].report(second(21));
    // In mode `strict` it is the same bucket.
    let strict = |instance: &Instance, seconds| {
        instance
            .store
            .set_now(second(seconds).monotonic.as_nanos() / 1_000);
        let verdict = instance.runtime.block_on(instance.store.decide(&[charge]));
        verdict.unwrap().is_allowed()
    };
    assert!(!strict(&instances[1], 21));
    assert!(strict(&instances[1], 22));
    assert!(!strict(&instances[1], 22));
}

#[test]
fn a_window_s_surplus_is_carried_into_the_next_ones() {
    let first = tollgate_core::Algorithm::FixedWindow(tollgate_core::Anchor::FirstRequest);
    for limit in [
        Limit::fixed_window(10, Span::MINUTE).unwrap(),
        Limit::new(first, 10, Span::MINUTE).unwrap(),
    ] {
        let (allowed, mut instances) = three_instances(&limit, second(0));
        assert_eq!(allowed, 30);
        let charge = charge(&mut instances[0], &limit);
        // The next two windows are used up.
        let denied = instances[0].decide(second(1), &[charge]);
        assert_eq!(wait(&denied), Span::from_secs(179), "{limit:?}");
        for seconds in [60, 119, 120, 179] {
            assert_eq!(instances[0].spend(second(seconds), charge, 1), 0);
            assert_eq!(instances[1].spend(second(seconds), charge, 1), 0);
        }
        assert_eq!(instances[0].spend(second(180), charge, 20), 10);
        instances[0].report(second(180));
        assert_eq!(instances[1].spend(second(240), charge, 20), 10);
    }
}

#[test]
fn what_is_reported_late_counts_in_its_own_window() {
    let limit = Limit::fixed_window(10, Span::MINUTE).unwrap();
    let mut one = Instance::new(&Config::single(SINGLE.address()), 0);
    let mut other = one.beside();
    let charge = charge(&mut one, &limit);
    let (before, after) = (at(59_999_000), at(60_001_000));
    one.peek(before, charge);
    other.peek(before, charge);
    assert_eq!(one.spend(before, charge, 7), 7);
    assert_eq!(other.spend(before, charge, 9), 9);
    one.report(before);
    // The other instance's window is over, and a request has come in the new one.
    assert_eq!(one.spend(after, charge, 1), 1);
    one.report(after);
    other.report(after);
    // Together 7 + 9 of 10: six of the new window's units are used up, and one was just taken.
    assert_eq!(other.spend(after, charge, 20), 3);
}

#[test]
fn a_sliding_window_counts_what_was_too_much() {
    let limit = Limit::sliding_window(10, Span::MINUTE, 1).unwrap();
    let (allowed, mut instances) = three_instances(&limit, second(0));
    assert_eq!(allowed, 30);
    let charge = charge(&mut instances[0], &limit);
    // Of 30 units in the minute before, fewer than ten weigh once 40 s of this one are over.
    assert_eq!(instances[0].spend(second(100), charge, 1), 0);
    assert_eq!(instances[1].spend(second(100), charge, 1), 0);
    assert_eq!(instances[0].spend(second(101), charge, 5), 1);
}

/// Two versions of a rule at the same time: units that the larger one allows are no debt under the
/// smaller one.
#[test]
fn what_a_larger_limit_allows_is_not_owed() {
    let [larger, smaller] = [12, 5].map(|count| Limit::fixed_window(count, Span::MINUTE).unwrap());
    let mut first = Instance::new(&Config::single(SINGLE.address()), 0);
    let mut other = first.beside();
    let large = charge(&mut first, &larger);
    let small = Charge {
        limit: &smaller,
        ..large
    };
    first.peek(second(0), large);
    other.peek(second(0), small);
    assert_eq!(first.spend(second(0), large, 20), 12);
    assert_eq!(other.spend(second(0), small, 20), 5);
    first.report(second(0));
    other.report(second(0));
    // Five of the 17 are more than the larger limit allows.
    let mut third = first.beside();
    assert_eq!(third.spend(second(60), large, 20), 7);
}

/// Of two versions of a window, the smaller one waits only until the end of the window that the
/// larger one has used.
#[test]
fn what_a_larger_limit_allows_locks_one_window() {
    let [larger, smaller] = [24, 5].map(|count| Limit::fixed_window(count, Span::HOUR).unwrap());
    let mut first = Instance::new(&Config::single(SINGLE.address()), 0);
    let large = charge(&mut first, &larger);
    let small = Charge {
        limit: &smaller,
        ..large
    };
    assert_eq!(first.spend(second(0), large, 20), 20);
    first.report(second(0));
    // The count is learned from a decision of Redis, and from the reply to a report.
    let mut other = first.beside();
    let rest = Span::from_nanos(Span::HOUR.as_nanos() - into_hour(second(0)));
    assert_eq!(wait(&other.decide(second(0), &[small])), rest);
    assert_eq!(wait(&other.decide(second(0), &[small])), rest);
    assert_eq!(wait(&first.decide(second(0), &[small])), rest);
}

/// What several instances allowed beyond the larger of two limits is paid back by as much as that
/// one allows in each window, whichever of them decides or charges.
#[test]
fn a_debt_is_paid_at_the_rate_of_the_larger_limit() {
    let [larger, smaller] = [12, 5].map(|count| Limit::fixed_window(count, Span::MINUTE).unwrap());
    let mut first = Instance::new(&Config::single(SINGLE.address()), 0);
    let large = charge(&mut first, &larger);
    let small = Charge {
        limit: &smaller,
        ..large
    };
    let mut late = first.beside();
    let mut instances = [first.beside(), first.beside(), first];
    instances[0].peek(second(0), large);
    instances[1].peek(second(0), large);
    assert_eq!(late.spend(second(0), small, 1), 1);
    instances[2].peek(second(0), large);
    for (instance, units) in instances.iter_mut().zip([12, 12, 11]) {
        assert_eq!(instance.spend(second(0), large, 20), units);
    }
    instances
        .iter()
        .for_each(|instance| instance.report(second(0)));
    // A debt of 24: the next two windows are used up.
    for (index, seconds) in [(0, 1), (1, 59), (0, 60), (1, 61)] {
        let denied = instances[index].decide(second(seconds), &[small]);
        assert_eq!(
            wait(&denied),
            Span::from_secs(180 - seconds),
            "at {seconds}"
        );
        instances[index].report(second(seconds));
    }
    // With five more from an instance that did not know, one more window is.
    assert_eq!(late.spend(second(62), small, 20), 5);
    late.report(second(62));
    for (index, seconds) in [(0, 63), (1, 120), (0, 180), (1, 239)] {
        instances[index].report(second(seconds));
        let denied = instances[index].beside().decide(second(seconds), &[small]);
        assert_eq!(
            wait(&denied),
            Span::from_secs(240 - seconds),
            "at {seconds}"
        );
    }
    assert_eq!(instances[0].spend(second(240), small, 20), 5);
}

#[test]
fn a_changed_limit_keeps_what_fits_it() {
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let (allowed, mut instances) = three_instances(&limit, second(0));
    assert_eq!(allowed, 30);
    let larger = Limit::fixed_window(40, Span::DAY).unwrap();
    let charge = charge(&mut instances[0], &larger);
    assert_eq!(instances[0].spend(second(1), charge, 50), 10);
    let smaller = Limit::token_bucket(5, Span::DAY).unwrap();
    let charge = Charge {
        limit: &smaller,
        ..charge
    };
    assert_eq!(instances[0].spend(second(2), charge, 10), 0);
    let denied = instances[0].decide(second(2), &[charge]);
    assert!(wait(&denied) <= Span::DAY);
}

/// A reload changes the mode of the rule before everything is reported.
#[test]
fn another_mode_decides_on_what_was_counted_here() {
    let limit = Limit::fixed_window(10, Span::MINUTE).unwrap();
    for mode in [Mode::Strict, Mode::Leased] {
        let mut instance = Instance::new(&Config::single(SINGLE.address()), 0);
        let charge = charge(&mut instance, &limit);
        instance.peek(second(0), charge);
        assert_eq!(instance.spend(second(0), charge, 7), 7);
        let charge = charge.shared(Sharing::in_mode(mode));
        let decide = || {
            instance
                .runtime
                .block_on(instance.store.decide(&[charge]))
                .unwrap()
        };
        let allowed = (0..10).filter(|_| decide().is_allowed()).count();
        assert_eq!(allowed, 3, "{mode:?}");
    }
}

/// Two reloads: the rule changes to another mode, and back within an interval.
#[test]
fn what_another_mode_allowed_counts_when_the_rule_comes_back() {
    let limit = Limit::fixed_window(10, Span::MINUTE).unwrap();
    for mode in [Mode::Strict, Mode::Leased] {
        let mut instance = Instance::new(&Config::single(SINGLE.address()), 0);
        let charge = charge(&mut instance, &limit);
        instance.peek(second(0), charge);
        assert_eq!(instance.spend(second(0), charge, 2), 2);
        instance.report(second(0));
        let other = charge.shared(Sharing::in_mode(mode));
        let decide = || {
            instance
                .runtime
                .block_on(instance.store.decide(&[other]))
                .unwrap()
        };
        assert!((0..5).all(|_| decide().is_allowed()), "{mode:?}");
        let allowed = instance.spend(second(0), charge, 10);
        assert!(allowed <= 3, "{mode:?}: {allowed} of 3");
    }
}

#[test]
fn a_key_that_rests_is_evicted() {
    let limit = Limit::token_bucket(1, Span::MINUTE).unwrap();
    let mut instance = Instance::new(&Config::single(SINGLE.address()), 0);
    let charge = charge(&mut instance, &limit);
    assert_eq!(instance.spend(second(0), charge, 2), 1);
    instance.report(second(1));
    assert_eq!(instance.store.counts().write_back_keys, 1);
    instance.report(second(9));
    assert_eq!(instance.store.counts().write_back_keys, 1);
    instance.report(second(11));
    assert_eq!(instance.store.counts().write_back_keys, 0);
    // The state in Redis is unchanged.
    assert_eq!(instance.spend(second(12), charge, 1), 0);
    let moment: Moment = second(60).utc;
    assert_eq!(instance.spend(Now::at(moment), charge, 2), 1);
}

/// A table without a Redis, and its time.
fn table() -> (Arc<Table>, Arc<AtomicU64>) {
    let given = Arc::new(AtomicU64::new(0));
    let table = {
        let clock = MonotonicClock::new(environment(&given).clock);
        Table::new(clock, Some(Arc::clone(&given)), Span::from_millis(110))
    };
    (table, given)
}

/// All lines that are due.
fn due(table: &Table) -> Report {
    table.begin_round();
    table.take_due(usize::MAX)
}

/// The state of a key with nothing consumed.
fn fresh(limit: &Limit) -> Snapshot {
    Snapshot::Account(Account::fresh(limit))
}

/// Applies replies that nothing was consumed yet.
fn apply_report(table: &Table, report: &Report, limit: &Limit) {
    for line in &report.lines {
        table.apply_reply(line, fresh(limit), 0);
    }
}

/// Decides on a key that is not known, by Redis.
fn learn(table: &Table, charge: &Charge<'_>) {
    let outcome = ask(table, charge);
    assert!(matches!(outcome, Next::Redis(_)), "it is known");
    allow(table, charge);
}

/// Redis decides on a unit of a fresh key.
fn allow(table: &Table, charge: &Charge<'_>) {
    let learning = table.learn(charge.key);
    let decision = learning.finish(fresh(charge.limit), charge, 0);
    assert!(decision.unwrap().is_allowed());
}

fn ask(table: &Table, charge: &Charge<'_>) -> Next {
    table.decide(charge).unwrap()
}

fn is_decided(table: &Table, charge: &Charge<'_>) -> bool {
    matches!(ask(table, charge), Next::Decided(_))
}

fn units(report: &Report) -> u64 {
    let parts = report.lines.iter().flat_map(|line| &line.parts);
    parts.map(|part| part.units).sum()
}

fn write_back(number: u128, limit: &Limit) -> Charge<'_> {
    Charge::new(Key::from_bits(number), limit, Cost::ONE).shared(Sharing::in_mode(Mode::WriteBack))
}

/// In a Cluster each key is counted at the time of its own server, also in a request over several.
#[test]
fn a_server_whose_clock_is_ahead_locks_no_key_of_another() {
    let limit = Limit::token_bucket(10, Span::SECOND).unwrap();
    let clock = MonotonicClock::new(None);
    let table = Table::new(clock, None, Span::HOUR);
    let ahead = 3_600_000_000;
    let charges = [write_back(1, &limit), write_back(2, &limit)];
    for (charge, redis_now) in charges.iter().zip([1_000_000, ahead]) {
        assert!(matches!(ask(&table, charge), Next::Redis(_)));
        let learning = table.learn(charge.key);
        let decision = learning.finish(fresh(&limit), charge, redis_now);
        assert!(decision.unwrap().is_allowed());
    }
    let both = table.decide_all(&charges).unwrap();
    assert!(matches!(both, Next::Decided(verdict) if verdict.is_allowed()));
    for charge in &charges {
        let alone = table.decide(charge).unwrap();
        assert!(matches!(alone, Next::Decided(verdict) if verdict.is_allowed()));
    }
    for line in due(&table).lines {
        let full_at = line.parts.iter().map(|part| part.at).max().unwrap();
        assert!(full_at < ahead || line.key == charges[1].key);
    }
}

#[test]
fn a_key_without_room_is_asked_for() {
    let limit = Limit::token_bucket(10, Span::SECOND).unwrap();
    let (table, given) = table();
    for number in 0..u128::try_from(KEYS_MAX).unwrap() {
        learn(&table, &write_back(number, &limit));
    }
    let more = write_back(1 << 100, &limit);
    assert!(matches!(ask(&table, &more), Next::Remote));
    // Idle keys make room for others.
    given.store(11_000_000, Ordering::SeqCst);
    assert!(matches!(ask(&table, &more), Next::Redis(_)));
    assert!(table.counts().1 < KEYS_MAX);
}

#[test]
fn nobody_goes_on_for_longer_than_an_interval_and_a_timeout() {
    let limit = Limit::token_bucket(1_000, Span::SECOND).unwrap();
    let (table, given) = table();
    let charge = write_back(7, &limit);
    assert!(matches!(ask(&table, &charge), Next::Redis(_)));
    // A caller that goes away while Redis decides leaves no other waiting.
    assert!(matches!(ask(&table, &charge), Next::Wait(_)));
    drop(table.learn(charge.key));
    learn(&table, &charge);
    given.store(1_000, Ordering::SeqCst);
    assert!(is_decided(&table, &charge));
    // A report in flight is no reply.
    given.store(100_000, Ordering::SeqCst);
    let on_its_way = due(&table);
    assert_eq!(on_its_way.lines.len(), 1);
    given.store(110_999, Ordering::SeqCst);
    assert!(is_decided(&table, &charge));
    given.store(111_000, Ordering::SeqCst);
    assert!(matches!(ask(&table, &charge), Next::Wait(_)));
    // However late, a reply counts for what was reported.
    apply_report(&table, &on_its_way, &limit);
    assert!(is_decided(&table, &charge));
    given.store(220_999, Ordering::SeqCst);
    let Next::Report(alone) = ask(&table, &charge) else {
        panic!("what is too old is reported before anything else");
    };
    assert_eq!(units(&alone), 2);
    table.drop_line(&alone.lines[0]);
    assert!(matches!(ask(&table, &charge), Next::Redis(_)));
}

#[test]
fn what_was_lost_is_not_repeated_and_what_was_not_sent_is() {
    let limit = Limit::fixed_window(1_000, Span::DAY).unwrap();
    let (table, _) = table();
    let charge = write_back(7, &limit);
    learn(&table, &charge);
    for _ in 0..3 {
        assert!(is_decided(&table, &charge));
    }
    let unsent = due(&table);
    assert_eq!(units(&unsent), 3);
    assert!(is_decided(&table, &charge));
    for line in unsent.lines {
        table.put_back(line);
    }
    let lost = due(&table);
    assert_eq!(units(&lost), 4);
    for line in &lost.lines {
        table.drop_line(line);
    }
    // It is not reported again, however long the key is not used.
    assert!(due(&table).lines.is_empty());
    learn(&table, &charge);
    assert!(due(&table).lines.is_empty());
}

/// A node of a Cluster is away, and there are so many keys that each of the two reporters sends
/// more than one message after the first that fails in part.
#[test]
fn a_node_that_is_away_delays_no_report_to_the_others() {
    const KEYS: usize = 6 * 1_024;
    // `redis-cli` gives each of three primaries a third of the slots, the first one these.
    const AWAY: Range<u16> = 0..5_461;
    let cluster = testbed::Cluster::start();
    let mut instance = Instance::new(&Config::cluster(cluster.addresses()), 0);
    let limit = Limit::fixed_window(10, Span::MINUTE).unwrap();
    let keys: Vec<Key> = (0..KEYS)
        .map(|key| instance.key(&key.to_string()))
        .collect();
    // The first decision is made by Redis, the second one here.
    for key in keys.iter().chain(&keys) {
        let charge = Charge::new(*key, &limit, Cost::ONE);
        assert!(instance.decide(second(0), &[charge]).is_allowed());
    }
    let table = Arc::clone(&instance.store.write_back().table);
    instance.store.stop_reports();
    cluster.master_of(AWAY.start).kill();
    let round = instance.store.write_back().reporter.report_round();
    let lines = instance.runtime.block_on(round);
    assert_eq!(lines, None, "some could not be reported");
    let left = due(&table).lines.into_iter();
    let delayed = left.filter(|line| !AWAY.contains(&keys::slot(line.key)));
    assert_eq!(delayed.count(), 0);
}

#[test]
fn a_round_ends_although_decisions_go_on() {
    const KEYS: u128 = 500;
    let limit = Limit::fixed_window(1_000, Span::DAY).unwrap();
    let (table, _) = table();
    let charge = |number| write_back(number, &limit);
    (0..KEYS).for_each(|number| learn(&table, &charge(number)));
    for number in 0..KEYS {
        assert!(is_decided(&table, &charge(number)));
    }
    table.begin_round();
    let (mut lines, mut messages) = (0, 0);
    loop {
        let report = table.take_due(64);
        if report.lines.is_empty() {
            break;
        }
        assert!(report.lines.len() <= 64);
        (lines, messages) = (lines + report.lines.len(), messages + 1);
        apply_report(&table, &report, &limit);
        for line in &report.lines {
            let number = line.key.bits();
            assert!(is_decided(&table, &charge(number)));
        }
    }
    assert_eq!((lines, messages), (500, 8));
    assert_eq!(due(&table).lines.len(), 500);
}

#[test]
fn cold_keys_are_decided_by_redis_while_reports_are_behind() {
    const KEYS: u128 = 4_096;
    let limit = Limit::fixed_window(1_000, Span::DAY).unwrap();
    let (table, given) = table();
    let charge = |number| write_back(number, &limit);
    (0..KEYS).for_each(|number| learn(&table, &charge(number)));
    // Every key is used once, when all was reported; how many of them are decided here.
    let decided_here = || {
        apply_report(&table, &due(&table), &limit);
        given.fetch_add(1_000_000, Ordering::SeqCst);
        let mut decided: u128 = 0;
        for number in 0..KEYS {
            match ask(&table, &charge(number)) {
                Next::Decided(_) => decided += 1,
                Next::Redis(_) => allow(&table, &charge(number)),
                _ => panic!("nobody waits or reports"),
            }
        }
        // A key that was just decided on adds no line, or has one already.
        assert!((0..KEYS).all(|number| is_decided(&table, &charge(number))));
        decided
    };
    let [half, quick, slow] = [50, 10, 100].map(Duration::from_millis);
    assert_eq!(decided_here(), 1_024);
    table.adapt(1_024, slow, half);
    assert_eq!(decided_here(), 512);
    for _ in 0..4 {
        table.adapt(512, quick, half);
    }
    assert_eq!(decided_here(), 1_248);
    // However slow reports are, some are made.
    table.adapt(1, 1_000 * slow, half);
    assert_eq!(decided_here(), 64);
    // When reports are quick again, nearly all decisions are made here within twenty intervals.
    for _ in 0..20 {
        table.adapt(64, quick, half);
    }
    assert_eq!(decided_here(), KEYS);
}
