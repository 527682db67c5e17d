//! Health checks: a request of the gateway's own to each address, again and again.
//!
//! Until the first check has ended, an address is used. That one decides at once; later, several in
//! a row must agree.

use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, StatusCode, Uri, Version};
use http_body_util::Empty;
use hyper::client::conn::TrySendError;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tollgate_core::Span;
use tollgate_http::{InvalidSetting, InvalidSettings};

use crate::connector::Connector;
use crate::settings::{HealthCheckSettings, UpstreamProtocol};

/// The shortest and the longest time of a check, and between two.
const TIME_MIN: Span = Span::from_millis(10);
const TIME_MAX: Span = Span::HOUR;
/// The most checks in a row that must agree.
const IN_A_ROW_MAX: u32 = 100;
/// The most statuses.
const STATUSES_MAX: usize = 64;
/// What a check calls itself.
const AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"), " health check");

/// How the addresses of an upstream are checked.
#[derive(Clone, Debug)]
pub(crate) struct HealthCheck {
    path: PathAndQuery,
    host: Option<Authority>,
    interval: Duration,
    timeout: Duration,
    healthy: u32,
    unhealthy: u32,
    /// Empty for 200 to 299.
    statuses: Box<[u16]>,
}

/// Why a check failed.
#[derive(Debug)]
pub(crate) enum CheckError {
    /// It took longer than this.
    Late(Duration),
    /// No connection was accepted.
    Unconnected(io::Error),
    /// There was no answer.
    Unanswered(hyper::Error),
    /// The answer has a status that is not expected.
    Status(StatusCode),
}

/// What the checks of an address have shown.
#[derive(Debug)]
struct Verdict {
    /// `None` before the first check.
    passes: Option<bool>,
    /// How many checks in a row have disagreed.
    contrary: u32,
}

/// Learns of each check of an address.
pub(crate) trait Observer {
    /// A check has ended.
    fn record(&self, checked: &Result<(), CheckError>);
    /// From now on requests go there, or not any more, for the reason of the last check.
    fn set_passes(&self, passes: bool, last: &Result<(), CheckError>);
}

// === impl HealthCheck ===

