//! The worked examples of docs/semantics.md, as traces.
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::{Value, json};
use std::ops::ControlFlow;

use tollgate_replay::{Format, Memories, Options, Traffic, replay};
use tollgate_rules::{RuleSet, Source};

/// Decides requests at these moments, in thousandths of a second.
fn decided(limit: &str, millis: &[u64]) -> Vec<Value> {
    let rules = format!("{{domain: d, descriptors: [{{key: k, rate_limit: {{{limit}}}}}]}}");
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", rules)], &Default::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    let event = |at: &u64| {
        let (seconds, millis) = (at / 1000, at % 1000);
        format!(
            "{{\"at\":{seconds}.{millis:03},\"domain\":\"d\",\
             \"descriptors\":[{{\"entries\":[{{\"key\":\"k\",\"value\":\"v\"}}]}}]}}\n"
        )
    };
    let trace: String = millis.iter().map(event).collect();
    let decided = run(&loaded.rules, &trace, Memories::Unbounded);
    // The service's store has room enough, so it must say the same.
    let max_keys = 1000.try_into().unwrap();
    assert_eq!(
        decided,
        run(&loaded.rules, &trace, Memories::Bounded { max_keys })
    );
    decided
}

fn run(rules: &RuleSet, trace: &str, memories: Memories) -> Vec<Value> {
    let mut traffic = Traffic::new(Format::Trace);
    traffic.read("trace", trace.as_bytes()).unwrap();
    assert_eq!(traffic.skipped_lines().count, 0);
    let mut decisions = Vec::new();
    let options = Options {
        memories,
        ..Options::default()
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    replay(&mut traffic, rules, options, Some(&mut decisions), go_on).unwrap();
    let lines = serde_json::Deserializer::from_slice(&decisions).into_iter();
    lines.map(Result::unwrap).collect()
}

fn allowed(decisions: &[Value]) -> Vec<bool> {
    decisions
        .iter()
        .map(|decision| decision["allowed"] == json!(true))
        .collect()
}

fn remaining(decision: &Value) -> &Value {
    &decision["statuses"][0]["limitRemaining"]
}

#[test]
fn row_1_fixed_windows_allow_twice_the_limit_around_their_end() {
    let noon = 12 * 3_600_000;
    let millis = [30_000, 45_000, 59_000, 60_000, 65_000, 70_000, 71_000].map(|at| noon + at);
    let decisions = decided("unit: minute, requests_per_unit: 3", &millis);
    assert_eq!(
        allowed(&decisions),
        [true, true, true, true, true, true, false]
    );
    assert_eq!(decisions[6]["retryAfter"], "49s");
}

#[test]
fn row_2_a_sliding_log_waits_for_the_oldest_to_leave() {
    let at = 12 * 3_600_000 + 60_000;
    let millis = [10_000, 28_000, 30_000, 31_000].map(|second| at + second);
    let decisions = decided(
        "algorithm: sliding_log, unit: minute, requests_per_unit: 3",
        &millis,
    );
    assert_eq!(allowed(&decisions), [true, true, true, false]);
    assert_eq!(remaining(&decisions[2]), 0);
    assert_eq!(decisions[3]["retryAfter"], "39s");
}

#[test]
fn row_3_a_sliding_log_to_the_millisecond() {
    let limit = "algorithm: sliding_log, unit: second, requests_per_unit: 2";
    let decisions = decided(limit, &[100, 200, 300, 1100]);
    assert_eq!(allowed(&decisions), [true, true, false, true]);
    assert_eq!(decisions[2]["retryAfter"], "0.8s");
}

#[test]
fn rows_4_and_5_a_sliding_window_weighs_the_previous_one() {
    let limit = "algorithm: sliding_window, unit: second, requests_per_unit: 4";
    let decisions = decided(limit, &[500, 1000, 1100, 1500]);
    assert_eq!(allowed(&decisions), [true; 4]);
    assert_eq!(remaining(&decisions[3]), 1);
    let mut millis: Vec<u64> = (0..9).collect();
    // The fifth of the example's current window cannot be allowed by 15 s: with four the estimate
    // is floor(6.75) + 4 + 1, which is one too many as well.
    millis.extend([60_000, 60_001, 66_667, 73_334, 75_000]);
    let limit = "algorithm: sliding_window, unit: minute, requests_per_unit: 10";
    let decisions = decided(limit, &millis);
    assert_eq!(
        allowed(&decisions),
        [[true; 13].as_slice(), &[false]].concat()
    );
}

#[test]
fn row_6_a_token_bucket_refills_one_token_at_a_time() {
    let limit = "algorithm: token_bucket, unit: minute, requests_per_unit: 3";
    let decisions = decided(limit, &[0, 0, 0, 0]);
    assert_eq!(allowed(&decisions), [true, true, true, false]);
    assert_eq!(decisions[3]["retryAfter"], "20s");
}

#[test]
fn row_7_a_leaky_bucket_tells_the_delay() {
    let limit = "algorithm: leaky_bucket, unit: second, requests_per_unit: 2, queue: 10";
    let decisions = decided(limit, &[1000; 20]);
    assert_eq!(allowed(&decisions), [[true; 10], [false; 10]].concat());
    let delays: Vec<_> = decisions[..10]
        .iter()
        .map(|decision| decision.get("delay"))
        .collect();
    let expected = [
        "0.5s", "1s", "1.5s", "2s", "2.5s", "3s", "3.5s", "4s", "4.5s",
    ]
    .map(|s| json!(s));
    assert_eq!(delays[0], None);
    assert_eq!(delays[1..], expected.iter().map(Some).collect::<Vec<_>>());
    assert_eq!(decisions[10]["retryAfter"], "0.5s");
    assert_eq!(decisions[10].get("delay"), None);
}

/// Offered per second, in phases of ten seconds.
const PHASES: [u64; 8] = [1, 2, 5, 10, 20, 25, 50, 100];

/// How many of each phase are served.
fn served(limit: &str) -> Vec<usize> {
    let phases = (0..).zip(PHASES).map(|(phase, rate)| {
        let start = phase * 10_000;
        (0..rate * 10).map(move |count| start + count * 1000 / rate)
    });
    let phases: Vec<Vec<u64>> = phases.map(Iterator::collect).collect();
    let decisions = allowed(&decided(limit, &phases.concat()));
    let mut rest = decisions.as_slice();
    let served = phases.iter().map(|phase| {
        let (these, others) = rest.split_at(phase.len());
        rest = others;
        these.iter().filter(|allowed| **allowed).count()
    });
    served.collect()
}

#[test]
fn row_8_what_is_offered_in_phases_is_served_up_to_the_limit() {
    let exact = [10, 20, 50, 100, 100, 100, 100, 100];
    assert_eq!(served("unit: second, requests_per_unit: 10"), exact);
    assert_eq!(
        served("algorithm: sliding_log, unit: second, requests_per_unit: 10"),
        exact
    );
    let near = |limit: &str, slack: usize| {
        for (served, exact) in served(limit).into_iter().zip(exact) {
            assert!(
                served.abs_diff(exact) <= slack,
                "{limit}: {served} of {exact}"
            );
        }
    };
    near(
        "algorithm: token_bucket, unit: second, requests_per_unit: 10",
        10,
    );
    near(
        "algorithm: leaky_bucket, unit: second, requests_per_unit: 10",
        10,
    );
    near(
        "algorithm: sliding_window, unit: second, requests_per_unit: 10",
        10,
    );
    near(
        "algorithm: sliding_window, unit: second, requests_per_unit: 10, segments: 10",
        10,
    );
}
