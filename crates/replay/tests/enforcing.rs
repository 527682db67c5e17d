//! A limit that is enforced for a share of its keys, in a report.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use tollgate_replay::{Format, LogKind, Options, Traffic, replay};
use tollgate_rules::{RuleSet, Source};

#[test]
fn keys_that_are_not_enforced_are_those_of_a_shadow_limit() {
    let mut log = String::new();
    for client in (0..100).chain(0..100) {
        log.push_str(&format!(
            "10.0.0.{client} - - [01/Jan/2024:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n"
        ));
    }
    let mut traffic = Traffic::new(Format::AccessLog {
        kind: LogKind::Common,
        domain: "web".to_owned(),
        descriptors: vec!["client={client}".parse().unwrap()],
    });
    traffic.read("access.log", log.as_bytes()).unwrap();
    let text = "{domain: web, descriptors: [{key: client, enforce: 30%, rate_limit: 1/day}]}";
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", text)], &Default::default());
    let options = Options {
        top_keys: 1000,
        ..Options::default()
    };
    let mut go_on = |_: u64| ControlFlow::Continue(());
    let report = replay(&mut traffic, &loaded.rules, options, None, &mut go_on).unwrap();
    let (denied, shadow) = (&report.denied_keys, &report.shadow_keys);
    assert_eq!(denied.count + shadow.count, 100);
    assert!((15..=45).contains(&denied.count), "{}", denied.count);
    assert_eq!(report.denied, denied.count);
    assert_eq!(
        (report.rules[0].over, report.rules[0].denied),
        (100, denied.count)
    );
    let keys = denied.first.iter().chain(&shadow.first);
    let keys: BTreeSet<_> = keys.map(|key| &key.descriptor[0].1).collect();
    assert_eq!(keys.len(), 100);
}
