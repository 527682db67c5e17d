//! The options that say what a log is like, and what goes wrong with them.

use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::house::{directory, run, text};

const CSV: &str = "time,ip,url\n1,192.0.2.1,/a\n2,192.0.2.1,/a\nx,192.0.2.1,/a\n";

fn scene() -> TempDir {
    let rules = "{domain: web, descriptors: [{key: client, rate_limit: 1/minute}]}";
    directory(&[("rules.yaml", rules), ("a.csv", CSV)])
}

fn replay(options: &[&str]) -> Output {
    let command = [
        "replay",
        "--rules",
        "rules.yaml",
        "--descriptor",
        "client={client}",
    ];
    run(scene().path(), &[&command, options, &["a.csv"]].concat())
}

#[test]
fn options_that_do_not_go_together_say_what_to_drop() {
    for (options, why) in [
        (
            &["--columns", "a,b"][..],
            "--columns names those of CSV; add --format csv",
        ),
        (
            &["--fields", "client=ip"],
            "--fields is about JSON, CSV and W3C; drop it, or",
        ),
        (
            &["--format", "alb", "--fields", "client=ip"],
            "have places and no names",
        ),
        (
            &["--format", "csv", "--fields", "ip"],
            "`ip` is not `field=name`",
        ),
        (&["--log-format", "%h"], "--log-format: it has no time"),
        (
            &["--log-format", "combined"],
            "--log-format: `combined` is the name of a format; write --format combined",
        ),
        (
            &["--format", "nginx"],
            "--format nginx: write `combined`, its default, or `nginx-json`",
        ),
        (&["--format", "envoy"], "--format envoy: write `envoy-json`"),
        (
            &["--log-format", "%h %t", "--format", "csv"],
            "cannot be used with",
        ),
        (
            &["--format", "json", "--where", "colour=red"],
            "there is no field `colour`",
        ),
        (
            &["--where", "host=h"],
            "the common and the combined format have no `host`",
        ),
        (
            &["--log-format", "%t %u"],
            "--descriptor: the log format has no `client`",
        ),
    ] {
        let output = replay(options);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {message}");
        assert!(message.contains(why), "{options:?}: {message}");
    }
}

