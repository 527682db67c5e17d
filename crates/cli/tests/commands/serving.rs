//! `tollgate serve`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use tollgate_testbed::collector::Collector;

use crate::house::{RULES, SETTINGS, Service, ask, directory, exchange, run, tollgate};

const LOG: &str = "192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5\n";

#[test]
fn serve_answers_reloads_and_ends_with_0() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let mut service = Service::start(directory.path());
    let address = service.address("http");
    service.logged(|line| line["listener"] == "admin");
    assert!(ask(&address).starts_with("HTTP/1.1 200"));
    assert!(ask(&address).starts_with("HTTP/1.1 429"));
    service.signal("-HUP");
    let read = service.logged(|line| line["outcome"].is_string());
    assert_eq!(
        (&read["outcome"], &read["level"]),
        (&"ok".into(), &"INFO".into())
    );
    assert!(
        read.to_string().contains("SIGHUP: rules reloaded;"),
        "{read}"
    );
    service.signal("-TERM");
    let end = service.logged(|line| line["message"] == "stopped");
    assert!(!end.to_string().contains("secret"));
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

#[test]
fn tokens_from_the_environment_are_demanded_and_in_no_output() {
    let token = "hunter2-hunter2-hunter2";
    let settings = format!("{SETTINGS}admin: {{token_env: TOLLGATE_TEST_TOKEN}}\n")
        .replace("format: json", "format: json, level: debug");
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
    let checked = tollgate(directory.path())
        .env("TOLLGATE_TEST_TOKEN", token)
        .args(["check", "--config", "tollgate.yaml"])
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(0));
    let shown = [checked.stdout, checked.stderr].concat();
    assert!(!String::from_utf8(shown).unwrap().contains("hunter2"));
    let unset = run(directory.path(), &["serve"]);
    assert_eq!(unset.status.code(), Some(2));
    let text = String::from_utf8(unset.stderr).unwrap();
    assert!(
        text.contains("tollgate.yaml:4:20") && text.contains("is not set"),
        "{text}"
    );

    let mut service = Service::start_with(directory.path(), &[("TOLLGATE_TEST_TOKEN", token)]);
    let address = service.address("admin");
    let address = address.as_str();
    let status = |token: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("authorization: Bearer {token}\r\nconnection: close\r\n");
        write!(
            stream,
            "GET /v1/rules HTTP/1.1\r\nhost: localhost\r\n{head}\r\n"
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply[9..12].to_owned()
    };
    assert_eq!(
        [status(token), status("hunter2-hunter2-hunter3")],
        ["200", "401"]
    );
    service.signal("-TERM");
    let mut log = String::new();
    service.logged(|line| {
        log.push_str(&line.to_string());
        line["message"] == "stopped"
    });
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn the_environment_names_a_collector_of_opentelemetry() {
    let collector = Collector::start();
    let url = collector.url();
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url),
        ("OTEL_SERVICE_NAME", "edge"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
    ];
    let mut service = Service::start_with(directory.path(), &variables);
    let address = service.address("http");
    service.logged(|line| line["listener"] == "admin");
    assert!(ask(&address).starts_with("HTTP/1.1 200"));
    let span = collector.wait_for_spans(1).remove(0);
    assert_eq!(span.resource("service.name").as_deref(), Some("edge"));
    collector.wait_for_metrics(|taken| !taken.metrics.is_empty());
    service.signal("-HUP");
    let mut log = String::new();
    service.logged(|line| {
        log.push_str(&line.to_string());
        line["outcome"].is_string()
    });
    assert!(
        !log.contains("restart"),
        "the settings did not change: {log}"
    );
    drop(service);
    let variables = [variables[0], ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let command = &mut tollgate(directory.path());
    let output = command.envs(variables).arg("serve").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("OTEL_EXPORTER_OTLP_PROTOCOL"), "{text}");
}

