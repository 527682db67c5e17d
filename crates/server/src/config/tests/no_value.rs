//! A key without a value is an error: without its value, what it was to protect would be open.

use super::*;

const GATEWAY: &str = "rules: r\ngateway:\n  domain: api\n  \
    upstreams: {api: {addresses: ['127.0.0.1:3000']}}\n  ";
const LISTENER: &str = "rules: r\nlisten: {http: {address: 127.0.0.1:80, ";
const AUTH: &str = "rules: r\nauth: {domain: d, source: x-original-uri, ";
const SOURCE: &str = "client_address: {source: x-real-ip}";

/// Checks that the one error of settings is that `key` has no value, where these say `NONE`.
fn check(text: &str, key: &str) {
    let line = text.lines().position(|line| line.contains("NONE")).unwrap() + 1;
    for value in ["", "null", "~"] {
        let text = text.replace("NONE", value);
        let found = invalid(&text);
        for expected in [
            format!("`{key}` has no value\n --> tollgate.yaml:{line}:"),
            "  = help: write a value for it".to_owned(),
        ] {
            assert!(found.contains(&expected), "{text}\n{found}");
        }
        assert_eq!(found.matches("error[").count(), 1, "{text}\n{found}");
    }
}

#[test]
fn of_the_service() {
    for key in [
        "merge_domains",
        "listen",
        "memory",
        "store",
        "stores",
        "auth",
        "admin",
        "reservations",
        "explain",
        "headroom",
        "gateway",
        "redis_protocol",
        "limits",
        "telemetry",
        "log",
        "allow_refund",
        "dynamic_metadata",
    ] {
        check(&format!("rules: r\n{key}: NONE\n"), key);
    }
    check("rules: NONE\n", "rules");
    check("rules: NONE\n---\ndomain: d\n", "rules");
    for (text, key) in [
        ("limits: {connections: NONE}", "connections"),
        ("memory: {max_keys: NONE}", "max_keys"),
        ("log: {level: NONE}", "level"),
        ("explain: {show_values: NONE}", "show_values"),
        ("headroom: {cpu: NONE}", "cpu"),
        ("headroom: {cpu: {high: NONE}}", "high"),
        ("reservations: {max: NONE}", "max"),
        ("redis_protocol: {password_file: NONE}", "password_file"),
        ("admin: {token_file: NONE}", "token_file"),
        ("admin: {token_env: NONE}", "token_env"),
        ("store: {redis: NONE}", "redis"),
        ("store: {redis: {url: NONE}}", "url"),
        (
            "store: {redis: {url: 'redis://h', password: NONE}}",
            "password",
        ),
        (
            "store: {redis: {url: 'redis://h', password_file: NONE}}",
            "password_file",
        ),
        ("store: {redis: {url: 'redis://h', tls: NONE}}", "tls"),
        ("store: {redis: {url: 'rediss://h', tls: {ca: NONE}}}", "ca"),
        ("store: {redis: {url: 'redis://h'}, mode: NONE}", "mode"),
        (
            "store: {redis: {url: 'redis://h'}, on_store_error: NONE}",
            "on_store_error",
        ),
        ("stores: {pay: NONE}", "pay"),
        ("stores: {pay: {domains: NONE, memory: true}}", "domains"),
        ("telemetry: {endpoint: NONE}", "endpoint"),
        ("telemetry: {traces: {sample: NONE}}", "sample"),
    ] {
        check(&format!("rules: r\n{text}\n"), key);
    }
}

/// It may be a password in the wrong place.
#[test]
fn a_name_that_the_settings_do_not_know_is_not_shown() {
    let found = invalid("rules: r\ntelemetry: {headers: {hunter2: }}\n");
    assert!(
        found.contains("(not shown: it may be a password) has no value"),
        "{found}"
    );
    assert!(!found.contains("hunter2"), "{found}");
}

