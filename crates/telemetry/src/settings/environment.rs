//! The variables of OpenTelemetry's specification.

use std::time::Duration;

use super::{InvalidTelemetry, SignalConfig, TIMES, TelemetryConfig, header};
use crate::endpoint::Endpoint;
use crate::sampler::Ratio;

type Variable<'v> = &'v dyn Fn(&str) -> Option<String>;

/// The endpoint of both signals, and those of each.
const COLLECTOR: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const METRICS: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";

/// A variable that chooses what exports a signal.
struct Exporter {
    name: &'static str,
    /// The values with which it is not sent.
    others: &'static [&'static str],
    /// What is wrong with any other value than these and `otlp`.
    problem: &'static str,
}

const TRACES_EXPORTER: Exporter = Exporter {
    name: "OTEL_TRACES_EXPORTER",
    others: &["none"],
    problem: "it is neither `otlp` nor `none`",
};
const METRICS_EXPORTER: Exporter = Exporter {
    name: "OTEL_METRICS_EXPORTER",
    // Prometheus has `/metrics`, whatever is sent.
    others: &["none", "prometheus"],
    problem: "it is not `otlp`, `prometheus` or `none`",
};

/// Adds what the environment has to what is written.
pub(super) fn add(
    written: TelemetryConfig,
    variable: Variable<'_>,
) -> Result<TelemetryConfig, InvalidTelemetry> {
    // An empty variable is as one that is not set.
    let variable = &|name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let disabled = read_flag(variable, "OTEL_SDK_DISABLED");
    if disabled == Ok(Some(true)) {
        return Ok(TelemetryConfig::default());
    }
    let mut config = add_endpoints(written, variable)?;
    if !config.has_endpoint() {
        // The variables may be meant for other programs.
        return Ok(config);
    }
    disabled?;
    add_exporter(&mut config.traces, variable, &TRACES_EXPORTER)?;
    add_exporter(&mut config.metrics, variable, &METRICS_EXPORTER)?;
    if !config.is_on() {
        return Ok(config);
    }
    check_protocols(variable)?;
    add_transport(&mut config, variable)?;
    add_resource(&mut config, variable)?;
    if config.sample.is_none() {
        config.sample = read_sampler(variable)?;
    }
    let interval = |name: &str| read_millis(variable, name);
    if config.traces.interval.is_none() {
        config.traces.interval = interval("OTEL_BSP_SCHEDULE_DELAY")?;
    }
    if config.metrics.interval.is_none() {
        config.metrics.interval = interval("OTEL_METRIC_EXPORT_INTERVAL")?;
    }
    Ok(config)
}

/// The endpoints that do not count because others are written. One whose own setting is written
/// was meant to give way to it.
pub(super) fn find_ignored(
    written: &TelemetryConfig,
    variable: Variable<'_>,
) -> Vec<(&'static str, &'static str)> {
    if !written.has_endpoint() {
        return Vec::new();
    }
    let endpoints = [
        (COLLECTOR, "endpoint", &written.endpoint),
        (TRACES, "traces.endpoint", &written.traces.endpoint),
        (METRICS, "metrics.endpoint", &written.metrics.endpoint),
    ];
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.trim().is_empty());
    let ignored = endpoints.into_iter().filter_map(|(name, setting, own)| {
        (own.is_none() && is_set(name)).then_some((name, setting))
    });
    ignored.collect()
}

/// The endpoints of the environment count if none is written.
fn add_endpoints(
    mut config: TelemetryConfig,
    variable: Variable<'_>,
) -> Result<TelemetryConfig, InvalidTelemetry> {
    if config.has_endpoint() {
        return Ok(config);
    }
    let endpoint = |name: &str, parse: fn(&str) -> Result<Endpoint, String>| {
        let value = variable(name).map(|value| parse(&value));
        let help = "write one such as http://localhost:4318";
        value
            .transpose()
            .map_err(|why| invalid(name, &format!("it {why}"), help))
    };
    config.endpoint = endpoint(COLLECTOR, Endpoint::parse_collector)?;
    config.traces.endpoint = endpoint(TRACES, Endpoint::parse)?;
    config.metrics.endpoint = endpoint(METRICS, Endpoint::parse)?;
    Ok(config)
}

fn add_exporter(
    signal: &mut SignalConfig,
    variable: Variable<'_>,
    exporter: &Exporter,
) -> Result<(), InvalidTelemetry> {
    let value = variable(exporter.name);
    match value.as_deref().filter(|_| signal.is_on.is_none()) {
        None | Some("otlp") => {}
        Some(value) if exporter.others.contains(&value) => signal.is_on = Some(false),
        Some(_) => {
            return Err(invalid(
                exporter.name,
                exporter.problem,
                "write one of them",
            ));
        }
    }
    Ok(())
}

