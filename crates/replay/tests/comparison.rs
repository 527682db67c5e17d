//! Two sets of rules for the same traffic: every count follows from two single replays.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;

use serde_json::{Value, json};
use tollgate_replay::{
    Comparison, ComparisonPage, ComparisonSummary, FieldNames, Format, Layout, LogKind, Memories,
    Options, Report, TOP_KEYS_MAX, Traffic, compare, replay,
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
        sums_over_time(name, &compared);
        sums_of_page(name, &compared, &traffic);
    }
}

/// Every slot adds up to the counts of the comparison.
fn sums_over_time(name: &str, compared: &Comparison) {
    let found = &compared.over_time;
    let slots = found.timeline.slots.iter();
    let offered: u64 = slots.clone().map(|slot| slot.offered).sum();
    let denied: u64 = slots.map(|slot| slot.denied).sum();
    assert_eq!(
        (offered, denied),
        (compared.after.events, compared.after.denied),
        "{name}"
    );
    for (direction, count, rules) in [
        (
            &found.newly_denied,
            compared.newly_denied,
            &compared.after.rules,
        ),
        (
            &found.no_longer_denied,
            compared.no_longer_denied,
            &compared.before.rules,
        ),
    ] {
        assert_eq!(direction.slots.iter().sum::<u64>(), count, "{name}");
        for (rule, slots) in rules.iter().zip(&direction.by_rule) {
            let mut changes = compared.rules.iter();
            let change = changes.find(|change| change.rule.shown() == rule.rule.shown());
            let change = change.unwrap();
            let counts = [change.newly_denied, change.no_longer_denied];
            assert!(
                counts.contains(&slots.iter().sum()),
                "{name} {:?}",
                rule.rule
            );
        }
        let by_rule: u64 = direction.by_rule.iter().flatten().sum();
        assert_eq!(by_rule, count, "{name}");
    }
}

/// The numbers of the page are those of the JSON.
fn sums_of_page(name: &str, compared: &Comparison, traffic: &Traffic) {
    let json = compared.to_json(traffic);
    let page = page(compared, traffic);
    for (id, expected) in [
        ("offered", &json["after"]["events"]),
        ("denied-before", &json["before"]["denied"]),
        ("denied-after", &json["after"]["denied"]),
        ("newly-denied", &json["newlyDenied"]),
        ("no-longer-denied", &json["noLongerDenied"]),
        ("changed-clients", &json["changedClients"]),
    ] {
        let written = format!("id=\"{id}\" data-count=\"{expected}\"");
        assert!(page.contains(&written), "{name}: {written}");
    }
    for (table, column, expected) in [
        ("keys-denied", 2, &json["newlyDenied"]),
        ("keys-freed", 2, &json["noLongerDenied"]),
        ("clients", 1, &json["newlyDenied"]),
        ("clients", 2, &json["noLongerDenied"]),
    ] {
        assert_eq!(
            column_sum(&page, table, column),
            *expected,
            "{name} {table}"
        );
    }
}

fn page(comparison: &Comparison, traffic: &Traffic) -> String {
    let page = ComparisonPage {
        comparison,
        traffic,
    };
    page.to_string()
}

/// The sum of a column of a table; 0 if the page does not have the table.
fn column_sum(page: &str, table: &str, column: usize) -> u64 {
    let Some((_, rest)) = page.split_once(&format!("<table id=\"{table}\">")) else {
        return 0;
    };
    let rows = rest.split_once("</table>").unwrap().0.split("<tr>").skip(2);
    let cells = rows.map(|row| row.split("<td").nth(column + 1).unwrap());
    let counts = cells.map(|cell| {
        let text = cell.split_once('>').unwrap().1.split_once('<').unwrap().0;
        text.replace('\u{202f}', "").parse::<u64>().unwrap()
    });
    counts.sum()
}

#[test]
fn rows_beyond_the_bounds_of_a_page_are_added_up() {
    let log: String = (0..250)
        .flat_map(|client| [client; 3])
        .map(|client| {
            format!("client-{client} - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n")
        })
        .collect();
    let mut traffic = Traffic::new(Format::AccessLog {
        kind: LogKind::Combined,
        domain: "web".to_owned(),
        descriptors: vec!["client={client}".parse().unwrap()],
    })
    .with_clients();
    traffic.read("a.log", log.as_bytes()).unwrap();
    let many: String = (0..20)
        .map(|index| format!("{{key: client, value: client-{index}, rate_limit: 1/day}}, "))
        .collect();
    let old = rules("{domain: web, descriptors: [{key: client, rate_limit: 3/day}]}");
    let new = rules(&format!(
        "{{domain: web, descriptors: [{many}{{key: client, rate_limit: 2/day}}]}}"
    ));
    let all = options(Memories::Unbounded);
    let compared = compare(&mut traffic, &old, &new, all, None, &mut go_on).unwrap();
    assert_eq!(compared.newly_denied, 20 * 2 + 230);
    let page = page(&compared, &traffic);
    assert_eq!(column_sum(&page, "keys-denied", 2), 270);
    assert_eq!(column_sum(&page, "clients", 1), 270);
    assert!(page.contains("The 100 keys with the most requests that are newly denied, of 250."));
    let bounds = page.split_once("<ul id=\"bounds\">").unwrap().1;
    assert!(bounds.contains("Of 21 new rules, the first 12 are in the charts one by one."));
    assert!(page.contains("other rules"));
    assert_eq!(compared.over_time.newly_denied.by_rule.len(), 13);
}

