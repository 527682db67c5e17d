//! How long the parts of an exchange may take, and how large and how slow they may be.

use std::time::Duration;

use tollgate_core::Span;
use tollgate_http::{InvalidSetting, InvalidSettings};

use crate::settings::{GatewaySettings, RouteSettings, UpstreamProtocol};

/// The least rate of bodies to servers of HTTP/1.1, in bytes a second: less than any modem's.
const BODY_RATE: u64 = 240;

/// The longest timeout.
const TIMEOUT_MAX: Span = Span::DAY;
/// The shortest.
const TIMEOUT_MIN: Span = Span::from_millis(1);

/// Those of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) head_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) tunnel_timeout: Duration,
    pub(crate) body_bytes: u64,
    /// The least rate of a body in bytes a second; 0 is none.
    pub(crate) body_rate: u64,
}

/// The timeouts that are too short or too long.
pub(super) fn check_timeouts(settings: &GatewaySettings) -> InvalidSettings {
    let timeouts = settings.timeouts;
    let all = [
        ("connect", timeouts.connect),
        ("head", timeouts.head),
        ("body", timeouts.body),
        ("tunnel", timeouts.tunnel),
    ];
    let range = TIMEOUT_MIN..=TIMEOUT_MAX;
    let wrong = all.iter().filter(|(_, timeout)| !range.contains(timeout));
    let wrong = wrong.map(|(key, timeout)| {
        let problem = format!("{timeout} is outside {TIMEOUT_MIN} to {TIMEOUT_MAX}");
        InvalidSetting::new(format!("timeouts.{key}"), problem, "write one such as 10s")
    });
    wrong.collect()
}

// === impl Bounds ===

impl Bounds {
    pub(super) fn of(
        gateway: &GatewaySettings,
        route: &RouteSettings,
        protocol: UpstreamProtocol,
    ) -> Bounds {
        let rate = route.body_rate.or(gateway.body_rate).map(|rate| rate.0);
        let by_default = match protocol {
            UpstreamProtocol::Http1 => BODY_RATE,
            // Requests may be streams of gRPC, which pause as long as there is nothing to say.
            _ => 0,
        };
        Bounds {
            head_timeout: gateway.timeouts.head.into(),
            body_timeout: gateway.timeouts.body.into(),
            tunnel_timeout: gateway.timeouts.tunnel.into(),
            body_bytes: gateway.body_bytes.0,
            body_rate: rate.unwrap_or(by_default),
        }
    }
}