/// Rejects a protocol that is not spoken, because the endpoint is one of that protocol then.
fn check_protocols(variable: Variable<'_>) -> Result<(), InvalidTelemetry> {
    for name in [
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    ] {
        if variable(name).is_some_and(|value| value != "http/protobuf") {
            let help = "write `http/protobuf`, and name the port of the collector for it, which is \
                4318 by default";
            return Err(invalid(name, "it is not `http/protobuf`", help));
        }
    }
    Ok(())
}

/// How exports are sent.
fn add_transport(
    config: &mut TelemetryConfig,
    variable: Variable<'_>,
) -> Result<(), InvalidTelemetry> {
    let name = "OTEL_EXPORTER_OTLP_HEADERS";
    for (key, value) in read_pairs(variable, name)? {
        let (key, value) = header(&key, &value)
            .map_err(|why| invalid(name, &format!("it {why}"), "correct or remove it"))?;
        if !config.headers.contains_key(&key) {
            config.headers.insert(key, value);
        }
    }
    if config.timeout.is_none() {
        config.timeout = read_millis(variable, "OTEL_EXPORTER_OTLP_TIMEOUT")?;
    }
    let name = "OTEL_EXPORTER_OTLP_COMPRESSION";
    if config.gzip.is_none() {
        config.gzip = match variable(name).as_deref() {
            None => None,
            Some("gzip") => Some(true),
            Some("none") => Some(false),
            Some(_) => {
                let help = "write one of them";
                return Err(invalid(name, "it is neither `gzip` nor `none`", help));
            }
        };
    }
    if config.ca.is_none() {
        config.ca = variable("OTEL_EXPORTER_OTLP_CERTIFICATE").map(Into::into);
    }
    Ok(())
}

/// What this process is called.
fn add_resource(
    config: &mut TelemetryConfig,
    variable: Variable<'_>,
) -> Result<(), InvalidTelemetry> {
    for (key, value) in read_pairs(variable, "OTEL_RESOURCE_ATTRIBUTES")? {
        config.resource.entry(key).or_insert(value);
    }
    if config.service_name.is_none() {
        config.service_name = variable("OTEL_SERVICE_NAME");
    }
    Ok(())
}

/// What part of traces is recorded. Callers' spans are always followed.
fn read_sampler(variable: Variable<'_>) -> Result<Option<Ratio>, InvalidTelemetry> {
    let name = "OTEL_TRACES_SAMPLER";
    match variable(name).as_deref() {
        None => Ok(None),
        Some("parentbased_always_on") => Ok(Some(Ratio::ALL)),
        Some("parentbased_always_off") => Ok(Some(Ratio::NONE)),
        Some("parentbased_traceidratio") => {
            let name = "OTEL_TRACES_SAMPLER_ARG";
            let Some(value) = variable(name) else {
                return Ok(Some(Ratio::ALL));
            };
            let ratio = Ratio::parse_fraction(value.trim());
            let problem = "it is not a number from 0 to 1 with at most six decimal places";
            ratio
                .map(Some)
                .ok_or_else(|| invalid(name, problem, "write one such as 0.1"))
        }
        Some(_) => {
            let problem = "it is not a sampler that follows the caller's span";
            let help = "write `parentbased_always_on`, `parentbased_always_off` or \
                `parentbased_traceidratio`";
            Err(invalid(name, problem, help))
        }
    }
}

fn read_flag(variable: Variable<'_>, name: &str) -> Result<Option<bool>, InvalidTelemetry> {
    match variable(name)
        .map(|value| value.to_ascii_lowercase())
        .as_deref()
    {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(invalid(
            name,
            "it is neither `true` nor `false`",
            "write one of them",
        )),
    }
}

fn read_millis(variable: Variable<'_>, name: &str) -> Result<Option<Duration>, InvalidTelemetry> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let time = value.trim().parse().ok().map(Duration::from_millis);
    let time = time.filter(|time| (TIMES.0..=TIMES.1).contains(time));
    let problem = "it is not a number of milliseconds from 100 to 3600000";
    time.map(Some)
        .ok_or_else(|| invalid(name, problem, "write one such as 5000"))
}

/// Reads `key=value,key=value`, whose values may have escapes such as `%20`.
fn read_pairs(
    variable: Variable<'_>,
    name: &str,
) -> Result<Vec<(String, String)>, InvalidTelemetry> {
    let text = variable(name).unwrap_or_default();
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let pairs = parts.map(|part| {
        let (key, value) = part.split_once('=')?;
        let key = unescape(key.trim()).filter(|key| !key.is_empty())?;
        Some((key, unescape(value.trim())?))
    });
    let help = "write `key=value,key=value`, with `%2C` for a comma";
    let pairs: Option<Vec<_>> = pairs.collect();
    pairs.ok_or_else(|| invalid(name, "it is not a list of keys and values", help))
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

fn invalid(name: &str, problem: &str, help: &str) -> InvalidTelemetry {
    InvalidTelemetry::new(format!("the environment's {name}"), problem, help)
}
