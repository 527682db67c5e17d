//! Metrics, rules and descriptions, as an operator sees them.

use serde_json::{Value, json};
use tollgate_server::VALUE_SERIES_MAX;

use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;

const RULES: &str = "
domain: d
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2, soft: 50%, mode: leased, instances: 3}
  - key: dark
    rate_limit: 0/day
    shadow_mode: true
  - key: each
    rate_limit: 5/day
    detailed_metric: true
  - key: free
    rate_limit: {unlimited: true}
";

async fn metrics(house: &House) -> String {
    Client::to(house.admin()).await.get("/metrics").await.body
}

async fn ask(house: &House, body: &str) -> u16 {
    let mut client = Client::to(house.http()).await;
    client.post("/v1/check", body).await.status
}

#[tokio::test]
async fn decisions_are_counted_by_domain_rule_and_outcome() {
    let house = House::on(RULES).await;
    let all =
        r#"{"domain":"d","descriptors":[{"user":"a"},{"dark":"x"},{"free":"x"},{"none":"x"}]}"#;
    for status in [200, 200, 200, 429] {
        assert_eq!(ask(&house, all).await, status);
    }
    let both = r#"{"domain":"d","descriptors":[{"user":"a"},{"user":"b"}]}"#;
    assert_eq!(ask(&house, both).await, 429);
    let strange = r#"{"domain":"who","descriptors":[{"user":"a"}]}"#;
    assert_eq!(ask(&house, strange).await, 200);
    assert_eq!(ask(&house, "{}").await, 400);
    let text = metrics(&house).await;
    let expected = [
        r#"tollgate_decisions_total{domain="d",rule="user",outcome="allowed"} 2"#,
        r#"tollgate_decisions_total{domain="d",rule="user",outcome="over_soft"} 1"#,
        r#"tollgate_decisions_total{domain="d",rule="user",outcome="denied"} 2"#,
        r#"tollgate_decisions_total{domain="d",rule="user",outcome="uncharged"} 1"#,
        r#"tollgate_decisions_total{domain="d",rule="dark",outcome="shadow_denied"} 4"#,
        r#"tollgate_decisions_total{domain="d",rule="free",outcome="unlimited"} 4"#,
        r#"tollgate_decisions_total{domain="d",rule="",outcome="no_limit"} 4"#,
        r#"tollgate_decisions_total{domain="",rule="",outcome="unknown_domain"} 1"#,
        r#"tollgate_request_errors_total{listener="http",kind="bad_request"} 1"#,
        r#"tollgate_decision_seconds_count{listener="http"} 6"#,
        "tollgate_keys 1",
        "tollgate_keys_evicted_total 0",
        "tollgate_rules 4",
        "tollgate_domains 1",
        r#"tollgate_reloads_total{outcome="ok"} 1"#,
    ];
    for line in expected {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn grpc_errors_are_counted_by_kind() {
    let house = House::on(RULES).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    client.ask(r#"{"domain":"d"}"#).await.unwrap_err();
    let text = metrics(&house).await;
    let line = r#"tollgate_request_errors_total{listener="grpc",kind="bad_request"} 1"#;
    assert!(text.lines().any(|found| found == line), "{text}");
}

#[tokio::test]
async fn series_are_bounded_whatever_clients_send() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let surplus = 50;
    for index in 0..VALUE_SERIES_MAX + surplus {
        let body = format!(r#"{{"domain":"d","descriptors":[{{"each":"v{index}"}}]}}"#);
        client.post("/v1/check", &body).await;
        let body = format!(r#"{{"domain":"d{index}","descriptors":[{{"k{index}":"v"}}]}}"#);
        client.post("/v1/check", &body).await;
    }
    let text = metrics(&house).await;
    let series = text.lines().filter(|line| line.contains(r#"rule="each_v"#));
    assert_eq!(series.count(), VALUE_SERIES_MAX);
    let line = r#"tollgate_decisions_total{domain="d",rule="(other)",outcome="allowed"} 50"#;
    assert!(text.lines().any(|found| found == line), "{text}");
    assert!(!text.contains("domain=\"d1\""));
}

#[tokio::test]
async fn the_rules_in_effect_are_shown() {
    let house = House::on(RULES).await;
    let reply = Client::to(house.admin()).await.get("/v1/rules").await;
    let json = reply.json();
    assert_eq!(json["domains"], json!(["d"]));
    let expected = json!({
        "domain": "d", "rule": "user", "text": "2 per 1d fixed_window soft 50%",
        "enforcement": "enforce", "chargeDenied": null, "changes": 0,
        "limit": 2, "window": "1d", "algorithm": "fixed_window", "capacity": 3,
        "mode": "leased", "onStoreError": "local", "instances": 3,
    });
    assert_eq!(json["rules"][0], expected);
    assert_eq!(json["rules"][1]["enforcement"], "shadow");
    assert_eq!(json["rules"][1]["mode"], "strict");
    assert_eq!(json["rules"][3]["text"], "unlimited");
    assert_eq!(json["rules"][3].get("mode"), None);
}

/// A filter that does not exist would look like one that matches everything.
#[tokio::test]
async fn parameters_that_do_not_exist_are_errors() {
    let house = House::on(RULES).await;
    let mut admin = Client::to(house.admin()).await;
    for path in ["/v1/rules", "/v1/headroom"] {
        for (query, name) in [("domain=d", "domain"), ("a%20b&c=d", "a b"), ("x", "x")] {
            let detail = admin.get(&format!("{path}?{query}")).await.problem(400);
            let expected = format!("there is no parameter `{name}`; {path} takes none");
            assert_eq!(detail, expected);
        }
        assert_eq!(admin.get(&format!("{path}?")).await.status, 200);
    }
    let body = r#"{"domain": "d", "headroom": true, "expires_in": "30s"}"#;
    let detail = admin.put("/v1/headroom?expires_in=9s", body).await;
    let expected = "there is no parameter `expires_in`; /v1/headroom takes none";
    assert_eq!(detail.problem(400), expected);
    let counted = r#"tollgate_request_errors_total{listener="admin",kind="bad_request"} 7"#;
    assert!(metrics(&house).await.contains(counted));
    // Probes and scrapers may have some of their own.
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(admin.get(&format!("{path}?a=b")).await.status, 200);
    }
}

#[tokio::test]
async fn every_path_of_the_description_is_served() {
    let house = House::on(RULES).await;
    let mut of_http = Client::to(house.http()).await;
    let mut of_admin = Client::to(house.admin()).await;
    let document = of_http.get("/openapi.json").await.json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let content = &methods[method]["responses"]["200"]["content"];
            if content["text/event-stream"].is_object() {
                // Without an end, so only its head is read.
                let mut client = Client::to(house.admin()).await;
                let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
                client.send(request.as_bytes()).await;
                let head = client.read_until("\r\n\r\n").await;
                assert!(
                    head.contains("content-type: text/event-stream\r\n"),
                    "{path}: {head}"
                );
                continue;
            }
            let client = match methods[method].get("servers") {
                Some(_) => &mut of_admin,
                None => &mut of_http,
            };
            let reply = match method.as_str() {
                "get" => client.get(path).await,
                "post" => client.post(path, "{}").await,
                "put" => client.put(path, "{}").await,
                other => panic!("{other}"),
            };
            let response = &methods[method]["responses"][reply.status.to_string()];
            let media_type = reply.header("content-type").unwrap();
            assert!(
                response["content"][media_type].is_object(),
                "{path}: {reply:?}"
            );
        }
    }
}

#[tokio::test]
async fn metrics_have_help_and_type_by_the_name_of_their_series_unless_asked_otherwise() {
    let house = House::on(RULES).await;
    assert_eq!(
        ask(&house, r#"{"domain":"d","descriptors":[{"user":"a"}]}"#).await,
        200
    );
    let mut client = Client::to(house.admin()).await;
    let reply = client.get("/metrics").await;
    assert!(
        reply.head.contains("text/plain; version=0.0.4"),
        "{}",
        reply.head
    );
    let (mut helped, mut typed) = (Vec::new(), Vec::new());
    for line in reply.body.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, about] if !about.is_empty() => helped.push(name),
            ["#", "TYPE", name, kind] => {
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                typed.push(name);
            }
            _ => {
                let series = line.split(['{', ' ']).next().unwrap();
                let of_histogram = ["_bucket", "_sum", "_count"];
                let name = of_histogram.iter().find_map(|end| series.strip_suffix(end));
                let is_known = |name: &str| typed.contains(&name) && helped.contains(&name);
                let is_whole = is_known(series) || name.is_some_and(is_known);
                assert!(is_whole && !line.starts_with('#'), "{line}");
            }
        }
    }
    assert!(helped.contains(&"tollgate_decisions_total"), "{helped:?}");
    assert!(reply.body.contains("tollgate_build_info{version=\""));
    assert_eq!(client.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn metrics_are_in_the_format_that_a_scraper_prefers() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.admin()).await;
    // The first is Prometheus's own, in short.
    for (accept, is_open) in [
        (
            "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,\
             */*;q=0.1",
            true,
        ),
        ("application/openmetrics-text", true),
        ("text/plain,application/openmetrics-text", true),
        ("*/*", false),
        ("application/*", false),
        ("application/openmetrics-text;q=0", false),
        ("text/plain;q=0.9,application/openmetrics-text;q=0.1", false),
        ("*/*;q=0.9,application/openmetrics-text;q=0.1", false),
    ] {
        let head = format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n");
        client.send((head + "\r\n").as_bytes()).await;
        let reply = client.reply().await.unwrap();
        let found = reply.header("content-type").unwrap();
        let is_named = found.starts_with("application/openmetrics-text");
        let is_ended = reply.body.ends_with("# EOF\n");
        assert_eq!((is_named, is_ended), (is_open, is_open), "{accept}");
    }
}

#[tokio::test]
async fn the_process_and_every_limit_that_counts_have_a_gauge() {
    let house = House::on(RULES).await;
    let text = metrics(&house).await;
    let value = |name: &str| -> f64 {
        let of_name = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(' ')?.parse());
        text.lines().find_map(of_name).expect(name).unwrap()
    };
    for (name, kind) in [
        ("process_resident_memory_bytes", "gauge"),
        ("process_cpu_seconds_total", "counter"),
        ("process_start_time_seconds", "gauge"),
        ("process_open_fds", "gauge"),
        ("process_max_fds", "gauge"),
    ] {
        assert!(value(name) > 0.0, "{name}");
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{text}");
    }
    // Bounds that hold for any process: at least a page, less than the address space, not of 1970.
    assert!((4096.0..1e15).contains(&value("process_resident_memory_bytes")));
    assert!(value("process_start_time_seconds") > 1.6e9);
    assert!(value("process_open_fds") <= value("process_max_fds"));
    for (name, bound) in [
        ("connections_max", 1024.0),
        ("connections_per_address_max", 256.0),
        ("admin_connections_max", 64.0),
        ("connection_age_max_seconds", 3600.0),
        ("streams_per_connection_max", 256.0),
        ("streams_promised_max", 4096.0),
        ("header_bytes_max", 16_384.0),
        ("message_bytes_max", 8_388_608.0),
        ("body_bytes_max", 262_144.0),
        ("connection_bytes_held_max", 33_554_432.0),
        ("request_bytes_held_max", 67_108_864.0),
        ("turn_bytes_max", 32_768.0),
        ("control_frames_max", 1000.0),
    ] {
        let name = format!("tollgate_{name}");
        assert!((value(&name) - bound).abs() < 0.5, "{name}");
    }
}