#[test]
fn lines_that_are_no_events_are_shown_with_their_place_and_headings_are_none() {
    let output = replay(&["--format", "csv"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("           2 events\n"), "{text}");
    assert!(text.contains("           1 line skipped\n"), "{text}");
    assert!(
        text.contains("  line 4: the time is not in the form"),
        "{text}"
    );
}

#[test]
fn without_the_format_replay_says_which_one_it_looks_like() {
    let output = replay(&[]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("a.csv: it looks like CSV; add --format csv"),
        "{message}"
    );
}

/// Lines of programs, as docs/log-formats.md has them.
const ALB: &str = "h2 2026-01-31T10:00:00Z app/lb/1 192.0.2.1:42 10.0.0.1:80 0.0 0.1 0.0 200 \
    200 34 366 \"GET https://h:443/a HTTP/2.0\" \"Mozilla/5.0 (X11; Linux; a, b)\" - -";
const HAPROXY: &str = "Jan 31 10:00:00 web1 haproxy[7]: 192.0.2.1:33 [31/Jan/2026:10:00:00.655] in \
    web/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 \"GET /a HTTP/1.1\"";
const COMBINED: &str = "180.1.2.3 - - [31/Jan/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 5";
const CADDY: &str = r#"{"ts":1,"msg":"serving"}
{"ts":1769853600.25,"request":{"client_ip":"192.0.2.1","method":"GET","uri":"/a"}}"#;
const TRAEFIK: &str = r#"{"StartUTC":"2026-01-31T10:00:00.5Z","ClientHost":"192.0.2.1"}"#;

/// Why nothing in this log is an event in this format.
fn why_unread(log: &str, format: &[&str]) -> String {
    let rules = "{domain: web, descriptors: [{key: k, rate_limit: 1/minute}]}";
    let scene = directory(&[("rules.yaml", rules), ("a.log", log)]);
    let mut command = vec!["replay", "--rules", "rules.yaml", "a.log"];
    if format != ["jsonl"] {
        command.extend(["--descriptor", "k={client}"]);
    }
    command.extend(format.iter().flat_map(|format| ["--format", *format]));
    text(&run(scene.path(), &command), 2)
}

#[test]
fn a_log_in_another_format_than_named_is_recognised_or_says_what_to_write() {
    let unknown = "Listening on 0.0.0.0:80";
    let table: [(&str, &[&str], &[&str]); 14] = [
        (ALB, &[], &["AWS's load balancer; use --format alb"]),
        (HAPROXY, &[], &["HAProxy's log; use --format haproxy"]),
        (CADDY, &[], &["use --format caddy-json"]),
        ("120\n7", &[], &["requests per second; add --format counts"]),
        (
            unknown,
            &[],
            &["--log-format as the server's", "with --format"],
        ),
        (CADDY, &["json"], &["use --format caddy-json"]),
        (TRAEFIK, &["nginx-json"], &["use --format traefik-json"]),
        (
            "{\"a\":1}",
            &["json"],
            &[
                "--fields 'time=NAME,client=NAME'",
                "1 line: there is no time",
            ],
        ),
        (
            COMBINED,
            &["envoy-json"],
            &[
                "combined format; leave out --format",
                "1 line: it is not a JSON object",
            ],
        ),
        (
            COMBINED,
            &["haproxy"],
            &[
                "leave out --format",
                "1 line: not in HAProxy's format (`option httplog`)",
            ],
        ),
        (
            HAPROXY,
            &["alb"],
            &[
                "use --format haproxy",
                "1 line: not in the format of AWS's load balancer",
            ],
        ),
        (&format!("{ALB}\n{ALB}"), &["csv"], &["use --format alb"]),
        (
            unknown,
            &["alb"],
            &["can be read in the format that is named"],
        ),
        (
            "{\"a\":1}",
            &["jsonl"],
            &["can be read in the format that is named"],
        ),
    ];
    for (log, format, expected) in table {
        let message = why_unread(log, format);
        for expected in expected {
            assert!(message.contains(expected), "{log} {format:?}: {message}");
        }
        assert!(!message.contains('$'), "{message}");
    }
}

#[test]
fn a_format_may_be_pasted_from_the_configuration_of_a_server() {
    let rules = "{domain: web, descriptors: [{key: k, rate_limit: 1/minute}]}";
    let scene = directory(&[("rules.yaml", rules), ("a.log", COMBINED)]);
    for format in [
        "'$remote_addr - $remote_user [$time_local] '\n  '\"$request\" $status';",
        "log_format main '$remote_addr - $remote_user [$time_local] ' '\"$request\" $status';",
        "LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" common",
    ] {
        let command = [
            "replay",
            "--rules",
            "rules.yaml",
            "--descriptor",
            "k={client}",
        ];
        let format = ["--where", "path=/a", "--log-format", format, "a.log"];
        let shown = text(&run(scene.path(), &[&command[..], &format].concat()), 0);
        assert!(shown.starts_with("           1 event\n"), "{shown}");
    }
}

#[test]
fn suggest_reads_the_same_formats() {
    let output = run(scene().path(), &["suggest", "--format", "csv", "a.csv"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("           2 of the largest key, 192.0.2.1"),
        "{text}"
    );
    let output = run(scene().path(), &["suggest", "--format", "jsonl", "a.csv"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("traces and counts are not access logs"),
        "{message}"
    );
}

const PROXIED: &str = "time,client,forwarded_for,path
1,10.0.0.1,2001:db8::1,/users/7
2,10.0.0.1,2001:db8::2,/users/8
3,192.0.2.9,2001:db8::3,/users/9
";

/// What each decision says about its client, or the error.
fn proxied(options: &[&str]) -> Result<String, String> {
    let rules = "{domain: web, descriptors: [{key: k, rate_limit: 1/minute}]}";
    let scene = directory(&[("rules.yaml", rules), ("a.csv", PROXIED)]);
    let command = ["replay", "--rules", "rules.yaml", "--decisions", "-"];
    let output = run(scene.path(), &[&command, options, &["a.csv"]].concat());
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

fn decisions(options: &[&str]) -> Vec<Value> {
    let lines = proxied(options).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn key(decision: &Value) -> String {
    let value = &decision["descriptors"][0]["entries"][0]["value"];
    value.as_str().unwrap().to_owned()
}

#[test]
fn keys_are_those_that_the_gateway_would_count() {
    let csv = ["--format", "csv", "--descriptor", "k={client}"];
    let clients = |options: &[&str]| {
        let lines = decisions(&[&csv, options].concat());
        let keys = lines.iter().map(|line| {
            assert_eq!(line["client"], key(line));
            key(line)
        });
        keys.collect::<Vec<_>>()
    };
    assert_eq!(clients(&[]), ["10.0.0.1", "10.0.0.1", "192.0.2.9"]);
    let networks = ["--trusted-proxies", "10.0.0.0/8"];
    let expected = ["2001:db8::1", "2001:db8::2", "192.0.2.9"];
    assert_eq!(clients(&networks), expected);
    let prefixes = ["--ipv6-prefix", "64", "--ipv4-prefix", "24"];
    let expected = ["2001:db8::/64", "2001:db8::/64", "192.0.2.0/24"];
    assert_eq!(
        clients(&[networks, ["--ipv6-prefix", "64"]].concat())[1],
        expected[1]
    );
    assert_eq!(clients(&[&networks[..], &prefixes].concat()), expected);
    let expected = ["2001:db8::1", "2001:db8::2", "2001:db8::3"];
    assert_eq!(clients(&["--trusted-proxies", "1"]), expected);
    // Filters see the client that is counted.
    let filtered = [&networks[..], &["--where", "client=2001:db8::2"]].concat();
    assert_eq!(clients(&filtered), ["2001:db8::2"]);
    let routes = ["--format", "csv", "--descriptor", "k={path}"];
    let template = [
        "--path-template",
        "/users/{id}",
        "--path-template",
        "/users/9",
    ];
    let found = decisions(&[&routes[..], &template].concat());
    let expected = ["/users/{id}", "/users/{id}", "/users/9"];
    assert_eq!(found.iter().map(key).collect::<Vec<_>>(), expected);
}

#[test]
fn an_option_about_keys_that_cannot_be_used_says_what_to_write() {
    let csv = ["--format", "csv", "--descriptor", "k={client}"];
    let plain = ["--descriptor", "k={client}"];
    let no_header = ["--format", "csv", "--fields", "forwarded_for=xff"];
    let table: [(&[&str], &[&str], &str); 10] = [
        (
            &csv,
            &["--trusted-proxies", "10.0.0.1/8"],
            "write 10.0.0.0/8, or",
        ),
        (
            &csv,
            &["--trusted-proxies", "0.0.0.0/0"],
            "or a number of hops",
        ),
        (
            &csv,
            &["--trusted-proxies", "1,10.0.0.0/8"],
            "\"1\" is not a valid network",
        ),
        (&csv, &["--trusted-proxies", "0"], "leave the option out"),
        (
            &csv,
            &["--trusted-proxies", "33"],
            "--trusted-proxies: 33 hops; 32 is",
        ),
        (
            &csv,
            &["--ipv4-prefix", "33"],
            "--ipv4-prefix: a prefix of 33 bits; write 1",
        ),
        (
            &csv,
            &["--ipv6-prefix", "0"],
            "--ipv6-prefix: a prefix of 0 bits; write 1",
        ),
        (
            &csv,
            &["--path-template", "users"],
            "--path-template: \"users\" does not begin",
        ),
        (
            &plain,
            &["--trusted-proxies", "1"],
            "have no `forwarded_for`; use",
        ),
        (
            &["--format", "jsonl"],
            &["--ipv4-prefix", "24"],
            "is about access logs",
        ),
    ];
    for (format, options, why) in table {
        let error = proxied(&[format, options].concat()).unwrap_err();
        assert!(error.contains(why), "{options:?}: {error}");
    }
    let options = [&no_header[..], &plain, &["--trusted-proxies", "1"]].concat();
    let error = proxied(&options).unwrap_err();
    assert!(
        error.contains("no column `xff`, which `--fields` names for `forwarded_for`"),
        "{error}"
    );
}
