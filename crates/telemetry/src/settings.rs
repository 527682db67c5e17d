//! What is exported, where to, and how: from a settings file, and from the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::endpoint::Endpoint;
use crate::sampler::Ratio;

mod environment;

/// How long an export may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long spans wait for others that are sent with them.
const TRACE_INTERVAL: Duration = Duration::from_secs(5);
/// The time between two exports of metrics.
const METRIC_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest and the longest of these times.
pub const TIMES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));
/// What services are called in traces by default.
const SERVICE_NAME: &str = "tollgate";

/// The settings as they are written. What is missing comes from the environment, or has its
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The collector. Without one, nothing is exported.
    pub endpoint: Option<Endpoint>,
    /// What every export sends with it, such as `authorization`.
    pub headers: HeaderMap,
    /// How long an export may take. Default: 10 seconds.
    pub timeout: Option<Duration>,
    /// Whether exports are compressed with gzip. Default: `false`.
    pub gzip: Option<bool>,
    /// The authorities of the collector's certificate. Default: the public ones.
    pub ca: Option<PathBuf>,
    /// The attribute `service.name`. Default: `tollgate`.
    pub service_name: Option<String>,
    /// Attributes of this process.
    pub resource: BTreeMap<String, String>,
    /// What applies to traces.
    pub traces: SignalConfig,
    /// What part of the traces that begin here is recorded. Default: all.
    pub sample: Option<Ratio>,
    /// The listeners whose callers' traces are continued, by their names. Default: all.
    pub trust_context: Option<Vec<String>>,
    /// What applies to metrics.
    pub metrics: SignalConfig,
}

/// What applies to traces or to metrics alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalConfig {
    /// Whether they are exported. Default: `true`.
    pub is_on: Option<bool>,
    /// The whole URL that they are sent to, in place of one below `endpoint`.
    pub endpoint: Option<Endpoint>,
    /// The time between two exports. Default: 5 seconds for traces, a minute for metrics.
    pub interval: Option<Duration>,
}

/// The settings in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
    pub(crate) gzip: bool,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) traces: Option<Export>,
    pub(crate) sample: Ratio,
    pub(crate) trust_context: Option<Vec<String>>,
    pub(crate) metrics: Option<Export>,
}

/// How one signal is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) endpoint: Endpoint,
    pub(crate) interval: Duration,
}

/// A setting or a variable of the environment that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTelemetry {
    /// Its name.
    pub name: String,
    /// What is wrong. It does not repeat a value that may be a secret.
    pub problem: String,
    /// What to do about it.
    pub help: String,
}

// === impl TelemetryConfig ===

impl TelemetryConfig {
    /// Adds what the environment has and these settings do not. `variable` finds the value of a
    /// variable.
    ///
    /// # Errors
    ///
    /// [`InvalidTelemetry`] is the first variable that cannot be used. Without an endpoint, none
    /// is judged.
    pub fn with_environment(
        self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<TelemetryConfig, InvalidTelemetry> {
        environment::add(self, &variable)
    }

    /// The variables of endpoints that are set and do not count, because these settings name an
    /// endpoint, each with the setting to write instead.
    pub fn find_ignored_variables(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Vec<(&'static str, &'static str)> {
        environment::find_ignored(self, &variable)
    }

    /// Whether an endpoint is known, of any signal.
    pub(crate) const fn has_endpoint(&self) -> bool {
        self.endpoint.is_some() || self.traces.endpoint.is_some() || self.metrics.endpoint.is_some()
    }

    /// Whether anything is exported.
    pub const fn is_on(&self) -> bool {
        let has_traces = self.endpoint.is_some() || self.traces.endpoint.is_some();
        let has_metrics = self.endpoint.is_some() || self.metrics.endpoint.is_some();
        has_traces && !matches!(self.traces.is_on, Some(false))
            || has_metrics && !matches!(self.metrics.is_on, Some(false))
    }

    /// Whether anything is exported over TLS.
    pub fn uses_tls(&self) -> bool {
        let settings = self.resolve();
        let exports = settings.map(|settings| [settings.traces, settings.metrics]);
        let mut exports = exports.into_iter().flatten().flatten();
        exports.any(|export| export.endpoint.is_https())
    }

    /// What is in effect; `None` if nothing is exported.
    pub(crate) fn resolve(&self) -> Option<Settings> {
        let export = |signal: &SignalConfig, path: &str, interval: Duration| {
            let below = || self.endpoint.as_ref().map(|endpoint| endpoint.below(path));
            let endpoint = signal.endpoint.clone().or_else(below);
            let endpoint = endpoint.filter(|_| signal.is_on != Some(false))?;
            let interval = signal.interval.unwrap_or(interval);
            Some(Export { endpoint, interval })
        };
        let traces = export(&self.traces, "v1/traces", TRACE_INTERVAL);
        let metrics = export(&self.metrics, "v1/metrics", METRIC_INTERVAL);
        if traces.is_none() && metrics.is_none() {
            return None;
        }
        let mut resource = self.resource.clone();
        let named = resource.remove("service.name");
        let name = self.service_name.clone().or(named);
        let name = name.unwrap_or_else(|| SERVICE_NAME.to_owned());
        resource.insert("service.name".to_owned(), name);
        Some(Settings {
            headers: self.headers.clone(),
            timeout: self.timeout.unwrap_or(TIMEOUT),
            gzip: self.gzip.unwrap_or(false),
            ca: self.ca.clone(),
            resource,
            traces,
            sample: self.sample.unwrap_or(Ratio::ALL),
            trust_context: self.trust_context.clone(),
            metrics,
        })
    }
}

// === impl InvalidTelemetry ===

impl InvalidTelemetry {
    pub(crate) fn new(
        name: impl Into<String>,
        problem: impl Into<String>,
        help: impl Into<String>,
    ) -> InvalidTelemetry {
        InvalidTelemetry {
            name: name.into(),
            problem: problem.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for InvalidTelemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidTelemetry {
            name,
            problem,
            help,
        } = self;
        write!(f, "{name}: {problem}; {help}")
    }
}

impl std::error::Error for InvalidTelemetry {}

/// A header of exports. Its value is not shown, because it may be a secret.
///
/// # Errors
///
/// What is wrong with the name or the value, without the value.
pub fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let Ok(name) = HeaderName::try_from(name) else {
        return Err("has a name that no header can have".to_owned());
    };
    if RESERVED.contains(&name.as_str()) {
        return Err(format!("has `{name}`, which every export sets itself"));
    }
    let Ok(mut value) = HeaderValue::try_from(value) else {
        return Err(format!("has a value of `{name}` that no header can have"));
    };
    value.set_sensitive(true);
    Ok((name, value))
}

/// The headers that every export has.
const RESERVED: [&str; 6] = [
    "content-type",
    "content-length",
    "content-encoding",
    "host",
    "connection",
    "transfer-encoding",
];

#[cfg(test)]
mod tests;