#[tokio::test]
async fn a_limit_of_0_never_suggests_a_smaller_cost_even_at_cost_0() {
    let house = House::on("domain: d\ndescriptors: [{key: k, rate_limit: 0/day}]\n").await;
    let mut client = Client::to(house.http()).await;
    for cost in [0, 1, 5] {
        let body = format!(r#"{{"domain":"d","descriptors":[{{"k":"v"}}],"cost":{cost}}}"#);
        let reply = client.post("/v1/check", &body).await;
        assert!(!reply.body.contains("less"), "{}", reply.body);
        if cost > 0 {
            assert_eq!(reply.status, 429);
            assert!(reply.body.contains("is 0, so it denies everything"));
        }
    }
}

/// Whether `value` conforms to `schema`: type, members, choices and bounds, as far as the
/// description of `/json` uses them.
fn conforms(document: &Value, schema: &Value, value: &Value) -> bool {
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.strip_prefix('#').unwrap();
        return conforms(document, document.pointer(pointer).expect(name), value);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices
            .iter()
            .filter(|choice| conforms(document, choice, value));
        return fits.count() == 1;
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices.contains(value);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = &schema["type"];
    let has_kind = kinds == kind
        || kinds
            .as_array()
            .is_some_and(|all| all.contains(&kind.into()));
    let items = value.as_array().into_iter().flatten();
    let members = value.as_object().into_iter().flatten();
    let required = schema["required"].as_array().into_iter().flatten();
    let is_bound = |max: u64| value.as_u64().is_none_or(|number| number <= max);
    has_kind
        && schema["maximum"].as_u64().is_none_or(is_bound)
        && required
            .into_iter()
            .all(|name| value.get(name.as_str().unwrap()).is_some())
        && items
            .into_iter()
            .all(|item| conforms(document, &schema["items"], item))
        && members
            .into_iter()
            .all(|(name, member)| match schema["properties"].get(name) {
                Some(schema) => conforms(document, schema, member),
                None => schema["additionalProperties"] != false,
            })
}

#[tokio::test]
async fn json_is_read_and_written_as_described() {
    let house = House::with(RULES, |config| config.dynamic_metadata = true).await;
    let mut client = Client::to(house.http()).await;
    let document = client.get("/openapi.json").await.json();
    let described = &document["paths"]["/json"]["post"];
    let asked = &described["requestBody"]["content"]["application/json"];
    let camel = json!({
        "domain": "d", "hitsAddend": "1",
        "descriptors": [
            {"entries": [{"key": "user", "value": "a"}], "hitsAddend": 1, "isNegativeHits": false},
            {"entries": [{"key": "x", "value": null}],
             "limit": {"requestsPerUnit": 5, "unit": "HOUR"}},
            {"entries": [{"key": "free"}], "hitsAddend": 5_000_000_000_u64},
            {"entries": [{"key": "none"}], "limit": null},
        ],
    });
    let snake = json!({
        "domain": "d", "hits_addend": 2,
        "descriptors": [
            {"entries": [{"key": "user", "value": "a"}], "is_negative_hits": null},
            {"entries": [{"key": "x"}], "hits_addend": "1",
             "limit": {"requests_per_unit": "5", "unit": 3}},
        ],
    });
    let mut statuses = Vec::new();
    for request in [&asked["example"], &camel, &snake, &snake] {
        assert!(conforms(&document, &asked["schema"], request), "{request}");
        let reply = client.post("/json", &request.to_string()).await;
        let response = &described["responses"][reply.status.to_string()];
        let response = &response["content"]["application/json"];
        assert!(
            conforms(&document, &response["schema"], &reply.json()),
            "{reply:?}"
        );
        let example = response.get("example");
        assert!(example.is_none_or(|json| conforms(&document, &response["schema"], json)));
        statuses.push(reply.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    for wrong in [
        json!({"domain": "d", "descriptors": [{"entries": []}], "hits": 1}),
        json!({"domain": "d", "descriptors": [{"limit": {"unit": "AGE"}}]}),
        json!({"domain": "d", "descriptors": [{}], "hitsAddend": 4_294_967_296_u64}),
        json!({"domain": 7, "descriptors": [{}]}),
    ] {
        assert!(!conforms(&document, &asked["schema"], &wrong), "{wrong}");
        assert_eq!(client.post("/json", &wrong.to_string()).await.status, 400);
    }
}

#[tokio::test]
async fn rules_are_shown_as_described() {
    let rules = "
domain: d
descriptors:
  - key: user
    rate_limit: {name: users, unit: day, requests_per_unit: 8, mode: leased, instances: 3}
  - key: part
    rate_limit: 4/day
    enforce: 50%
  - key: dark
    rate_limit: {unit: day, requests_per_unit: 4, elastic: {share: 50%, while: [reported]}}
    shadow_mode: true
  - key: free
    rate_limit: {unlimited: true}
";
    let house = House::on(rules).await;
    let document = Client::to(house.http()).await.get("/openapi.json").await;
    let document = document.json();
    let shown = Client::to(house.admin())
        .await
        .get("/v1/rules")
        .await
        .json();
    let schemas = &document["components"]["schemas"];
    assert!(conforms(&document, &schemas["Rules"], &shown), "{shown}");
    let mut described: Vec<&String> = schemas["Rule"]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    let shown = shown["rules"].as_array().unwrap().iter();
    let mut shown: Vec<&String> = shown
        .flat_map(|rule| rule.as_object().unwrap().keys())
        .collect();
    described.sort_unstable();
    shown.sort_unstable();
    shown.dedup();
    assert_eq!(shown, described);
}
