//! Logs and traces of any bytes, through the whole of a replay.

use std::num::NonZeroUsize;

use tollgate_replay::{Format, LogKind, Memories, Traffic, replay};
use tollgate_rules::{Options, RuleSet, Source};

/// A rule of each algorithm.
const RULES: &str = "
domain: web
descriptors:
  - key: client
    rate_limit: 2 per 10s
  - key: path
    rate_limit: {unit: minute, requests_per_unit: 1, algorithm: sliding_log}
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 3, algorithm: sliding_window, segments: 4}
  - key: agent
    rate_limit: {unit: second, requests_per_unit: 2, algorithm: token_bucket, burst: 4}
  - key: method
    rate_limit: {unit: minute, requests_per_unit: 5, algorithm: leaky_bucket}
";

/// Reads the input as an access log, in both formats.
///
/// # Panics
///
/// As [`trace`].
pub fn access_log(input: &[u8]) {
    let patterns = [
        "client={client}",
        "path={path}{query}",
        "user={user}",
        "agent={user_agent}{referer}",
        "method={method} {protocol} {status} {bytes}",
    ];
    for kind in [LogKind::Common, LogKind::Combined] {
        let pattern = |text: &str| text.parse().expect("a pattern");
        let format = Format::AccessLog {
            kind,
            domain: "web".into(),
            descriptors: patterns.map(pattern).into(),
        };
        run(input, &format);
    }
}

/// Reads the input as a trace.
///
/// # Panics
///
/// If a replay does; if a line is both an event and skipped; or if the two stores that a replay can
/// have answer differently.
pub fn trace(input: &[u8]) {
    run(input, &Format::Trace);
}

fn run(input: &[u8], format: &Format) {
    // What is compressed may expand a thousandfold, and says nothing about the formats.
    if input.starts_with(&[0x1f, 0x8b]) {
        return;
    }
    let rules = RuleSet::parse(&[Source::new("rules.yaml", RULES)], &Options::default());
    assert!(rules.diagnostics.is_empty(), "{:?}", rules.diagnostics);
    let max_keys = NonZeroUsize::new(1_000).expect("not zero");
    let decided = [Memories::Unbounded, Memories::Bounded { max_keys }].map(|memories| {
        let mut traffic = Traffic::new(format.clone());
        traffic.read("input", input).expect("bytes can be read");
        let mut decisions = Vec::new();
        let rules = &rules.rules;
        let report = replay(
            &mut traffic,
            rules,
            memories,
            Some(&mut decisions),
            &mut |_| {},
        );
        let report = report.expect("a thousand keys fit");
        let lines = input.split(|byte| *byte == b'\n').count();
        let lines = u64::try_from(lines).unwrap_or(u64::MAX);
        assert!(report.events + traffic.skipped().count <= lines);
        assert_eq!(report.events, report.admitted + report.refused);
        String::from_utf8(decisions).expect("JSON is text")
    });
    assert_eq!(decided[0], decided[1]);
}