#[test]
fn an_endpoint_of_the_environment_that_does_not_count_is_logged() {
    let settings =
        format!("{SETTINGS}telemetry: {{metrics: {{endpoint: 'http://127.0.0.1:1'}}}}\n");
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
    let ignored = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let variables = [
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:2"),
        (ignored, "not judged"),
    ];
    let mut service = Service::start_with(directory.path(), &variables);
    let mut logged = Vec::new();
    service.logged(|line| {
        logged.extend(line["variable"].is_string().then(|| line.clone()));
        line["listener"] == "http"
    });
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert_eq!(logged[0]["level"], "WARN");
    assert_eq!(logged[0]["variable"], ignored);
    assert_eq!(logged[0]["instead"], "traces.endpoint");
}

#[test]
fn serve_says_why_it_does_not_run() {
    let wrong = directory(&[
        ("rules.yaml", RULES),
        ("tollgate.yaml", "rule: rules.yaml\n"),
    ]);
    let output = run(wrong.path(), &["serve"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("tollgate.yaml:1:1"), "{text}");
    assert!(text.contains("did you mean `rules`?"), "{text}");
    let bad = directory(&[
        ("rules.yaml", "domain: d\nx: 1\n"),
        ("tollgate.yaml", SETTINGS),
    ]);
    let output = run(bad.path(), &["serve"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("rules.yaml:2:1"), "{text}");
    let nothing = directory(&[]);
    let output = run(nothing.path(), &["serve", "nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cannot read nowhere.yaml: "), "{text}");
    assert!(text.contains("as in `tollgate serve PATH`"), "{text}");
    let without_rules = directory(&[("tollgate.yaml", "rules: nowhere\n")]);
    for words in [&["serve"][..], &["check", "--config", "tollgate.yaml"]] {
        let output = run(without_rules.path(), words);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("the setting `rules`: cannot read "), "{text}");
        assert!(text.contains("tollgate.yaml:1:8\n"), "{text}");
    }
}

#[test]
fn serve_says_how_to_name_its_file() {
    let nothing = directory(&[]);
    for (option, expected) in [
        ("--config", "write `tollgate serve a.yaml`"),
        ("-c", "write `tollgate serve a.yaml`"),
        ("--rules", "write `rules: [a.yaml]` in a settings file"),
        (
            "--port",
            "write `listen: {http: '127.0.0.1:a.yaml'}` in the",
        ),
    ] {
        let output = run(nothing.path(), &["serve", option, "a.yaml"]);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(expected), "{text}");
    }
    let help = run(nothing.path(), &["serve", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(
        !help.contains("--config") && !help.contains("--port"),
        "{help}"
    );
}

#[test]
fn diagnostics_have_no_prefix_even_if_a_warning_comes_first() {
    let rules = "domain: d\ndescriptors:\n  - {key: k, value: '^/a/.*$', rate_limit: 1/day}\n  \
        - {key: l, x: 1}\n";
    let bad = directory(&[
        ("rules.yaml", rules),
        ("tollgate.yaml", "rules: rules.yaml\n"),
    ]);
    let output = run(bad.path(), &["serve"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("\nwarning[looks-like-regex]: "), "{text}");
    assert!(text.contains("\nerror[unknown-key]: "), "{text}");
}

#[test]
fn a_wrong_store_is_an_error_in_the_settings() {
    let tls = "tls: {ca: ca.pem, server_name: 'no name'}";
    let settings = format!("rules: rules.yaml\nstore:\n  redis: {{url: 'rediss://h', {tls}}}\n");
    let wrong = directory(&[
        ("rules.yaml", RULES),
        ("tollgate.yaml", &settings),
        ("ca.pem", "hello\n"),
    ]);
    for (words, status) in [
        (&["serve"][..], 2),
        (&["keys", "show", "d", "k=1"], 2),
        // For `check`, errors are its result, so the status is another one.
        (&["check", "--config", "tollgate.yaml"], 1),
    ] {
        let output = run(wrong.path(), words);
        assert_eq!(output.status.code(), Some(status), "{words:?}");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(
            text.contains("the certificates cannot be read: there is none in it"),
            "{text}"
        );
        assert!(text.contains("this is not a valid server name"), "{text}");
        assert!(text.contains("tollgate.yaml:3:"), "{text}");
        assert!(text.starts_with("error[setting]: "), "{text}");
    }
}

#[test]
fn a_password_in_the_wrong_place_is_in_no_output() {
    for store in [
        "store: redis://:hunter2@host:port",
        "store: {memory: redis://:hunter2@host}",
        "store: {redis://:hunter2@host: }",
    ] {
        let settings = format!("rules: rules.yaml\n{store}\n");
        let wrong = directory(&[
            ("rules.yaml", RULES),
            ("tollgate.yaml", &settings),
            ("access.log", LOG),
        ]);
        for words in [
            &["serve"][..],
            &["keys", "show", "d", "k=1"],
            &["check", "--config", "tollgate.yaml"],
            &["check", "--config", "tollgate.yaml", "--output", "json"],
            // Settings that are read as rules.
            &["check", "tollgate.yaml"],
            &["check", "tollgate.yaml", "--output", "json"],
            &["replay", "--rules", "tollgate.yaml", "access.log"],
        ] {
            let output = run(wrong.path(), words);
            assert_ne!(output.status.code(), Some(0), "{words:?}");
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(text.contains("tollgate.yaml"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

#[test]
fn a_password_in_settings_that_are_among_the_rules_is_in_no_output() {
    for (secret, is_valid) in [
        ("store: redis://:hunter2@127.0.0.1:1", true),
        (
            "store: {redis: {password: [hunter2], sentinel: hunter2}}",
            false,
        ),
        ("redis_protocol: {password: hunter2}\nadmin: hunter2", false),
        ("redis://:hunter2@h: 1\nredis://:hunter2@h: 2", false),
        ("store: [redis://:hunter2@host", false),
    ] {
        let settings = format!("rules: [.]\n{secret}\n");
        let files = directory(&[("tollgate.yaml", &settings), ("access.log", LOG)]);
        let as_rules = [
            &["check", "."][..],
            &["check", ".", "--output", "json"],
            &["replay", "--rules", ".", "access.log"],
        ];
        let as_both = [
            &["serve"][..],
            &["serve", "--log-format", "json"],
            &["check", "--config", "tollgate.yaml"],
            &["check", "--config", "tollgate.yaml", "--output", "json"],
        ];
        // Invalid settings are rejected before their rules are read.
        let as_both = as_both.iter().filter(|_| is_valid);
        for words in as_rules.iter().chain(as_both) {
            let output = run(files.path(), words);
            assert_ne!(output.status.code(), Some(0), "{words:?}");
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(!text.contains("hunter2"), "{words:?}: {text}");
            // `serve` both logs it and ends with it.
            let times = if words[0] == "serve" { 2 } else { 1 };
            for shown in ["these are settings of Tollgate", "tollgate check --config"] {
                assert_eq!(text.matches(shown).count(), times, "{words:?}: {text}");
            }
        }
    }
}

#[test]
fn a_reload_logs_no_password_of_settings_among_the_rules() {
    let files = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let rules = files.path().join("rules.yaml");
    let mut service = Service::start(files.path());
    service.logged(|line| line["listener"] == "admin");
    std::fs::write(rules, "store: 1\nredis://:hunter2@h: 1\n").unwrap();
    service.signal("-HUP");
    let mut log = String::new();
    service.logged(|line| {
        log.push_str(&line.to_string());
        line["outcome"].is_string()
    });
    assert!(log.contains("these are settings of Tollgate"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}

/// Without a handler, SIGUSR1 ends a process.
#[test]
fn sigusr1_opens_the_access_log_again() {
    let settings = SETTINGS.replace("admin:", "gateway: '127.0.0.1:0', admin:")
        + "gateway: {domain: d, upstreams: {api: {addresses: ['127.0.0.1:1']}},\n  \
           access_log: {path: access.log, format: combined}}\n";
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
    let mut service = Service::start(directory.path());
    let address = service.address("gateway");
    let log = directory.path().join("access.log");
    let old = log.with_extension("1");
    std::fs::rename(&log, &old).unwrap();
    service.signal("-USR1");
    service.logged(|line| {
        line["message"] == "SIGUSR1: the access log, if there is one, is opened again"
    });
    exchange(&address, "GET /after", "");
    service.signal("-TERM");
    service.logged(|line| line["message"] == "stopped");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
    let lines = std::fs::read_to_string(&log).unwrap();
    assert_eq!(
        lines.matches("\"GET /after HTTP/1.1\"").count(),
        1,
        "{lines}"
    );
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "");
}

#[test]
fn changed_settings_are_named_and_need_a_restart() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let mut service = Service::start(directory.path());
    service.logged(|line| line["listener"] == "admin");
    let write = |settings: &str| {
        let text = directory.path().join("text");
        std::fs::write(&text, settings).unwrap();
        std::fs::rename(&text, directory.path().join("tollgate.yaml")).unwrap();
    };
    write(&format!("{SETTINGS}limits: {{connections: 77}}\n"));
    let changed = service.logged(|line| line["settings"].is_string());
    assert_eq!(changed["level"], "WARN");
    assert_eq!(changed["settings"], "limits");
    let message = changed["message"].as_str().unwrap();
    assert!(message.contains("restart the service"), "{message}");
    write(&format!("{SETTINGS}limits: 77\n"));
    let invalid = service.logged(|line| line.to_string().contains("a restart will fail"));
    assert_eq!(invalid["level"], "ERROR");
    write(SETTINGS);
    service.logged(|line| {
        line.to_string()
            .contains("again has the settings in effect")
    });
    service.signal("-TERM");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

#[test]
fn a_second_signal_stops_at_once() {
    let settings = format!("{SETTINGS}limits: {{stop_delay: 1h}}\n");
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
    let mut service = Service::start(directory.path());
    service.logged(|line| line["listener"] == "admin");
    service.signal("-TERM");
    service.logged(|line| line["message"] == "stopping; another signal stops at once");
    service.signal("-INT");
    service.logged(|line| line["level"] == "WARN");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

/// To open a pipe that nothing writes to would take for ever: no reload would follow, and the
/// process would not end.
#[test]
fn a_pipe_in_place_of_a_file_is_an_error_and_later_reloads_follow() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let mut service = Service::start(directory.path());
    service.logged(|line| line["listener"] == "admin");
    let rules = directory.path().join("rules.yaml");
    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    std::fs::rename(&pipe, &rules).unwrap();
    service.logged(|line| line.to_string().contains("it is not a regular file"));
    let text = directory.path().join("text");
    std::fs::write(&text, RULES.replacen("domain: ", "domain: x", 1)).unwrap();
    std::fs::rename(&text, &rules).unwrap();
    service.logged(|line| line["message"] == "domain added");
    service.signal("-TERM");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

/// Neither the service opens it, nor what looks for the setting that is to blame.
#[test]
fn a_pipe_in_place_of_a_file_is_an_error_at_the_start() {
    let directory = directory(&[("tollgate.yaml", SETTINGS)]);
    let pipe = directory.path().join("rules.yaml");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut service = Service::start(directory.path());
    service.logged(|line| line.to_string().contains("it is not a regular file"));
    assert_eq!(service.process.wait().unwrap().code(), Some(2));
}

#[test]
fn start_up_errors_are_json_where_the_log_is() {
    let wrong = directory(&[("rules.yaml", RULES), ("tollgate.yaml", "rlues: x\n")]);
    for words in [
        &["serve", "--log-format", "json"][..],
        &["serve", "--log-format", "json", "nowhere.yaml"],
    ] {
        let output = run(wrong.path(), words);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["level"], "ERROR", "{text}");
        }
        assert!(!text.is_empty());
    }
}

/// A slip in the name, also in a change of the settings, switches all limits off.
#[test]
fn requests_of_the_gateway_that_nothing_limits_are_warned_of_also_after_a_reload() {
    let settings = SETTINGS.replace("admin:", "gateway: '127.0.0.1:0', admin:")
        + "gateway: {domain: web, upstreams: {api: {addresses: ['127.0.0.1:1']}}}\n";
    let rules = RULES.replacen(
        "domain: ",
        "domain: web\ndescriptors: [{key: remote_address, rate_limit: 1/day}]\n---\ndomain: ",
        1,
    );
    let directory = directory(&[("rules.yaml", &rules), ("tollgate.yaml", &settings)]);
    let mut service = Service::start(directory.path());
    service.address("gateway");
    let mut known = Vec::new();
    let mut warnings_after = |file: &str, text: &str, expected: &str, before: &[&str]| {
        std::fs::write(directory.path().join(file), text).unwrap();
        service.signal("-HUP");
        let mut warnings = Vec::new();
        service.logged(|line| {
            let message = line["message"].as_str().unwrap().to_owned();
            let is_expected = message == expected;
            // The change may have been noticed before the signal, and is then logged twice.
            if line["level"] == "WARN" && !is_expected && !known.contains(&message) {
                warnings.push(message);
            }
            is_expected
        });
        assert_eq!(warnings, before, "before {expected:?}");
        known.extend(warnings);
        known.push(expected.to_owned());
    };
    let slip = rules.replace("remote_address", "remote_addres");
    let expected = "no rule of the domain `web` is for the descriptor `remote_address` of \
        `gateway.identity`, so it limits nothing";
    let removed = "rule removed: no request meets its limit";
    warnings_after("rules.yaml", &slip, expected, &[removed]);
    let slip = settings.replace("domain: web", "domain: wbe");
    let expected =
        "`gateway` asks for the domain `wbe`, which has no rules, so it allows everything";
    warnings_after("tollgate.yaml", &slip, expected, &[]);
}

/// The rules of a domain take effect before the routes that ask for it.
#[test]
fn a_domain_that_comes_with_its_rules_is_not_warned_of() {
    let text = |domain: &str| {
        format!(
            "listen: {{grpc: null, http: null, gateway: '127.0.0.1:0', admin: '127.0.0.1:0'}}\n\
             log: {{format: json}}\n\
             gateway: {{domain: {domain}, upstreams: {{api: {{addresses: ['127.0.0.1:1']}}}}}}\n\
             ---\ndomain: {domain}\n\
             descriptors: [{{key: remote_address, rate_limit: 1/day}}]\n"
        )
    };
    let directory = directory(&[("tollgate.yaml", &text("web"))]);
    let mut service = Service::start(directory.path());
    service.address("gateway");
    let path = |name| directory.path().join(name);
    std::fs::write(path("new"), text("shop")).unwrap();
    std::fs::rename(path("new"), path("tollgate.yaml")).unwrap();
    service.signal("-HUP");
    let mut messages = Vec::new();
    service.logged(|line| {
        messages.push(format!("{} {}", line["level"], line["message"]));
        line["message"].as_str().unwrap().starts_with("SIGHUP: ")
    });
    let warns = messages
        .iter()
        .filter(|one| one.contains("which has no rules"));
    assert_eq!(warns.count(), 0, "{messages:?}");
    let of = |part| messages.iter().position(|one| one.contains(part)).unwrap();
    let (rules, gateway) = (of("rules in effect"), of("the gateway's settings"));
    assert!(rules < gateway, "{messages:?}");
}
