//! What a decision's line and a report say.
#![allow(clippy::unwrap_used, missing_docs)]

use std::ops::ControlFlow;

use serde_json::json;
use tollgate_replay::{Error, Format, LogKind, Options, Report, Summary, Traffic, Warning, replay};
use tollgate_rules::{RuleSet, Source};

/// Why a line of a trace is not an event.
const NO_OBJECT: &str =
    "it is not a JSON object such as {\"at\": 0.5, \"domain\": …, \"descriptors\": […]}";
const RULES: &str = "
domain: web
descriptors:
  - key: client
    rate_limit: {name: per-client, algorithm: sliding_log, requests_per_unit: 1, unit: minute}
  - key: soft
    rate_limit: {algorithm: fixed_window, requests_per_unit: 10, unit: minute, soft: 10%}
  - key: shadow
    shadow_mode: true
    rate_limit: 0/second
  - key: free
    rate_limit: {unlimited: true}
";

fn rules() -> RuleSet {
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", RULES)], &Default::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.rules
}

fn run(traffic: &mut Traffic) -> (Report, String) {
    let mut decisions = Vec::new();
    let out: Option<&mut dyn std::io::Write> = Some(&mut decisions);
    let go_on = &mut |_| ControlFlow::Continue(());
    let report = replay(traffic, &rules(), Options::default(), out, go_on).unwrap();
    (report, String::from_utf8(decisions).unwrap())
}

fn trace(trace: &str) -> (Report, String, Traffic) {
    let mut traffic = Traffic::new(Format::Trace);
    traffic.read("trace.jsonl", trace.as_bytes()).unwrap();
    let (report, decisions) = run(&mut traffic);
    (report, decisions, traffic)
}

fn ask(at: &str, key: &str, addend: &str) -> String {
    format!(
        "{{\"at\":{at},\"domain\":\"web\",\"hitsAddend\":{addend},\"descriptors\":\
         [{{\"entries\":[{{\"key\":\"{key}\",\"value\":\"v\"}}]}}]}}\n"
    )
}

fn start(line: u32, at: &str, rest: &str) -> String {
    format!("{{\"version\":1,\"line\":{line},\"at\":\"2008-01-10T21:20:{at}Z\",{rest},")
}

fn asked(key: &str) -> String {
    format!("\"descriptors\":[{{\"entries\":[{{\"key\":\"{key}\",\"value\":\"v\"}}]}}],")
}

/// What is said of the first events, which limits judge.
fn limited_lines() -> [String; 4] {
    let limit = |count: u32| format!("{{\"requestsPerUnit\":{count},\"unit\":\"MINUTE\"}}");
    let named = "{\"name\":\"per-client\",\"requestsPerUnit\":1,\"unit\":\"MINUTE\"}";
    let key = "\"deniedKey\":[{\"key\":\"client\",\"value\":\"v\"}]";
    [
        [
            start(1, "00", "\"allowed\":true"),
            asked("client"),
            format!(
                "\"overallCode\":\"OK\",\"statuses\":[{{\"code\":\"OK\",\"currentLimit\":{named},\
                 \"durationUntilReset\":\"60s\",\"limitRemaining\":0}}]}}"
            ),
        ],
        [
            start(
                2,
                "00.123456789",
                &format!(
                    "\"allowed\":false,\"retryAfter\":\"59.876543211s\",\
                     \"deniedBy\":\"per-client\",{key}"
                ),
            ),
            asked("client"),
            format!(
                "\"overallCode\":\"OVER_LIMIT\",\"statuses\":[{{\"code\":\"OVER_LIMIT\",\
                 \"currentLimit\":{named},\"durationUntilReset\":\"59.876543211s\",\
                 \"limitRemaining\":0}}]}}"
            ),
        ],
        [
            start(
                3,
                "00.2",
                &format!(
                    "\"allowed\":false,\"retryAfter\":\"never\",\"deniedBy\":\"per-client\",{key}"
                ),
            ),
            asked("client") + "\"hitsAddend\":2,",
            format!(
                "\"overallCode\":\"OVER_LIMIT\",\"statuses\":[{{\"code\":\"OVER_LIMIT\",\
                 \"currentLimit\":{named},\"durationUntilReset\":\"59.800s\",\
                 \"limitRemaining\":0}}]}}"
            ),
        ],
        [
            start(4, "01", "\"allowed\":true,\"overSoft\":true"),
            asked("soft") + "\"hitsAddend\":11,",
            format!(
                "\"overallCode\":\"OK\",\"statuses\":[{{\"code\":\"OK\",\"currentLimit\":{},\
                 \"durationUntilReset\":\"59s\",\"limitRemaining\":0}}]}}",
                limit(10)
            ),
        ],
    ]
    .map(|parts| parts.concat())
}

