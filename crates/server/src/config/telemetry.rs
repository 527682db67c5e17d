//! `telemetry`: what is exported to OpenTelemetry, and where to.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tollgate_core::Span;
use tollgate_rules::Settings;
use tollgate_telemetry::{
    Endpoint, Ratio, SignalConfig, TIMES, Telemetry, TelemetryConfig, header,
};

use super::ListenerKind;

/// The listeners whose protocol has a trace context.
const WITH_CONTEXT: [&str; 3] = [
    ListenerKind::Grpc.name(),
    ListenerKind::Http.name(),
    ListenerKind::Gateway.name(),
];
const ENDPOINT: &str = "http://localhost:4318";

/// Reads the map `telemetry`. Paths are relative to `directory`.
pub(super) fn take(top: &Settings<'_>, directory: &Path) -> TelemetryConfig {
    if !top.has("telemetry") {
        return TelemetryConfig::default();
    }
    top.map("telemetry", |map| {
        let mut config = TelemetryConfig {
            endpoint: map.parse("endpoint", ENDPOINT, Endpoint::parse_collector),
            timeout: time(map, "timeout"),
            gzip: map
                .choice("compression", &["gzip", "none"])
                .map(|word| word == "gzip"),
            ca: map.text("ca").map(|path| directory.join(path)),
            service_name: map.text("service_name"),
            resource: map
                .value::<BTreeMap<String, String>>("resource")
                .unwrap_or_default(),
            ..TelemetryConfig::default()
        };
        take_headers(map, &mut config);
        config.traces = signal(map, "traces", |map| {
            config.sample = map.parse("sample", "10%", |text| {
                let why = "is not a percentage from 0% to 100%, with at most four digits after the \
                    point";
                Ratio::parse_percent(text).ok_or_else(|| why.to_owned())
            });
            config.trust_context = take_trust(map);
        });
        config.metrics = signal(map, "metrics", |_| ());
        if let Err(invalid) = Telemetry::check(&config) {
            map.report_error(
                "ca",
                format!("{}: {}", invalid.name, invalid.problem),
                &invalid.help,
            );
        }
        config
    })
}

/// Reads the headers that every export has.
fn take_headers(map: &Settings<'_>, config: &mut TelemetryConfig) {
    let headers = map.value::<BTreeMap<String, String>>("headers");
    for (name, value) in headers.unwrap_or_default() {
        match header(&name, &value) {
            Ok((name, value)) => drop(config.headers.insert(name, value)),
            Err(why) => {
                let help = "write names and values of HTTP headers, such as `api-key: KEY`";
                map.report_error("headers", format!("`headers` {why}"), help);
            }
        }
    }
}

/// Reads the listeners whose callers' traces are continued.
fn take_trust(map: &Settings<'_>) -> Option<Vec<String>> {
    const KEY: &str = "trust_context";
    let listeners = map.value::<Vec<String>>(KEY)?;
    let unknown = listeners
        .iter()
        .find(|name| !WITH_CONTEXT.contains(&name.as_str()));
    if let Some(name) = unknown {
        let message = format!("`{KEY}` has `{name}`, which is not a listener with a trace context");
        let help = "write a list of `grpc`, `http` and `gateway`; `[]` trusts no caller";
        map.report_error(KEY, message, help);
    }
    Some(listeners)
}

/// Reads what applies to one signal: `null`, or a map, of which `take` reads more.
fn signal(map: &Settings<'_>, key: &'static str, take: impl FnOnce(&Settings<'_>)) -> SignalConfig {
    if !map.has(key) {
        return SignalConfig {
            is_on: map.is_off(key).then_some(false),
            ..SignalConfig::default()
        };
    }
    map.map(key, |map| {
        take(map);
        SignalConfig {
            is_on: Some(true),
            endpoint: map.parse("endpoint", ENDPOINT, Endpoint::parse),
            interval: time(map, "interval"),
        }
    })
}

fn time(map: &Settings<'_>, key: &'static str) -> Option<Duration> {
    let bounds = (span(TIMES.0), span(TIMES.1));
    let time = map.has(key).then(|| map.span(key, bounds.0, bounds));
    time.map(Duration::from)
}

fn span(time: Duration) -> Span {
    Span::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