impl HealthCheck {
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn new(settings: &HealthCheckSettings) -> Result<HealthCheck, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let path = settings.path.parse::<PathAndQuery>().ok();
        let path = path.filter(|_| settings.path.starts_with('/'));
        let path = path.ok_or_else(|| {
            let problem = format!("{:?} is not a valid path", settings.path);
            InvalidSetting::new("path", problem, "write one such as /healthz")
        });
        let path = errors.take(path);
        let host = settings.host.as_ref().map(|host| {
            host.parse::<Authority>().map_err(|_| {
                let problem = format!("{host:?} is not a valid host");
                InvalidSetting::new("host", problem, "write one such as shop.example")
            })
        });
        let host = errors.take(host.transpose()).flatten();
        for (key, time) in [
            ("interval", settings.interval),
            ("timeout", settings.timeout),
        ] {
            if time < TIME_MIN || time > TIME_MAX {
                let problem = format!("{time} is outside {TIME_MIN} to {TIME_MAX}");
                errors.push(InvalidSetting::new(key, problem, "write one such as 5s"));
            }
        }
        for (key, count) in [
            ("healthy", settings.healthy),
            ("unhealthy", settings.unhealthy),
        ] {
            if !(1..=IN_A_ROW_MAX).contains(&count) {
                let problem = format!("{count} checks in a row");
                let instead = format!("write a number from 1 to {IN_A_ROW_MAX}");
                errors.push(InvalidSetting::new(key, problem, instead));
            }
        }
        errors.take(check_statuses(&settings.statuses));
        let (Some(path), true) = (path, errors.is_empty()) else {
            return Err(errors);
        };
        Ok(HealthCheck {
            path,
            host,
            interval: settings.interval.into(),
            timeout: settings.timeout.into(),
            healthy: settings.healthy,
            unhealthy: settings.unhealthy,
            statuses: settings.statuses.clone().into(),
        })
    }

    /// Checks an address for ever.
    pub(crate) async fn run(&self, connector: &Connector, observer: &impl Observer) {
        self.repeat(observer, || self.ask(connector)).await;
    }

    /// Does checks for ever, and says when they change what is known.
    async fn repeat<F>(&self, observer: &impl Observer, mut ask: impl FnMut() -> F)
    where
        F: Future<Output = Result<(), CheckError>>,
    {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut verdict = Verdict {
            passes: None,
            contrary: 0,
        };
        loop {
            ticks.tick().await;
            let checked = timeout(self.timeout, ask()).await;
            let checked = checked.unwrap_or(Err(CheckError::Late(self.timeout)));
            observer.record(&checked);
            if let Some(passes) = verdict.record(checked.is_ok(), self) {
                observer.set_passes(passes, &checked);
            }
        }
    }

    /// Asks an address, over a connection of its own.
    async fn ask(&self, connector: &Connector) -> Result<(), CheckError> {
        let request = self.request(connector);
        let answered = match connector.protocol() {
            UpstreamProtocol::Http1 => {
                let connected = connector.connect_http1().await;
                let mut connection = connected.map_err(CheckError::Unconnected)?;
                let sent = connection.send(request).await;
                sent.map_err(TrySendError::into_error)
            }
            UpstreamProtocol::H2c | UpstreamProtocol::H2 => {
                let connected = connector.connect_http2().await;
                let mut connection = connected.map_err(CheckError::Unconnected)?;
                // A server that does not answer does not keep it.
                let _task = connection.task();
                connection.sender.send_request(request).await
            }
        };
        let status = answered.map_err(CheckError::Unanswered)?.status();
        let is_expected = match &*self.statuses {
            [] => status.is_success(),
            statuses => statuses.contains(&status.as_u16()),
        };
        match is_expected {
            true => Ok(()),
            false => Err(CheckError::Status(status)),
        }
    }

    /// The request of a check, in the protocol of the upstream.
    fn request(&self, connector: &Connector) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        let host = self.host.clone().or(connector.address().parse().ok());
        let agent = HeaderValue::from_static(AGENT);
        request.headers_mut().insert(USER_AGENT, agent);
        let mut target = http::uri::Parts::default();
        target.path_and_query = Some(self.path.clone());
        if connector.protocol() != UpstreamProtocol::Http1 {
            *request.version_mut() = Version::HTTP_2;
            target.scheme = Some(match connector.protocol() {
                UpstreamProtocol::H2 => Scheme::HTTPS,
                _ => Scheme::HTTP,
            });
            target.authority = host;
        } else if let Some(Ok(host)) = host.map(|host| HeaderValue::from_str(host.as_str())) {
            request.headers_mut().insert(HOST, host);
        }
        // Its parts were checked with the settings.
        *request.uri_mut() = Uri::from_parts(target).unwrap_or_default();
        request
    }
}

fn check_statuses(statuses: &[u16]) -> Result<(), InvalidSettings> {
    let at = "statuses";
    InvalidSetting::check_at_most(at, statuses.len(), "statuses", STATUSES_MAX)?;
    let mut errors = InvalidSettings::default();
    errors.take_each(at, statuses, |status| {
        let problem = format!("{status} is not the status of a final response");
        let instead = "write numbers from 200 to 599";
        match (200..600).contains(status) {
            true => Ok(()),
            false => Err(InvalidSetting::new("", problem, instead)),
        }
    });
    errors.check()
}

// === impl Verdict ===

impl Verdict {
    /// A check has passed or failed; what is known from now on, if that changes.
    fn record(&mut self, passed: bool, check: &HealthCheck) -> Option<bool> {
        if self.passes == Some(passed) {
            self.contrary = 0;
            return None;
        }
        self.contrary += 1;
        let needed = match (self.passes, passed) {
            (None, _) => 1,
            (Some(_), true) => check.healthy,
            (Some(_), false) => check.unhealthy,
        };
        if self.contrary < needed {
            return None;
        }
        self.passes = Some(passed);
        self.contrary = 0;
        Some(passed)
    }
}

// === impl CheckError ===

impl std::error::Error for CheckError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unconnected(error) => Some(error),
            Self::Unanswered(error) => Some(error),
            Self::Late(_) | Self::Status(_) => None,
        }
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(limit) => write!(f, "it did not answer within {limit:?}"),
            Self::Unconnected(error) if error.kind() == ErrorKind::TimedOut => {
                f.write_str("it takes too long to accept a connection")
            }
            Self::Unconnected(error) => write!(f, "it accepts no connection: {error}"),
            Self::Unanswered(error) => write!(f, "it does not answer in HTTP: {error}"),
            Self::Status(status) => write!(f, "it answered {}", status.as_u16()),
        }
    }
}

#[cfg(test)]
mod tests;