/// What is said of the others.
fn other_lines() -> [String; 3] {
    [
        [
            start(5, "02", "\"allowed\":true,\"shadowDeniedBy\":[\"shadow\"]"),
            asked("shadow"),
            "\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\",\
             \"currentLimit\":{\"requestsPerUnit\":0,\"unit\":\"SECOND\"},\
             \"durationUntilReset\":\"1s\",\"limitRemaining\":0}]}"
                .to_owned(),
        ],
        [
            start(6, "03", "\"allowed\":true"),
            asked("free"),
            "\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\",\
             \"limitRemaining\":4294967295}]}"
                .to_owned(),
        ],
        [
            start(7, "04.5", "\"allowed\":true"),
            asked("nothing"),
            "\"overallCode\":\"OK\",\"statuses\":[{\"code\":\"OK\"}]}".to_owned(),
        ],
    ]
    .map(|parts| parts.concat())
}

#[test]
fn a_trace_charges_denied_debits_as_envoy_s_protocol_does() {
    let events = [
        ask("1", "soft", "6"),
        ask("2", "soft", "6"),
        ask("3", "soft", "1"),
    ];
    let (report, decisions, _) = trace(&events.concat());
    assert_eq!((report.allowed, report.denied), (1, 2), "{decisions}");
}

#[test]
fn lines_say_what_the_service_would_have_said_and_more() {
    let events = [
        ask("1.2e9", "client", "1"),
        ask("1200000000.123456789", "client", "1"),
        ask("\"2008-01-10T21:20:00.2Z\"", "client", "2"),
        ask("1200000001", "soft", "11"),
        ask("1200000002", "shadow", "1"),
        ask("1200000003", "free", "1"),
        ask("1200000004.50", "nothing", "1"),
    ];
    let (_, decisions, _) = trace(&events.concat());
    let expected = [&limited_lines()[..], &other_lines()].concat();
    let lines: Vec<_> = decisions.lines().collect();
    assert_eq!(lines, expected);
}

/// Otherwise a program could not add up the units, or see why `retryAfter` is `never`.
#[test]
fn a_line_has_the_costs_and_the_limits_of_a_trace() {
    let entries = "\"entries\":[{\"key\":\"client\",\"value\":\"v\"}]";
    let asked = format!(
        "\"descriptors\":[{{{entries},\"hitsAddend\":1,\"limit\":{{\"requestsPerUnit\":9,\
         \"unit\":\"HOUR\"}}}},{{{entries},\"hitsAddend\":2,\"isNegativeHits\":true}},\
         {{{entries}}}],\"hitsAddend\":7,"
    );
    let event = format!("{{\"at\":1,{asked}\"domain\":\"web\"}}\n");
    let (report, decisions, _) = trace(&event);
    assert_eq!(report.denied, 1);
    assert!(decisions.contains(&asked), "{decisions}");
}

/// Events of all kinds, and a line that is none.
fn mixed() -> String {
    let events = [
        ask("1", "client", "1"),
        ask("2", "client", "1"),
        ask("3", "client", "1"),
        ask("4", "shadow", "1"),
        ask("5", "soft", "11"),
        ask("6", "free", "1"),
        "\u{1b}[31m{\n".to_owned(),
    ];
    events.concat()
}

#[test]
fn events_that_match_no_rule_are_warned_of_and_those_of_an_unlimited_rule_are_not() {
    let codes = |keys: &[&str]| {
        let events: String = keys.iter().map(|key| ask("1", key, "1")).collect();
        let (report, _, _) = trace(&events);
        assert_eq!(report.without_limit, report.events);
        let codes = report.warnings.iter().map(Warning::code);
        codes.collect::<Vec<_>>()
    };
    assert_eq!(codes(&["unknown", "unknown"]), ["no-rule"]);
    assert_eq!(codes(&["free", "free"]), [""; 0]);
    assert_eq!(codes(&["unknown", "free"]), [""; 0]);
}

