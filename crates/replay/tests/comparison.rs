//! Two sets of rules for the same traffic: every count follows from two single replays.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;

use serde_json::Value;
use tollgate_replay::{
    Comparison, Format, LogKind, Memories, Options, Report, TOP_KEYS_MAX, Traffic, compare, replay,
};
use tollgate_rules::{RuleSet, Source};

const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/logs");

const OLD: &str = "{domain: web, descriptors: [{key: client, rate_limit: 20/minute}, \
    {key: path, rate_limit: {name: paths, unit: minute, requests_per_unit: 30}}]}";
const NEW: &str = "{domain: web, descriptors: [{key: client, rate_limit: 10/minute}, \
    {key: path, rate_limit: {name: paths, unit: minute, requests_per_unit: 60}}, \
    {key: agent, rate_limit: 200/minute}]}";

fn rules(text: &str) -> RuleSet {
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", text)], &Default::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.rules
}

fn traffic(name: &str) -> Traffic {
    let descriptors = ["client={client}", "path={path}", "agent={user_agent}"];
    let mut traffic = Traffic::new(Format::AccessLog {
        kind: LogKind::Combined,
        domain: "web".to_owned(),
        descriptors: descriptors.map(|text| text.parse().unwrap()).to_vec(),
    })
    .with_clients();
    let log = File::open(format!("{LOGS}/{name}.log.gz")).expect("the logs in ../shared/data");
    traffic.read(name, log).unwrap();
    traffic
}

fn options(memories: Memories) -> Options {
    Options {
        memories,
        top_keys: TOP_KEYS_MAX,
    }
}

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn single(traffic: &mut Traffic, text: &str, memories: Memories) -> (Report, Vec<Value>) {
    let mut lines = Vec::new();
    let out: Option<&mut dyn Write> = Some(&mut lines);
    let report = replay(traffic, &rules(text), options(memories), out, &mut go_on).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let decisions = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (report, decisions.collect())
}

type Counts = HashMap<String, [u64; 2]>;

/// The changes between two lists of decisions: by rule, by key, by client.
fn changes(old: &[Value], new: &[Value]) -> [Counts; 3] {
    let mut counts = [Counts::new(), Counts::new(), Counts::new()];
    for (old, new) in old.iter().zip(new) {
        let (by, direction) = match (&old["allowed"], &new["allowed"]) {
            (Value::Bool(true), Value::Bool(false)) => (new, 0),
            (Value::Bool(false), Value::Bool(true)) => (old, 1),
            _ => continue,
        };
        let key = by["deniedKey"][0]["value"].as_str().unwrap();
        let names = [
            by["deniedBy"].as_str().unwrap().to_owned(),
            format!("{} {key}", by["deniedBy"].as_str().unwrap()),
            by["client"].as_str().unwrap().to_owned(),
        ];
        for (counts, name) in counts.iter_mut().zip(names) {
            counts.entry(name).or_default()[direction] += 1;
        }
    }
    counts
}

/// The same, as the comparison has it.
fn found(comparison: &Comparison) -> [Counts; 3] {
    let mut counts = [Counts::new(), Counts::new(), Counts::new()];
    for rule in &comparison.rules {
        let changes = [rule.newly_denied, rule.no_longer_denied];
        if changes != [0, 0] {
            counts[0].insert(rule.rule.shown().to_owned(), changes);
        }
    }
    for (direction, keys) in [
        &comparison.newly_denied_keys,
        &comparison.no_longer_denied_keys,
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(keys.count, u64::try_from(keys.first.len()).unwrap());
        for key in &keys.first {
            let name = format!("{} {}", key.rule.shown(), key.descriptor[0].1);
            counts[1].entry(name).or_default()[direction] += key.denied;
        }
    }
    for client in &comparison.clients {
        let changes = [client.newly_denied, client.no_longer_denied];
        counts[2].insert(client.client.clone(), changes);
    }
    counts
}

#[test]
fn every_count_follows_from_the_decisions_of_two_replays() {
    let bounded = Memories::Bounded {
        max_keys: 64.try_into().unwrap(),
    };
    for (name, memories) in [
        ("hackers_combined", Memories::Unbounded),
        ("elastic_apache_combined_10k", Memories::Unbounded),
        ("elastic_apache_combined_10k", bounded),
        ("scan_netsparker_combined", Memories::Unbounded),
        ("govapp_proxycollapsed_common", Memories::Unbounded),
    ] {
        let mut traffic = traffic(name);
        let (before, old) = single(&mut traffic, OLD, memories);
        let (after, new) = single(&mut traffic, NEW, memories);
        let (old_rules, new_rules) = (rules(OLD), rules(NEW));
        let mut lines = Vec::new();
        let compared = compare(
            &mut traffic,
            &old_rules,
            &new_rules,
            options(memories),
            Some(&mut lines),
            &mut go_on,
        )
        .unwrap();
        assert_eq!(
            (&compared.before, &compared.after),
            (&before, &after),
            "{name}"
        );
        let lines = String::from_utf8(lines).unwrap();
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(
            lines == new,
            "{name}: the decisions are those of the new rules"
        );
        let expected = changes(&old, &new);
        let total = |direction: usize| -> u64 {
            expected[0].values().map(|counts| counts[direction]).sum()
        };
        assert!(total(0) > 0, "{name}: nothing is newly denied");
        assert_eq!(
            (compared.newly_denied, compared.no_longer_denied),
            (total(0), total(1)),
            "{name}"
        );
        assert_eq!(
            after.denied + compared.no_longer_denied,
            before.denied + compared.newly_denied,
            "{name}"
        );
        assert_eq!(found(&compared), expected, "{name}");
    }
}

#[test]
fn equal_rules_change_nothing() {
    let mut traffic = traffic("scan_netsparker_combined");
    let (one, other) = (rules(OLD), rules(OLD));
    let options = options(Memories::Unbounded);
    let compared = compare(&mut traffic, &one, &other, options, None, &mut go_on).unwrap();
    assert!(compared.before.denied > 0);
    assert_eq!(compared.before, compared.after);
    assert_eq!((compared.newly_denied, compared.no_longer_denied), (0, 0));
    assert_eq!(compared.changed_clients, 0);
    for change in &compared.rules {
        assert_eq!(change.before, change.after);
    }
}
