use super::*;

fn environment<'e>(set: &'e [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'e {
    |name| {
        let value = set.iter().find(|(found, _)| *found == name);
        value.map(|(_, value)| (*value).to_owned())
    }
}

fn resolve(set: &[(&str, &str)]) -> Option<Settings> {
    let config = TelemetryConfig::default().with_environment(environment(set));
    config.expect("valid variables").resolve()
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");

#[test]
fn nothing_is_exported_without_an_endpoint() {
    assert_eq!(resolve(&[]), None);
    assert_eq!(
        resolve(&[("OTEL_SERVICE_NAME", "x"), ("OTEL_TRACES_SAMPLER", "odd")]),
        None
    );
    assert_eq!(resolve(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]), None);
    let none = [
        ENDPOINT,
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_METRICS_EXPORTER", "none"),
    ];
    assert_eq!(resolve(&none), None);
    let empty = [("OTEL_EXPORTER_OTLP_ENDPOINT", " ")];
    assert_eq!(resolve(&empty), None);
}

#[test]
fn without_an_endpoint_no_variable_is_judged() {
    for (name, value) in [
        ("OTEL_SDK_DISABLED", "yes"),
        ("OTEL_TRACES_EXPORTER", "jaeger"),
        ("OTEL_METRICS_EXPORTER", "console"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ] {
        assert_eq!(resolve(&[(name, value)]), None, "{name}");
    }
}

#[test]
fn metrics_for_prometheus_are_not_sent() {
    let found = resolve(&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "prometheus")]);
    let found = found.expect("it exports");
    assert!(found.traces.is_some() && found.metrics.is_none());
}

#[test]
fn an_endpoint_alone_exports_with_the_defaults() {
    let found = resolve(&[ENDPOINT]).expect("it exports");
    let traces = found.traces.expect("traces");
    assert_eq!(traces.endpoint.to_string(), "http://c:4318/v1/traces");
    assert_eq!(traces.interval, TRACE_INTERVAL);
    let metrics = found.metrics.expect("metrics");
    assert_eq!(metrics.endpoint.to_string(), "http://c:4318/v1/metrics");
    assert_eq!(metrics.interval, METRIC_INTERVAL);
    assert_eq!(
        (found.timeout, found.gzip, found.sample),
        (TIMEOUT, false, Ratio::ALL)
    );
    assert_eq!(found.resource["service.name"], "tollgate");
}

#[test]
fn every_variable_is_read() {
    let found = resolve(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/own"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m:1/"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20x%2Cy, api-key = k ",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1000"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "30000"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,region=eu%2D1"),
        ("OTEL_SERVICE_NAME", "edge"),
        ("OTEL_SDK_DISABLED", "False"),
    ]);
    let found = found.expect("it exports");
    let traces = found.traces.expect("traces");
    assert_eq!(traces.endpoint.to_string(), "https://t/own");
    assert_eq!(traces.interval, Duration::from_secs(1));
    let metrics = found.metrics.expect("metrics");
    assert_eq!(metrics.endpoint.to_string(), "http://m:1");
    assert_eq!(metrics.interval, Duration::from_secs(30));
    assert_eq!(found.headers["authorization"], "Bearer x,y");
    assert_eq!(found.headers["api-key"], "k");
    assert!(!format!("{:?}", found.headers).contains("Bearer"));
    assert_eq!(found.timeout, Duration::from_millis(2500));
    assert!(found.gzip);
    assert_eq!(found.ca, Some("/ca.pem".into()));
    assert_eq!(found.sample, Ratio::parse_percent("25%").expect("a ratio"));
    assert_eq!(found.resource["service.name"], "edge");
    assert_eq!(found.resource["region"], "eu-1");
}

#[test]
fn the_file_has_precedence() {
    let written = TelemetryConfig {
        endpoint: Some(Endpoint::parse("http://file:1").expect("a URL")),
        service_name: Some("file".to_owned()),
        sample: Some(Ratio::NONE),
        timeout: Some(Duration::from_secs(1)),
        gzip: Some(false),
        headers: [header("a", "file").expect("a header")]
            .into_iter()
            .collect(),
        resource: [("k".to_owned(), "file".to_owned())].into(),
        ..TelemetryConfig::default()
    };
    let set = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://environment:1"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://environment:2"),
        ("OTEL_SERVICE_NAME", "environment"),
        ("OTEL_TRACES_SAMPLER", "parentbased_always_on"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "9000"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=environment,b=environment"),
        ("OTEL_RESOURCE_ATTRIBUTES", "k=environment,l=environment"),
    ];
    let found = written.with_environment(environment(&set));
    let found = found
        .expect("valid variables")
        .resolve()
        .expect("it exports");
    let traces = found.traces.expect("traces");
    assert_eq!(traces.endpoint.to_string(), "http://file:1/v1/traces");
    assert_eq!(found.resource["service.name"], "file");
    assert_eq!((found.sample, found.gzip), (Ratio::NONE, false));
    assert_eq!(found.timeout, Duration::from_secs(1));
    assert_eq!(found.headers["a"], "file");
    assert_eq!(found.headers["b"], "environment");
    assert_eq!(
        (&*found.resource["k"], &*found.resource["l"]),
        ("file", "environment")
    );
}

#[test]
fn endpoints_of_the_environment_are_ignored_beside_one_that_is_written() {
    let collector = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://environment:1");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://environment");
    let metrics = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", " ");
    let set = [collector, traces, metrics];
    let endpoint = || Some(Endpoint::parse("http://file:1").expect("a URL"));
    let of_both = TelemetryConfig {
        endpoint: endpoint(),
        ..TelemetryConfig::default()
    };
    let mut of_metrics = TelemetryConfig::default();
    of_metrics.metrics.endpoint = endpoint();
    let traces = (traces.0, "traces.endpoint");
    for (written, expected) in [
        (TelemetryConfig::default(), &[][..]),
        (of_both, &[traces]),
        (of_metrics, &[(collector.0, "endpoint"), traces]),
    ] {
        let found = written.find_ignored_variables(environment(&set));
        assert_eq!(found, expected);
        if written.has_endpoint() {
            let joined = written.clone().with_environment(environment(&set));
            assert_eq!(joined.as_ref(), Ok(&written), "they are not judged either");
        }
    }
}

#[test]
fn invalid_variables_are_named() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=%hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2%0A"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "host=hunter2"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_TRACES_SAMPLER", "always_on"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_TRACES_EXPORTER", "prometheus"),
        ("OTEL_METRICS_EXPORTER", "console"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a"),
        ("OTEL_SDK_DISABLED", "yes"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1"),
    ] {
        let set = [(name, value), ENDPOINT];
        let found = TelemetryConfig::default().with_environment(environment(&set));
        let found = found.expect_err(value).to_string();
        assert!(found.contains(name), "{found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}