#[test]
fn a_report_counts_by_rule_and_names_who_was_denied() {
    let (report, _, traffic) = trace(&mixed());
    let rule = |rule: &str, limit: &str, mode: &str, counts: [u64; 3]| {
        json!({"domain": "web", "rule": rule, "limit": limit, "mode": mode,
            "path": if rule == "per-client" { "client" } else { rule },
            "judged": counts[0], "over": counts[1], "denied": counts[2]})
    };
    let json = report.to_json(&traffic);
    assert_eq!(
        json,
        json!({
            "version": 1,
            "events": 6, "allowed": 4, "denied": 2, "overSoft": 1, "delayed": 0,
            "withoutLimit": 1,
            "from": "1970-01-01T00:00:01Z", "to": "1970-01-01T00:00:06Z",
            "rules": [
                rule("per-client", "1 per 1m sliding_log", "enforce", [3, 2, 2]),
                rule("soft", "10 per 1m fixed_window soft 10%", "enforce", [1, 0, 0]),
                rule("shadow", "0 per 1s fixed_window", "shadow", [1, 1, 0]),
            ],
            "deniedKeys": 1,
            "topDeniedKeys": [{"domain": "web", "rule": "per-client", "denied": 2,
                "descriptor": [{"key": "client", "value": "v"}]}],
            "shadowDeniedKeys": 1,
            "topShadowDeniedKeys": [{"domain": "web", "rule": "shadow", "denied": 1,
                "descriptor": [{"key": "shadow", "value": "v"}]}],
            "excluded": 0,
            "skipped": 1,
            "skippedReasons": [{"reason": NO_OBJECT, "count": 1}],
            "firstSkipped": [{"line": 7, "reason": NO_OBJECT,
                "text": "\\u{1b}[31m{"}],
            "warnings": [],
        })
    );
}

