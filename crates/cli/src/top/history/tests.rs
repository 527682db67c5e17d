#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::super::overview::numbers;
use super::super::sample::{document, snapshot};
use super::*;

fn after(seconds: impl Iterator<Item = u64>) -> History {
    let mut history = History::default();
    seconds.for_each(|second| history.push(snapshot(second)));
    history
}

#[test]
fn rates_and_times_are_those_of_the_last_seconds() {
    let history = after(100..=120);
    assert_eq!(history.rate(Snapshot::total), Some(Rate(125_000)));
    assert_eq!(
        history.rate(|one| one.count(&["denied"])),
        Some(Rate(25_000))
    );
    let micros = |count| Some(Duration::from_micros(count));
    assert_eq!(history.percentile(500), micros(10));
    assert_eq!(history.percentile(999), micros(1000));
    assert_eq!(history.watched_millis(), 20_500);
    // A gap, as while there was no connection.
    let history = after([100, 101, 130].into_iter());
    assert_eq!(history.rate(Snapshot::total), Some(Rate(125_000)));
}

#[test]
fn a_single_snapshot_has_no_rates_and_a_restart_begins_again() {
    let history = after([100].into_iter());
    assert_eq!(history.rate(Snapshot::total), None);
    assert_eq!(history.percentile(500), None);
    for restarted in [[100, 101, 1], [100, 101, 101]] {
        let history = after(restarted.into_iter());
        assert_eq!(history.points().len(), 1);
        assert_eq!(history.rate(Snapshot::total), None);
    }
}

#[test]
fn no_more_is_kept_than_charts_and_rates_need() {
    let history = after(1..=1000);
    assert_eq!(history.points().len(), POINTS_MAX);
    assert_eq!(history.snapshots.len(), SNAPSHOTS_MAX);
}

#[test]
fn counts_that_shrink_or_are_huge_do_not_overflow() {
    let mut history = after([2].into_iter());
    let mut next = snapshot(1);
    next.uptime_millis = 3000;
    next.outcomes
        .values_mut()
        .for_each(|count| *count = u64::MAX);
    for (_, count) in next.latency.values_mut().flatten() {
        *count = u64::MAX;
    }
    history.push(next);
    assert!(history.rate(Snapshot::total) > Some(Rate(u64::MAX / 2)));
    assert!(history.percentile(990).is_some());
    // As after a reload, at which the counts of rules that are gone go with them.
    let mut last = history.latest().unwrap().clone();
    last.uptime_millis = 4000;
    last.outcomes.values_mut().for_each(|count| *count = 7);
    history.push(last);
    assert_eq!(history.rate(|one| one.count(&["allowed"])), Some(Rate(0)));
}

#[test]
fn a_restart_is_noticed_also_after_a_long_break() {
    let mut history = after([100, 101].into_iter());
    let mut restarted = snapshot(50);
    restarted.uptime_millis = 300_000;
    history.push(restarted);
    assert_eq!(history.points().len(), 1);
    assert_eq!(history.rate(Snapshot::total), None);
}

#[test]
fn what_no_store_answers_is_denied() {
    let mut history = History::default();
    for second in [100, 101] {
        let mut unavailable = document(second);
        unavailable["outcomes"] = json!({"store_unavailable": 40 * second});
        unavailable["rules"][0]["counts"] = unavailable["outcomes"].clone();
        history.push(serde_json::from_value(unavailable).unwrap());
    }
    assert_eq!(history.points()[1].denied, Some(Rate(40_000)));
    let shown = numbers(&history, 80)[0].to_string();
    assert!(shown.contains("denied 100.0 % (40/s)"), "{shown}");
    assert_eq!(history.latest().unwrap().rules[0].denied(), 40 * 101);
}