#[test]
fn of_listeners_and_auth() {
    for (base, text, key) in [
        (LISTENER, "tls: NONE}}", "tls"),
        (LISTENER, "mode: NONE}}", "mode"),
        (AUTH, "identity: NONE}", "identity"),
        (AUTH, "identity: {client_address: NONE}}", "client_address"),
        (
            AUTH,
            "identity: {client_address: {source: NONE}}}",
            "source",
        ),
        (AUTH, "identity: {SOURCE}, responses: NONE}", "responses"),
        (
            "rules: r\nauth: {source: x-original-uri, identity: {SOURCE}, ",
            "domain: NONE}",
            "domain",
        ),
        ("rules: r\nlisten: {http: {", "address: NONE}}", "address"),
    ] {
        check(&format!("{base}{text}\n").replace("SOURCE", SOURCE), key);
    }
    let tls = "rules: r\nlisten:\n  admin:\n    tls:\n      cert:\n      key:\n      client_ca:\n";
    let found = invalid(tls);
    for key in ["cert", "key", "client_ca"] {
        assert!(found.contains(&format!("`{key}` has no value")), "{found}");
    }
    assert_eq!(found.matches("error[").count(), 3, "{found}");
}

#[test]
fn of_the_gateway() {
    for (text, key) in [
        ("identity: NONE", "identity"),
        ("identity: {client_address: NONE}", "client_address"),
        (
            "identity: {client_address: {trusted_proxies: NONE}}",
            "trusted_proxies",
        ),
        ("identity: {token: NONE}", "token"),
        ("identity: {count_when: NONE}", "count_when"),
        ("identity: {cost: NONE}", "cost"),
        ("identity: {descriptors: NONE}", "descriptors"),
        ("responses: NONE", "responses"),
        ("lists: NONE", "lists"),
        ("lists: {deny: NONE}", "deny"),
        ("access_log: NONE", "access_log"),
        ("timeouts: NONE", "timeouts"),
        ("timeouts: {head: NONE}", "head"),
        ("in_flight: NONE", "in_flight"),
        ("routes: NONE", "routes"),
        ("routes: [{match: NONE}]", "match"),
        ("routes: [{match: {paths: NONE}}]", "paths"),
        (
            "routes: [{match: {paths: [/a]}, identity: NONE}]",
            "identity",
        ),
        (
            "routes: [{match: {paths: [/a]}, upstream: NONE}]",
            "upstream",
        ),
    ] {
        check(&format!("{GATEWAY}{text}\n"), key);
    }
    for key in ["tls", "health_check", "retries", "protocol"] {
        let text = format!(
            "rules: r\ngateway: {{domain: api, upstreams: {{api: {{addresses: \
            ['127.0.0.1:3000'], {key}: NONE}}}}}}\n"
        );
        check(&text, key);
    }
    check(
        "rules: r\ngateway: {domain: NONE, upstreams: {api: {addresses: ['h:1']}}}\n",
        "domain",
    );
}

/// These are the keys for which `null` is a value.
#[test]
fn null_turns_off_what_can_be_off() {
    let off = "rules: r\nlisten: {grpc: null, gateway: ~, redis: null, admin: ~}\n\
        telemetry: {traces: null, metrics: ~}\n";
    let config = parse(off).unwrap();
    assert_eq!(config.listen.len(), 1);
    assert_eq!(config.telemetry.traces.is_on, Some(false));
    assert_eq!(config.telemetry.metrics.is_on, Some(false));
    for (text, help) in [
        ("listen: {grpc: }", "or `grpc: null` to turn it off"),
        ("telemetry: {traces: }", "or `traces: null` to turn it off"),
    ] {
        let found = invalid(&format!("rules: r\n{text}\n"));
        assert!(found.contains(help), "{found}");
    }
}

/// Rules behind the settings have checks of their own, by which this is a warning.
#[test]
fn rules_in_the_same_file_are_not_settings() {
    let config =
        parse("log: {level: info}\n---\ndomain: d\ndescriptors:\n- key: k\n  rate_limit:\n");
    config.unwrap();
}
