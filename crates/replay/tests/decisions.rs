//! What a decision's line and a report say.
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::json;
use tollgate_replay::{Format, LogKind, Memories, Report, Summary, Traffic, replay};
use tollgate_rules::{Options, RuleSet, Source};

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
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", RULES)], &Options::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.rules
}

fn run(traffic: &mut Traffic) -> (Report, String) {
    let mut decisions = Vec::new();
    let out: Option<&mut dyn std::io::Write> = Some(&mut decisions);
    let report = replay(traffic, &rules(), Memories::Unbounded, out, &mut |_| {}).unwrap();
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

#[test]
fn a_trace_charges_denied_debits_as_envoy_s_protocol_does() {
    let events = [
        ask("1", "soft", "6"),
        ask("2", "soft", "6"),
        ask("3", "soft", "1"),
    ];
    let (report, decisions, _) = trace(&events.concat());
    assert_eq!((report.admitted, report.refused), (1, 2), "{decisions}");
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
    let limit = |count: u32| format!("{{\"requestsPerUnit\":{count},\"unit\":\"MINUTE\"}}");
    let named = "{\"name\":\"per-client\",\"requestsPerUnit\":1,\"unit\":\"MINUTE\"}";
    let expected = [
        format!(
            "{{\"line\":1,\"at\":1200000000,\"allowed\":true,\"overallCode\":\"OK\",\"statuses\":\
             [{{\"code\":\"OK\",\"currentLimit\":{named},\"durationUntilReset\":\"60s\",\
             \"limitRemaining\":0}}]}}"
        ),
        format!(
            "{{\"line\":2,\"at\":1200000000.123456789,\"allowed\":false,\
             \"retryAfter\":\"59.876543211s\",\"deniedBy\":\"per-client\",\
             \"overallCode\":\"OVER_LIMIT\",\"statuses\":[{{\"code\":\"OVER_LIMIT\",\
             \"currentLimit\":{named},\"durationUntilReset\":\"59.876543211s\",\
             \"limitRemaining\":0}}]}}"
        ),
        format!(
            "{{\"line\":3,\"at\":1200000000.2,\"allowed\":false,\"retryAfter\":\"never\",\
             \"deniedBy\":\"per-client\",\"overallCode\":\"OVER_LIMIT\",\"statuses\":\
             [{{\"code\":\"OVER_LIMIT\",\"currentLimit\":{named},\
             \"durationUntilReset\":\"59.800s\",\"limitRemaining\":0}}]}}"
        ),
        format!(
            "{{\"line\":4,\"at\":1200000001,\"allowed\":true,\"overSoft\":true,\
             \"overallCode\":\"OK\",\"statuses\":[{{\"code\":\"OK\",\"currentLimit\":{},\
             \"durationUntilReset\":\"59s\",\"limitRemaining\":0}}]}}",
            limit(10)
        ),
        "{\"line\":5,\"at\":1200000002,\"allowed\":true,\"overallCode\":\"OK\",\"statuses\":\
         [{\"code\":\"OK\",\"currentLimit\":{\"requestsPerUnit\":0,\"unit\":\"SECOND\"},\
         \"durationUntilReset\":\"1s\",\"limitRemaining\":0}]}"
            .to_owned(),
        "{\"line\":6,\"at\":1200000003,\"allowed\":true,\"overallCode\":\"OK\",\"statuses\":\
         [{\"code\":\"OK\",\"limitRemaining\":4294967295}]}"
            .to_owned(),
        "{\"line\":7,\"at\":1200000004.5,\"allowed\":true,\"overallCode\":\"OK\",\"statuses\":\
         [{\"code\":\"OK\"}]}"
            .to_owned(),
    ];
    let lines: Vec<_> = decisions.lines().collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_report_counts_by_rule_and_names_who_was_refused() {
    let events = [
        ask("1", "client", "1"),
        ask("2", "client", "1"),
        ask("3", "client", "1"),
        ask("4", "shadow", "1"),
        ask("5", "soft", "11"),
        ask("6", "free", "1"),
        "\u{1b}[31m{\n".to_owned(),
    ];
    let (report, _, traffic) = trace(&events.concat());
    let rule = |rule: &str, limit: &str, mode: &str, counts: [u64; 3]| {
        json!({"domain": "web", "rule": rule, "limit": limit, "mode": mode,
            "path": if rule == "per-client" { "client" } else { rule },
            "judged": counts[0], "over": counts[1], "refused": counts[2]})
    };
    let json = report.to_json(&traffic);
    assert_eq!(
        json,
        json!({
            "events": 6, "admitted": 4, "refused": 2, "overSoft": 1, "delayed": 0,
            "withoutLimit": 1,
            "from": "1970-01-01T00:00:01Z", "to": "1970-01-01T00:00:06Z",
            "rules": [
                rule("per-client", "1 per 1m sliding_log", "enforce", [3, 2, 2]),
                rule("soft", "10 per 1m fixed_window soft 10%", "enforce", [1, 0, 0]),
                rule("shadow", "0 per 1s fixed_window", "shadow", [1, 1, 0]),
            ],
            "refusedKeys": 1,
            "topRefusedKeys": [{"domain": "web", "rule": "per-client", "refused": 2,
                "descriptor": [{"key": "client", "value": "v"}]}],
            "skipped": 1,
            "firstSkipped": [{"line": 7, "reason": "expected value at column 1",
                "text": "\\u{1b}[31m{"}],
        })
    );
    let (report, traffic) = (&report, &traffic);
    let summary = Summary { report, traffic }.to_string();
    let expected = "           6 events
           4 admitted
           2 refused
           1 admitted in the soft part of a limit
           1 met no limit
           1 lines skipped

from 1970-01-01T00:00:01Z to 1970-01-01T00:00:06Z

      judged         over      refused  rule
           3            2            2  web/per-client: 1 per 1m sliding_log
           1            0            0  web/soft: 10 per 1m fixed_window soft 10%
           1            1            0  web/shadow: 0 per 1s fixed_window (shadow)

     refused  key (1 of 1)
           2  client=v

lines skipped (1 of 1 shown)
  line 7: expected value at column 1
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
        .map(|line| line.split(",\"overall").next())
        .collect();
    let expected = [
        r#"{"line":2,"file":"new.log","at":1431856800,"allowed":true"#,
        concat!(
            r#"{"line":2,"file":"old.log","at":1431856800,"allowed":false,"#,
            r#""retryAfter":"60s","deniedBy":"per-client""#
        ),
        r#"{"line":1,"file":"new.log","at":1431856920,"allowed":true"#,
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
        summary.contains("  old.log line 1: there is no host\n    junk\n"),
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
fn an_unnamed_rule_refuses_by_its_place_in_the_file() {
    let refused = ask("1", "soft", "12");
    let (_, decisions, _) = trace(&refused);
    assert!(
        decisions.contains("\"retryAfter\":\"never\",\"deniedBy\":\"soft\""),
        "{decisions}"
    );
}
