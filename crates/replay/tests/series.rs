//! Events that are generated from requests per second.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;

use serde_json::Value;
use tollgate_replay::{
    Format, Memories, Options, Report, Selection, Traffic, parse_moment, replay, survey,
};
use tollgate_rules::{RuleSet, Source};

const TRACE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/data/traces/twitter_2021_req_per_second.txt.gz"
);

fn rules() -> RuleSet {
    let text = "{domain: web, descriptors: [{key: client, rate_limit: {unit: minute, \
        requests_per_unit: 3, algorithm: sliding_log}}]}";
    RuleSet::parse(&[Source::new("rules.yaml", text)], &Default::default()).rules
}

fn traffic(keys: u32) -> Traffic {
    Traffic::new(Format::Counts {
        domain: "web".to_owned(),
        descriptors: vec!["client={client}".parse().unwrap()],
        keys: keys.try_into().unwrap(),
        start: parse_moment("2021-08-01").unwrap(),
    })
}

fn decide(traffic: &mut Traffic) -> (Report, Vec<Value>) {
    let mut lines = Vec::new();
    let out: Option<&mut dyn Write> = Some(&mut lines);
    let go_on = &mut |_| ControlFlow::Continue(());
    let report = replay(traffic, &rules(), Options::default(), out, go_on).unwrap();
    let text = String::from_utf8(lines).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (report, lines.collect())
}

#[test]
fn each_line_is_a_second_and_bad_ones_are_empty() {
    let mut traffic = traffic(5);
    traffic.read("one", &b"2\nx\n\n0\n"[..]).unwrap();
    traffic.read("other", &b"3\n"[..]).unwrap();
    traffic.check().unwrap();
    assert_eq!((traffic.events(), traffic.skipped_lines().count), (5, 2));
    let (report, decisions) = decide(&mut traffic);
    assert_eq!(report.events, 5);
    let places: Vec<_> = decisions
        .iter()
        .map(|line| {
            let file = line["file"].as_str().unwrap().to_owned();
            (
                file,
                line["line"].as_u64().unwrap(),
                line["at"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let place =
        |file: &str, line, at: &str| (file.to_owned(), line, format!("2021-08-01T00:00:{at}Z"));
    assert_eq!(
        places,
        [
            place("one", 1, "00"),
            place("one", 1, "00.5"),
            place("other", 1, "04"),
            place("other", 1, "04.333333333"),
            place("other", 1, "04.666666666"),
        ]
    );
    let (again, same) = decide(&mut traffic);
    assert_eq!(
        (again, same),
        (report, decisions),
        "a replay can be repeated"
    );
}

#[test]
fn a_series_without_an_event_is_an_error() {
    let mut traffic = traffic(5);
    traffic.read("one", &b"0\n0\n"[..]).unwrap();
    assert!(traffic.check().is_err());
}

#[test]
fn a_part_of_the_twitter_trace_is_decided_as_its_lines_say() {
    let selection = Selection {
        from: Some(parse_moment("2021-08-01T00:01").unwrap()),
        to: Some(parse_moment("2021-08-01T00:03").unwrap()),
        filters: Vec::new(),
    };
    let mut traffic = traffic(1000).select(selection).unwrap();
    let file =
        File::open(TRACE).unwrap_or_else(|error| panic!("{TRACE}, which this test needs: {error}"));
    traffic.read("trace", file).unwrap();
    // The sum that its manifest states.
    let events = u64::try_from(traffic.events()).unwrap();
    assert_eq!(events + traffic.excluded_events(), 120_774_326);
    let (report, decisions) = decide(&mut traffic);
    assert_eq!(report.events, events);
    let denied = decisions
        .iter()
        .filter(|line| line["allowed"] == false)
        .count();
    assert_eq!(report.denied, u64::try_from(denied).unwrap());
    assert!(denied > 0 && report.allowed > 0);
    let lines: HashSet<_> = decisions
        .iter()
        .map(|line| line["line"].as_u64().unwrap())
        .collect();
    assert!(
        lines.iter().all(|line| (61..=180).contains(line)),
        "{lines:?}"
    );
    let go_on = &mut |_| ControlFlow::Continue(());
    let options = Options {
        memories: Memories::Unbounded,
        ..Options::default()
    };
    let (same, found) = survey(&mut traffic, &rules(), options, None, go_on).unwrap();
    assert_eq!(same, report);
    let offered: u64 = found.timeline.slots.iter().map(|slot| slot.offered).sum();
    assert_eq!(offered, events);
    assert!(found.denied.iter().all(|key| key.paths.first.is_empty()));
}