#[test]
fn nothing_from_a_log_or_the_rules_is_markup_in_the_page() {
    let hostile = "<script>alert(1)</script>'\"&";
    // The common format has no such clients.
    let client = "<b>'onload=x\u{202e}\u{1b}[2J";
    let line = json!({"time": 1_431_857_103, "client": client, "path": format!("/{hostile}")});
    let log = format!("{line}\n").repeat(3) + "<i>no line</i>\n";
    let mut traffic = Traffic::new(Format::AccessLog {
        kind: LogKind::Layout(Layout::json(FieldNames::common())),
        domain: "web".to_owned(),
        descriptors: vec!["client={client},path={path}".parse().unwrap()],
    })
    .with_clients();
    traffic.read("<script>.log", log.as_bytes()).unwrap();
    let set = |count: u64| {
        rules(&format!(
            "{{domain: web, descriptors: [{{key: client, descriptors: [{{key: path, \
             rate_limit: {{name: \"<svg onload=x>\", unit: day, \
             requests_per_unit: {count}}}}}]}}]}}"
        ))
    };
    let (old, new) = (set(2), set(0));
    let all = options(Memories::Unbounded);
    let compared = compare(&mut traffic, &old, &new, all, None, &mut go_on).unwrap();
    assert_eq!(compared.newly_denied, 2);
    let page = page(&compared, &traffic);
    let body = page.split_once("</style>").unwrap().1;
    assert!(body.contains("&lt;svg onload=x&gt;"), "{body}");
    assert!(body.contains("client=&lt;b&gt;&#39;onload=x"), "{body}");
    for forbidden in ["<script", "<svg onload", "<b>", "<i>", "\u{1b}", "\u{202e}"] {
        assert!(!body.contains(forbidden), "{forbidden}: {body}");
    }
    for tag in body.split('<').skip(1) {
        assert!(!tag.split('>').next().unwrap().contains("=x"), "<{tag}");
    }
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("));
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
    let page = page(&compared, &traffic);
    assert!(page.contains("No request changes its outcome."));
    assert!(!page.contains("Keys: "));
}

#[test]
fn a_change_of_enforcement_is_shown_in_every_format() {
    let rules_in = |mode: &str| {
        rules(&format!(
            "{{domain: web, descriptors: [{{key: client, {mode}rate_limit: 10/minute}}]}}"
        ))
    };
    let (old, new) = (rules_in("shadow_mode: true, "), rules_in(""));
    let mut traffic = traffic("hackers_combined");
    let options = options(Memories::Unbounded);
    let compared = compare(&mut traffic, &old, &new, options, None, &mut go_on).unwrap();
    let words = "10 per 1m fixed_window, was 10 per 1m fixed_window (shadow)";
    assert!(page(&compared, &traffic).contains(words));
    let text = ComparisonSummary {
        comparison: &compared,
        traffic: &traffic,
    };
    let text = text.to_string();
    assert!(text.contains(words), "{text}");
    let json = compared.to_json(&traffic);
    let rule = &json["rules"][0];
    assert_eq!(rule["before"]["mode"], "shadow", "{rule}");
    assert_eq!(rule["after"]["mode"], "enforce", "{rule}");
}

/// For each rule of the new set, then each that is gone: its limit before, and after.
fn pairs(old: &str, new: &str) -> Vec<[Option<String>; 2]> {
    let set = |list: &str| rules(&format!("{{domain: web, descriptors: [{list}]}}"));
    let mut traffic = Traffic::new(Format::AccessLog {
        kind: LogKind::Combined,
        domain: "web".to_owned(),
        descriptors: vec!["a={client}".parse().unwrap()],
    });
    let log = "c - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";
    traffic.read("log", log.as_bytes()).unwrap();
    let options = options(Memories::Unbounded);
    let compared = compare(
        &mut traffic,
        &set(old),
        &set(new),
        options,
        None,
        &mut go_on,
    )
    .unwrap();
    let limit = |totals: &Option<tollgate_replay::RuleTotals>| {
        let words = totals.as_ref()?.limit.split(' ').next();
        words.map(str::to_owned)
    };
    let rules = compared.rules.iter();
    let rules = rules.map(|change| [limit(&change.before), limit(&change.after)]);
    rules.collect()
}

#[test]
fn rules_with_one_name_are_paired_by_their_paths() {
    let rule = |key: &str, name: &str, count: u32| {
        format!(
            "{{key: {key}, rate_limit: {{name: {name}, unit: day, requests_per_unit: {count}}}}}"
        )
    };
    let pair = |before: u32, after: u32| {
        [before, after].map(|count| Some(count).filter(|count| *count > 0))
    };
    let list = |rules: &[String]| rules.join(", ");
    let twice = list(&[rule("a", "n", 1), rule("b", "n", 2)]);
    for (case, new, expected) in [
        ("the same", twice.clone(), vec![pair(1, 1), pair(2, 2)]),
        (
            "in another order",
            list(&[rule("b", "n", 3), rule("a", "n", 4)]),
            vec![pair(2, 3), pair(1, 4)],
        ),
        (
            "with another name",
            list(&[rule("b", "m", 3), rule("a", "n", 4)]),
            vec![pair(2, 3), pair(1, 4)],
        ),
        (
            "which of both moved is not known",
            list(&[rule("c", "n", 3)]),
            vec![pair(0, 3), pair(1, 0), pair(2, 0)],
        ),
    ] {
        let expected = expected.into_iter();
        let expected = expected.map(|pair| pair.map(|count| count.map(|count| count.to_string())));
        assert_eq!(pairs(&twice, &new), expected.collect::<Vec<_>>(), "{case}");
    }
    let moved = pairs(&rule("a", "n", 1), &rule("b", "n", 2));
    assert_eq!(
        moved,
        [pair(1, 2).map(|count| count.map(|count| count.to_string()))]
    );
}