#[test]
fn a_summary_tells_people_the_same() {
    let (report, _, traffic) = trace(&mixed());
    let (report, traffic) = (&report, &traffic);
    let summary = Summary { report, traffic }.to_string();
    let expected = "           6 events
           4 allowed
           2 denied
           1 allowed in the soft part of a limit
           1 met no limit
           1 line skipped

from 1970-01-01T00:00:01Z to 1970-01-01T00:00:06Z

      judged         over       denied  rule
           3            2            2  web/per-client: 1 per 1m sliding_log
           1            0            0  web/soft: 10 per 1m fixed_window soft 10%
           1            1            0  web/shadow: 0 per 1s fixed_window (shadow)

      denied  key (1 of 1)
           2  client=v

  would deny  key (1 of 1)
           1  shadow=v

     skipped  reason
           1  it is not a JSON object such as {\"at\": 0.5, \"domain\": …, \"descriptors\": […]}

line skipped (1 of 1 shown)
  line 7: it is not a JSON object such as {\"at\": 0.5, \"domain\": …, \"descriptors\": […]}
    \\u{1b}[31m{
";
    assert_eq!(summary, expected);
}

#[test]
fn of_several_inputs_each_decision_names_its_own() {
    let mut traffic = Traffic::new(Format::AccessLog {
        kind: LogKind::Common,
        domain: "web".to_owned(),
        descriptors: vec!["client={client}".parse().unwrap()],
    });
    let line = |minute: u32| format!("c - - [17/May/2015:10:{minute:02}:00 +0000] \"\" 200 1\n");
    traffic
        .read("new.log", [line(2), line(0)].concat().as_bytes())
        .unwrap();
    traffic
        .read("old.log", ["junk\n", &line(0)].concat().as_bytes())
        .unwrap();
    let (report, decisions) = run(&mut traffic);
    let starts: Vec<_> = decisions
        .lines()
        .map(|line| line.split(",\"descriptors").next())
        .collect();
    let expected = [
        r#"{"version":1,"line":2,"file":"new.log","at":"2015-05-17T10:00:00Z","allowed":true"#,
        concat!(
            r#"{"version":1,"line":2,"file":"old.log","at":"2015-05-17T10:00:00Z","#,
            r#""allowed":false,"retryAfter":"60s","deniedBy":"per-client","#,
            r#""deniedKey":[{"key":"client","value":"c"}]"#
        ),
        r#"{"version":1,"line":1,"file":"new.log","at":"2015-05-17T10:02:00Z","allowed":true"#,
    ];
    let starts: Vec<_> = starts.into_iter().map(Option::unwrap).collect();
    assert_eq!(starts, expected);
    assert_eq!(
        report.to_json(&traffic)["firstSkipped"][0]["file"],
        "old.log"
    );
    let (report, traffic) = (&report, &traffic);
    let summary = Summary { report, traffic }.to_string();
    assert!(
        summary.contains("  old.log line 1: not in common or combined format"),
        "{summary}"
    );
}

#[test]
fn no_events_at_all_make_an_empty_report() {
    let (report, decisions, traffic) = trace("");
    assert_eq!((report.events, decisions.as_str()), (0, ""));
    assert_eq!(report.to_json(&traffic)["from"], json!(null));
}

#[test]
fn an_unnamed_rule_denies_by_its_place_in_the_file() {
    let denied = ask("1", "soft", "12");
    let (_, decisions, _) = trace(&denied);
    assert!(
        decisions.contains("\"retryAfter\":\"never\",\"deniedBy\":\"soft\""),
        "{decisions}"
    );
}

#[test]
fn decision_lines_tell_the_client_even_where_no_key_holds_it() {
    let mut traffic = Traffic::new(Format::AccessLog {
        kind: LogKind::Common,
        domain: "web".to_owned(),
        descriptors: vec!["client=all".parse().unwrap()],
    })
    .with_clients();
    let line = |client: &str| {
        format!("{client} - - [17/May/2015:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    let log = [
        line("1.2.3.4").into_bytes(),
        line("x").replace('x', "\u{e9}").into_bytes(),
    ];
    traffic.read("a.log", log.concat().as_slice()).unwrap();
    traffic
        .read("b.log", &[b"\xff", line("").as_bytes()].concat()[..])
        .unwrap();
    let (_, decisions) = run(&mut traffic);
    let client = |line: &str| {
        let decision: serde_json::Value = serde_json::from_str(line).unwrap();
        decision["client"].as_str().unwrap().to_owned()
    };
    let clients: Vec<_> = decisions.lines().map(client).collect();
    assert_eq!(clients, ["1.2.3.4", "\u{e9}", "\\xff"]);
}

#[test]
fn the_report_names_as_many_keys_as_are_wanted() {
    let event = |client: u32| {
        format!(
            "{{\"at\":{client},\"domain\":\"web\",\"hitsAddend\":2,\"descriptors\":\
             [{{\"entries\":[{{\"key\":\"client\",\"value\":\"{client}\"}}]}}]}}\n"
        )
    };
    let mut traffic = Traffic::new(Format::Trace);
    let events: String = (0..15).map(event).collect();
    traffic.read("trace", events.as_bytes()).unwrap();
    for (options, named) in [
        (Options::default(), 10),
        (
            Options {
                top_keys: 12,
                ..Options::default()
            },
            12,
        ),
        (
            Options {
                top_keys: 0,
                ..Options::default()
            },
            0,
        ),
    ] {
        let go_on = &mut |_| ControlFlow::Continue(());
        let report = replay(&mut traffic, &rules(), options, None, go_on).unwrap();
        assert_eq!(
            (report.denied_keys.count, report.denied_keys.first.len()),
            (15, named)
        );
    }
}

#[test]
fn a_stopped_replay_reports_how_far_it_came() {
    let events: String = (0..40_000)
        .map(|at| ask(&at.to_string(), "free", "1"))
        .collect();
    let mut traffic = Traffic::new(Format::Trace);
    traffic.read("trace", events.as_bytes()).unwrap();
    let mut decisions = Vec::new();
    let out: Option<&mut dyn std::io::Write> = Some(&mut decisions);
    let stop = &mut |decided| match decided {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let error = replay(&mut traffic, &rules(), Options::default(), out, stop).unwrap_err();
    let Error::Stopped { decided } = error else {
        panic!("{error}");
    };
    assert!((1..40_000).contains(&decided));
    let lines = decisions.split(|byte| *byte == b'\n').count() - 1;
    assert_eq!(u64::try_from(lines).unwrap(), decided);
}

/// A disk with room for so many bytes.
struct Disk(usize);

impl std::io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = bytes.len().min(self.0);
        self.0 -= written;
        if written == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_says_how_far_the_replay_came() {
    let events: String = (0..40_000)
        .map(|at| ask(&at.to_string(), "free", "1"))
        .collect();
    let mut traffic = Traffic::new(Format::Trace);
    traffic.read("trace", events.as_bytes()).unwrap();
    let out: Option<&mut dyn std::io::Write> = Some(&mut Disk(1_000_000));
    let go_on = &mut |_| ControlFlow::Continue(());
    let error = replay(&mut traffic, &rules(), Options::default(), out, go_on).unwrap_err();
    let Error::Write { decided, .. } = error else {
        panic!("{error}");
    };
    assert!((1..40_000).contains(&decided), "{decided}");
}

/// They count as one rule, whatever their limits are.
#[test]
fn a_report_names_the_limit_of_overrides_only_if_it_is_the_same() {
    let sent = |value: &str, count: u32, unit: &str| {
        let limit = json!({"requestsPerUnit": count, "unit": unit});
        let entries = json!([{"key": "u", "value": value}]);
        let descriptors = json!([{"entries": entries, "limit": limit}]);
        let event = json!({"at": 0, "domain": "web", "descriptors": descriptors});
        format!("{event}\n")
    };
    let texts = |events: &[String]| {
        let (report, _, _) = trace(&events.concat());
        let rules = report.rules.into_iter();
        let overrides = rules.filter(|rule| rule.rule.path == "(override)");
        overrides
            .map(|rule| (rule.limit, rule.judged))
            .collect::<Vec<_>>()
    };
    let same = [sent("a", 100, "DAY"), sent("b", 100, "DAY")];
    assert_eq!(texts(&same), [("100 per 1d fixed_window".to_owned(), 2)]);
    let others = [&same[..], &[sent("a", 1, "SECOND"), sent("a", 100, "DAY")]].concat();
    assert_eq!(
        texts(&others),
        [("several limits, sent by requests".to_owned(), 4)]
    );
}
