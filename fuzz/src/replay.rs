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

/// Which lines of a log say something about those that follow, and are no events.
#[derive(Clone, Copy)]
enum Headings {
    None,
    /// The first that is not blank.
    First,
    /// Those that begin with `#`.
    Directives,
}

/// Reads the input as an access log, in each kind of format.
///
/// # Panics
///
/// If a replay does, or a line is not exactly one of an event, a heading and skipped.
pub fn access_log(input: &[u8]) {
    let patterns = [
        "client={client}",
        "path={path}{query}",
        "user={user}",
        "agent={user_agent}{referer}",
        "method={method} {protocol} {status} {bytes}",
    ];
    for (kind, headings) in kinds() {
        let pattern = |text: &str| text.parse().expect("a pattern");
        let format = Format::AccessLog {
            kind,
            domain: "web".into(),
            descriptors: patterns.map(pattern).into(),
        };
        write_decisions(input, &format, headings, Memories::Unbounded);
    }
}

/// A log of each kind.
fn kinds() -> Vec<(LogKind, Headings)> {
    let preset = |preset: Preset| preset.layout(None).expect("no names are set");
    let format = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;
    let layouts = [
        (Layout::json(FieldNames::common()), Headings::None),
        (Layout::csv(FieldNames::common(), None), Headings::First),
        (
            Layout::log_format(format).expect("the combined format"),
            Headings::None,
        ),
        (preset(Preset::Caddy), Headings::None),
        (preset(Preset::W3c), Headings::Directives),
        (preset(Preset::Haproxy), Headings::None),
    ];
    let layouts = layouts.map(|(layout, headings)| (LogKind::Layout(layout), headings));
    [LogKind::Common, LogKind::Combined]
        .map(|kind| (kind, Headings::None))
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
    let decisions = |memories| write_decisions(input, &Format::Trace, Headings::None, memories);
    let bounded = decisions(Memories::Bounded { max_keys });
    assert_eq!(decisions(Memories::Unbounded), bounded);
}

/// The decisions, a line of JSON each.
fn write_decisions(
    input: &[u8],
    format: &Format,
    headings: Headings,
    memories: Memories,
) -> String {
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
    let (lines, headings) = count_lines(input, headings);
    assert_eq!(
        report.events + traffic.skipped_lines().count + headings,
        lines
    );
    assert_eq!(report.events, report.allowed + report.denied);
    String::from_utf8(decisions).expect("JSON is text")
}

/// How many lines the input has, and how many of them are headings.
fn count_lines(input: &[u8], headings: Headings) -> (u64, u64) {
    let text = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let is_heading = |line: &&[u8]| match headings {
        Headings::None => false,
        Headings::First => !line.trim_ascii().is_empty(),
        Headings::Directives => line.starts_with(b"#"),
    };
    let found = text.split(|byte| *byte == b'\n').filter(is_heading);
    let found = match headings {
        Headings::First => found.take(1).count(),
        Headings::None | Headings::Directives => found.count(),
    };
    let lines = input.split_inclusive(|byte| *byte == b'\n').count();
    [lines, found]
        .map(|count| u64::try_from(count).unwrap_or(u64::MAX))
        .into()
}
