//! `gateway.upstreams` in a file of settings.

use std::path::PathBuf;

use http::uri::Authority;
use serde::Deserialize;
use tollgate_core::Span;
use tollgate_http::InvalidSetting;

/// The most requests at once to one address, unless the settings say otherwise, and at most.
const REQUESTS: usize = 1024;
pub(crate) const REQUESTS_MAX: usize = 65_536;
/// The most connections of HTTP/2 to one address. Most servers take 100 requests on each, or more.
pub(crate) const HTTP2_CONNECTIONS_MAX: usize = 32;

/// The servers that answer some requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamSettings {
    /// Where they are, each as `host:port`. A request goes to the one with the fewest requests.
    pub addresses: Vec<String>,
    /// What they speak. Default: `http1`.
    #[serde(default)]
    pub protocol: UpstreamProtocol,
    /// TLS to the servers. Without it, plain TCP.
    #[serde(default)]
    pub tls: Option<UpstreamTlsSettings>,
    /// The most requests in flight to one address, 1 to 65536. Default: 1024.
    #[serde(default = "default_requests")]
    pub requests: usize,
    /// How the gateway finds out whether an address can be used. Without it, from its answers.
    #[serde(default)]
    pub health_check: Option<HealthCheckSettings>,
    /// Which requests are sent again when their connection ends without an answer.
    /// Default: none.
    #[serde(default)]
    pub retries: Option<RetrySettings>,
}

// === impl UpstreamSettings ===

impl UpstreamSettings {
    /// The most connections to its servers: one for each request in flight, fewer over HTTP/2, and
    /// one for health checks. Rounded down to `usize::MAX`.
    pub fn connections_max(&self) -> usize {
        let for_requests = match self.protocol {
            UpstreamProtocol::Http1 => self.requests,
            UpstreamProtocol::H2c | UpstreamProtocol::H2 => {
                self.requests.min(HTTP2_CONNECTIONS_MAX)
            }
        };
        let each = for_requests.saturating_add(usize::from(self.health_check.is_some()));
        each.saturating_mul(self.addresses.len())
    }
}

fn default_requests() -> usize {
    REQUESTS
}

/// What the servers of an upstream speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 without TLS, with prior knowledge, as servers of gRPC do.
    H2c,
    /// HTTP/2 over TLS.
    H2,
}

/// Whom the gateway trusts, and who it is, as files of PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamTlsSettings {
    /// The authorities of the servers. Default: the public ones of Mozilla's list.
    pub ca: Option<PathBuf>,
    /// The name in the servers' certificates, which they are also sent (SNI). Default: the host
    /// of the address.
    pub server_name: Option<String>,
    /// A certificate for servers that demand one, and its key.
    pub cert: Option<PathBuf>,
    /// The key of `cert`, without a password.
    pub key: Option<PathBuf>,
}

/// A request of the gateway's own to each address, again and again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthCheckSettings {
    /// What is requested, such as `/healthz`.
    pub path: String,
    /// The host in the request. Default: the address.
    #[serde(default)]
    pub host: Option<String>,
    /// The time between two checks of an address. Default: 5 s.
    #[serde(default = "default_interval")]
    pub interval: Span,
    /// How long a check may take, from connecting to the head of the response. Default: 2 s.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// How many checks in a row must pass until the address is used again. Default: 2.
    #[serde(default = "default_healthy")]
    pub healthy: u32,
    /// How many checks in a row must fail until the address is not used any more. Default: 3.
    #[serde(default = "default_unhealthy")]
    pub unhealthy: u32,
    /// The statuses with which a check passes. Default: 200 to 299.
    #[serde(default)]
    pub statuses: Vec<u16>,
}

fn default_interval() -> Span {
    Span::from_secs(5)
}

fn default_timeout() -> Span {
    Span::from_secs(2)
}

fn default_healthy() -> u32 {
    2
}

fn default_unhealthy() -> u32 {
    3
}

/// How often requests that were sent are sent again, if they are safe to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySettings {
    /// The most retries of one request, 1 to 5. Default: 1.
    pub attempts: u32,
    /// The most retries of all requests to the upstream, in percent of them. Default: 20.
    pub percent: u32,
    /// How many retries are possible in each second beside those. Default: 10.
    pub per_second: u32,
}

impl Default for RetrySettings {
    fn default() -> RetrySettings {
        RetrySettings {
            attempts: 1,
            percent: 20,
            per_second: 10,
        }
    }
}

/// Checks that an address has a host and a port.
pub(crate) fn parse_address(index: usize, address: &str) -> Result<Authority, InvalidSetting> {
    match authority(address) {
        Some(parsed) => Ok(parsed),
        None => {
            // Before an `@` there may be a password.
            let problem = match address.contains('@') {
                true => "this text (not shown: it may be a password) is not an address with a \
                         port"
                    .into(),
                false => format!("\"{address}\" is not an address with a port"),
            };
            Err(InvalidSetting::new(
                format!("addresses[{index}]"),
                problem,
                instead_of(address),
            ))
        }
    }
}

/// An address with a host and a port, and without a user.
fn authority(address: &str) -> Option<Authority> {
    let parsed = address.parse::<Authority>().ok()?;
    let is_whole = parsed.port_u16().is_some_and(|port| port > 0) && !parsed.host().is_empty();
    (is_whole && !address.contains('@')).then_some(parsed)
}

/// What to write in place of a text that is not an address: of a URL, its address.
fn instead_of(address: &str) -> String {
    let schemes = [
        ("http://", 80, ""),
        ("https://", 443, ", and for TLS, `tls: {}`"),
    ];
    let url = schemes.into_iter().find_map(|(scheme, port, tls)| {
        let rest = address.strip_prefix(scheme)?;
        let host = rest.split(['/', '?', '#']).next()?;
        let meant = authority(host).or_else(|| authority(&format!("{host}:{port}")))?;
        Some(format!("leave out `{scheme}`: write `{meant}`{tls}"))
    });
    url.unwrap_or_else(|| "write host:port, such as 127.0.0.1:3000".to_owned())
}
