//! What a key is called: its values, or of values that share a counter the pattern of the rule.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fmt::Write as _;
use std::ops::ControlFlow;

use tollgate_replay::{
    Format, LogKind, Options, Summary, Traffic, Warning, compare, replay, survey,
};
use tollgate_rules::{RuleSet, Source};

fn rules(text: &str) -> RuleSet {
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", text)], &Default::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.rules
}

/// 120 requests, each with its own path, the last 20 of which are of another client.
fn traffic(descriptors: &[&str]) -> Traffic {
    let mut log = String::new();
    for index in 0..120 {
        let client = index / 100;
        writeln!(
            log,
            "c{client} - - [01/Jan/2026:10:00:00 +0000] \"GET /blog/{index} HTTP/1.1\" 200 1"
        )
        .unwrap();
    }
    let mut traffic = Traffic::new(Format::AccessLog {
        kind: LogKind::Common,
        domain: "web".to_owned(),
        descriptors: descriptors
            .iter()
            .map(|text| text.parse().unwrap())
            .collect(),
    });
    traffic.read("log", log.as_bytes()).unwrap();
    traffic
}

fn pairs(descriptor: &[(String, String)]) -> Vec<String> {
    let pairs = descriptor.iter();
    pairs.map(|(key, value)| format!("{key}={value}")).collect()
}

#[test]
fn a_counter_that_values_share_has_the_name_of_their_pattern() {
    let loose = rules("{domain: web, descriptors: [{key: path, rate_limit: 1/second}]}");
    for (descriptor, rule, expected) in [
        (
            "path={path}",
            "share_threshold: true, rate_limit: 7/minute",
            &["path=/blog/*"][..],
        ),
        (
            "path={path},client={client}",
            "share_threshold: true, descriptors: [{key: client, rate_limit: 7/minute}]",
            &["path=/blog/*", "client=c0"],
        ),
        ("path={path}", "rate_limit: 0/minute", &["path=/blog/0"]),
    ] {
        let text =
            format!("{{domain: web, descriptors: [{{key: path, value: '/blog/*', {rule}}}]}}");
        let strict = rules(&text);
        let mut traffic = traffic(&[descriptor]);
        let options = Options::default();
        let go_on = &mut |_| ControlFlow::Continue(());
        let (report, survey) = survey(&mut traffic, &strict, options, None, go_on).unwrap();
        assert_eq!(pairs(&report.denied_keys.first[0].descriptor), expected);
        assert_eq!(pairs(&survey.denied[0].descriptor), expected);
        let json = &report.to_json(&traffic)["topDeniedKeys"][0]["descriptor"][0];
        assert_eq!(
            format!("path={}", json["value"].as_str().unwrap()),
            expected[0]
        );
        let shown = Summary {
            report: &report,
            traffic: &traffic,
        };
        let line = format!("  {}\n", expected.join(" "));
        assert!(shown.to_string().contains(&line), "{shown}");
        let options = Options::default();
        let compared = compare(&mut traffic, &loose, &strict, options, None, go_on).unwrap();
        assert_eq!(
            pairs(&compared.newly_denied_keys.first[0].descriptor),
            expected
        );
    }
}

#[test]
fn the_warning_of_one_key_names_the_descriptor_that_has_it() {
    let rules = rules(
        "{domain: web, descriptors: [{key: all, rate_limit: 9/minute}, \
         {key: path, value: '/blog/*', share_threshold: true, descriptors: [{key: host, \
         rate_limit: 9/minute}]}]}",
    );
    let mut traffic = traffic(&["client={client}", "all=x", "path={path},host=h"]);
    let go_on = &mut |_| ControlFlow::Continue(());
    let report = replay(&mut traffic, &rules, Options::default(), None, go_on).unwrap();
    let one_key = report.warnings.iter();
    let one_key = one_key.filter(|warning| matches!(warning, Warning::OneKey { .. }));
    let shown: Vec<String> = one_key.map(ToString::to_string).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    for (shown, expected) in shown.iter().zip([
        "120 of 120 events of `all` have one key (all=x). If",
        "120 of 120 events of `path_/blog/*.host` have one key (path=/blog/*, host=h). If",
    ]) {
        assert!(shown.starts_with(expected), "{shown}");
    }
}
