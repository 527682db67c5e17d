#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

fn line() -> LogLine {
    LogLine {
        at: Duration::from_millis(1_709_210_096_007),
        took: Duration::from_nanos(1_250_999),
        client: Some("192.0.2.7".parse().unwrap()),
        method: Method::GET,
        target: (*b"/a?b=c").into(),
        version: Version::HTTP_11,
        host: None,
        user_agent: None,
        referer: None,
        request_id: None,
        route: None,
        upstream: None,
        outcome: "canceled",
        status: None,
        bytes: 0,
        is_complete: false,
        rule: None,
        retry_after: None,
    }
}

fn denial() -> LogLine {
    let rule = RuleName {
        domain: "api".to_owned(),
        path: "remote_address".to_owned(),
        name: Some("per \"client\"".to_owned()),
    };
    LogLine {
        status: Some(429),
        bytes: 17,
        outcome: "denied",
        rule: Some(Arc::new(rule)),
        retry_after: Some(60),
        ..line()
    }
}

#[test]
fn the_combined_format_is_that_of_other_servers_with_the_rule_at_its_end() {
    assert_eq!(
        line().format(AccessLogFormat::Combined),
        "192.0.2.7 - - [29/Feb/2024:12:34:56 +0000] \"GET /a?b=c HTTP/1.1\" 499 0 \"-\" \"-\" \
         \"-\"\n"
    );
    assert_eq!(
        denial().format(AccessLogFormat::Combined),
        "192.0.2.7 - - [29/Feb/2024:12:34:56 +0000] \"GET /a?b=c HTTP/1.1\" 429 17 \"-\" \"-\" \
         \"api remote_address per \\x22client\\x22\"\n"
    );
}

#[test]
fn a_line_of_json_leaves_out_what_is_missing() {
    let read = |line: LogLine| -> Value {
        serde_json::from_str(&line.format(AccessLogFormat::Json)).unwrap()
    };
    let expected = json!({
        "time": "2024-02-29T12:34:56.007Z", "client": "192.0.2.7", "method": "GET",
        "target": "/a?b=c", "protocol": "HTTP/1.1", "status": 499, "bytes": 0,
        "duration_us": 1250, "complete": false, "outcome": "canceled",
    });
    assert_eq!(read(line()), expected);
    let read = read(denial());
    let rule = json!({"domain": "api", "path": "remote_address", "name": "per \"client\""});
    assert_eq!((&read["rule"], &read["retry_after"]), (&rule, &json!(60)));
}

#[test]
fn no_byte_of_a_client_ends_a_line_or_a_field() {
    let all: Vec<u8> = (0..=255).collect();
    let hostile = LogLine {
        target: all.clone().into(),
        host: Some(all.clone().into()),
        user_agent: Some(all.clone().into()),
        request_id: Some(all.into()),
        referer: Some("\u{202e}\u{2028}\u{85}\u{1b}[2J".as_bytes().into()),
        ..line()
    };
    let combined = hostile.format(AccessLogFormat::Combined);
    assert!(
        combined
            .trim_end_matches('\n')
            .bytes()
            .all(|byte| (0x20..0x7f).contains(&byte))
    );
    assert_eq!(combined.matches('"').count(), 8, "{combined}");
    assert!(combined.contains("\\x09\\x0A") && combined.contains("!\\x22#"));
    assert!(combined.contains("[\\x5C]") && combined.contains("~\\x7F\\x80"));
    let text = hostile.format(AccessLogFormat::Json);
    assert_eq!(text.matches(char::is_control).count(), 1, "{text}");
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["request_id"], read["user_agent"]);
    let agent = read["user_agent"].as_str().unwrap();
    assert!(agent.contains("\\t\\n") && agent.contains("!\"#") && agent.contains("\\xff"));
    assert!(
        !text.contains('\u{202e}') && !text.contains('\u{85}'),
        "{text}"
    );
}
