//! Logs and traces of arbitrary bytes, through a complete replay.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use tollgate_replay::{
    FieldNames, Format, Layout, LogKind, Memories, Options, Preset, Traffic, replay,
};
use tollgate_rules::{RuleSet, Source};

/// A rule of each algorithm.
static RULES: LazyLock<RuleSet> = LazyLock::new(|| {
    let loaded = RuleSet::parse(
        &[Source::new("rules.yaml", TEXT)],
        &tollgate_rules::Options::default(),
    );
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded.rules
});
const TEXT: &str = "
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

/// Reads the input as an access log, in each kind of format.
///
/// # Panics
///
/// If a replay does, or a line is both an event and skipped.
pub fn access_log(input: &[u8]) {
    let patterns = [
        "client={client}",
        "path={path}{query}",
        "user={user}",
        "agent={user_agent}{referer}",
        "method={method} {protocol} {status} {bytes}",
    ];
    for kind in kinds() {
        let pattern = |text: &str| text.parse().expect("a pattern");
        let format = Format::AccessLog {
            kind,
            domain: "web".into(),
            descriptors: patterns.map(pattern).into(),
        };
        write_decisions(input, &format, Memories::Unbounded);
    }
}

/// A log of each kind.
fn kinds() -> Vec<LogKind> {
    let preset = |preset: Preset| preset.layout(None).expect("no names are set");
    let format = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
    let layouts = [
        Layout::json(FieldNames::common()),
        Layout::csv(FieldNames::common(), None),
        Layout::log_format(format).expect("the combined format"),
        preset(Preset::Caddy),
        preset(Preset::W3c),
        preset(Preset::Haproxy),
    ];
    let layouts = layouts.map(LogKind::Layout);
    [LogKind::Common, LogKind::Combined]
        .into_iter()
        .chain(layouts)
        .collect()
}

/// Reads the input as a trace.
///
/// # Panics
///
/// As [`access_log`], or if the two stores that a replay can have answer differently.
pub fn trace(input: &[u8]) {
    let max_keys = NonZeroUsize::new(1_000).expect("not zero");
    let bounded = write_decisions(input, &Format::Trace, Memories::Bounded { max_keys });
    assert_eq!(
        write_decisions(input, &Format::Trace, Memories::Unbounded),
        bounded
    );
}

/// The decisions, a line of JSON each.
fn write_decisions(input: &[u8], format: &Format, memories: Memories) -> String {
    // Skip compressed input: it may expand a thousandfold, and does not test the formats.
    const PACKED: [&[u8]; 4] = [&[0x1f, 0x8b], b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"];
    if PACKED.iter().any(|magic| input.starts_with(magic)) {
        return String::new();
    }
    let mut traffic = Traffic::new(format.clone());
    if traffic.read("input", input).is_err() {
        // An archive, or another encoding.
        return String::new();
    }
    let mut decisions = Vec::new();
    let options = Options {
        memories,
        ..Options::default()
    };
    let report = replay(
        &mut traffic,
        &RULES,
        options,
        Some(&mut decisions),
        &mut |_| ControlFlow::Continue(()),
    );
    let report = report.expect("a thousand keys fit");
    let lines = input.split(|byte| *byte == b'\n').count();
    let lines = u64::try_from(lines).unwrap_or(u64::MAX);
    assert!(report.events + traffic.skipped_lines().count <= lines);
    assert_eq!(report.events, report.allowed + report.denied);
    String::from_utf8(decisions).expect("JSON is text")
}
