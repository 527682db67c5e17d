//! `gateway` in a file of settings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use tollgate_core::Span;
use tollgate_http::{AddressSource, IdentitySettings, InvalidSetting, ResponseSettings};

use crate::concurrency_limit::InFlightSettings;
use crate::lists::ListSettings;

mod conditions;

mod files;

mod upstream;

use conditions::read_some;
pub use files::hash_files;
pub(crate) use upstream::{HTTP2_CONNECTIONS_MAX, REQUESTS_MAX, parse_address};
pub use upstream::{
    HealthCheckSettings, RetrySettings, UpstreamProtocol, UpstreamSettings, UpstreamTlsSettings,
};

/// The most routes.
pub const ROUTES_MAX: usize = 1024;
/// The most upstreams.
pub const UPSTREAMS_MAX: usize = 1024;
/// The most addresses of one upstream.
pub const ADDRESSES_MAX: usize = 256;
/// The most hosts, paths, methods or headers of one `match`.
pub const MATCHES_MAX: usize = 256;

/// The section `gateway`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewaySettings {
    /// Whose rules apply, for routes that do not name a domain.
    pub domain: Option<String>,
    /// The servers behind the gateway, by name. At least one.
    pub upstreams: BTreeMap<String, UpstreamSettings>,
    /// The first one that matches a request applies. Without any, all requests go to the only
    /// upstream.
    pub routes: Vec<RouteSettings>,
    /// How a request becomes descriptors, for routes without their own.
    /// Default: by the client's address.
    pub identity: IdentitySettings,
    /// What clients see of their limits, for routes without their own. Default: status 429.
    pub responses: ResponseSettings,
    /// The protocols that requests may switch to, for routes without their own. Default: none.
    pub upgrades: Vec<String>,
    /// Clients that no limit applies to, and clients that are always denied. Default: none.
    pub lists: ListSettings,
    /// How many requests of one key may be in flight, over all routes without their own.
    /// Default: any number.
    pub in_flight: Vec<InFlightSettings>,
    /// How long upstreams and clients may take.
    pub timeouts: TimeoutSettings,
    /// The largest body of a request. Default: 10 MiB.
    pub body_bytes: ByteSize,
    /// The minimum rate of a request's body, in bytes a second, for routes without their own; 0
    /// means no minimum. Default: 240 on the way to HTTP/1.1 servers, and no minimum to others.
    pub body_rate: Option<ByteSize>,
    /// Where and how each request is logged. Default: not at all.
    pub access_log: Option<AccessLogSettings>,
}

/// A route: which requests it is for, and what happens to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteSettings {
    /// Its name in metrics. Default: the first of its paths or hosts, or `default`.
    pub name: Option<String>,
    /// Which requests it is for. Default: all.
    #[serde(rename = "match")]
    pub matches: MatchSettings,
    /// Which upstream they go to. Default: the only one.
    pub upstream: Option<String>,
    /// Whose rules apply. Default: the domain of the gateway.
    pub domain: Option<String>,
    /// How they become descriptors. Default: as for the gateway.
    pub identity: Option<IdentitySettings>,
    /// What clients see of their limits. Default: as for the gateway.
    pub responses: Option<ResponseSettings>,
    /// The protocols that requests may switch to on their connection: `websocket`.
    /// Default: as for the gateway.
    pub upgrades: Option<Vec<String>>,
    /// How many requests of one key may be in flight on this route. Default: as for the gateway,
    /// and counted together with its other routes.
    pub in_flight: Option<Vec<InFlightSettings>>,
    /// The minimum rate of their bodies, in bytes a second; 0 means no minimum. Default: as for the
    /// gateway.
    pub body_rate: Option<ByteSize>,
}

/// Which requests a route is for: those that fit every list that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatchSettings {
    /// Hosts: `shop.example`, or `*.shop.example` for all below it.
    #[serde(deserialize_with = "read_some")]
    pub hosts: Vec<String>,
    /// Paths: `/login`, `/users/{id}`, or `/files/{*rest}` for all below it. They are compared with
    /// normalised paths.
    #[serde(deserialize_with = "read_some")]
    pub paths: Vec<String>,
    /// Methods.
    #[serde(deserialize_with = "read_some")]
    pub methods: Vec<String>,
    /// Headers and the value that each must have, or `*` for any.
    #[serde(deserialize_with = "read_some")]
    pub headers: BTreeMap<String, String>,
}

/// How long upstreams and clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeoutSettings {
    /// To accept a connection. Default: 2 s.
    pub connect: Span,
    /// To answer a request with the head of a response, once it was sent. Default: 30 s.
    pub head: Span,
    /// Between two parts of a body, of a request or a response. Default: 60 s.
    pub body: Span,
    /// Between two parts of what goes through a connection that has switched protocols.
    /// Default: 5 min.
    pub tunnel: Span,
}

/// A line for each request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessLogSettings {
    /// The file, or `-` for standard output.
    pub path: PathBuf,
    /// How a line looks. Default: `json`.
    #[serde(default)]
    pub format: AccessLogFormat,
}

/// How a line of an access log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessLogFormat {
    /// An object of JSON.
    #[default]
    Json,
    /// The combined format of nginx and Apache, and the rule that denied in another quoted field.
    Combined,
}

/// A number of bytes: `1048576`, `512KiB`, `10MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

// === impl GatewaySettings ===

impl GatewaySettings {
    /// The most connections to all upstreams: the sum of [`UpstreamSettings::connections_max`].
    pub fn upstream_connections_max(&self) -> usize {
        let upstreams = self.upstreams.values();
        upstreams
            .map(UpstreamSettings::connections_max)
            .fold(0, usize::saturating_add)
    }

    /// Whether the connections of trusted proxies begin with a PROXY protocol header.
    pub(crate) fn reads_proxy_headers(&self) -> bool {
        self.identity.client_address.source == AddressSource::ProxyProtocol
    }

    /// The domains whose rules apply to some route.
    pub fn domains(&self) -> BTreeSet<&str> {
        match self.routes.as_slice() {
            [] => self.domain.as_deref().into_iter().collect(),
            routes => routes
                .iter()
                .filter_map(|one| self.domain_of(one))
                .collect(),
        }
    }

    /// Each identity whose requests reserve units until their response comes, as in
    /// [`GatewaySettings::identities`].
    pub fn reserving_identities(&self) -> impl Iterator<Item = (String, &str, &IdentitySettings)> {
        self.identities()
            .filter(|(_, _, identity)| identity.needs_response())
    }

    /// Each identity that identifies requests: the keys that lead to it, the domain whose rules
    /// apply, and the identity itself. The gateway's own is there once for each route without one.
    pub fn identities(&self) -> impl Iterator<Item = (String, &str, &IdentitySettings)> {
        let of_gateway = || {
            Some((
                "identity".to_owned(),
                self.domain.as_deref()?,
                &self.identity,
            ))
        };
        let alone = self.routes.is_empty().then(of_gateway).flatten();
        let routes = self.routes.iter().enumerate();
        let routes = routes.filter_map(|(index, route)| {
            let domain = self.domain_of(route)?;
            Some(match &route.identity {
                Some(identity) => (format!("routes[{index}].identity"), domain, identity),
                None => ("identity".to_owned(), domain, &self.identity),
            })
        });
        alone.into_iter().chain(routes)
    }

    /// The keys of the descriptors that concurrency limits count.
    pub fn in_flight_keys(&self) -> impl Iterator<Item = &[String]> {
        let routes = self.routes.iter().filter_map(|one| one.in_flight.as_ref());
        let all = std::iter::once(&self.in_flight).chain(routes).flatten();
        all.map(|limit| &*limit.per)
    }

    /// The domain whose rules apply to a route.
    pub(crate) fn domain_of<'a>(&'a self, route: &'a RouteSettings) -> Option<&'a str> {
        route.domain.as_deref().or(self.domain.as_deref())
    }
}

impl Default for GatewaySettings {
    fn default() -> GatewaySettings {
        GatewaySettings {
            domain: None,
            upstreams: BTreeMap::new(),
            routes: Vec::new(),
            identity: IdentitySettings::default(),
            responses: ResponseSettings::default(),
            upgrades: Vec::new(),
            lists: ListSettings::default(),
            in_flight: Vec::new(),
            timeouts: TimeoutSettings::default(),
            body_bytes: ByteSize(10 << 20),
            body_rate: None,
            access_log: None,
        }
    }
}

// === impl RouteSettings ===

impl RouteSettings {
    /// Where the error of a route is: at the gateway, if the route has what is wrong from there.
    pub(crate) fn locate(&self, invalid: InvalidSetting, index: usize) -> InvalidSetting {
        let is_own = match invalid.at.split(['.', '[']).next() {
            Some("identity") => self.identity.is_some(),
            Some("responses") => self.responses.is_some(),
            Some("upgrades") => self.upgrades.is_some(),
            _ => true,
        };
        match is_own {
            true => invalid.below(&format!("routes[{index}]")),
            false => invalid,
        }
    }
}

// === impl TimeoutSettings ===

impl Default for TimeoutSettings {
    fn default() -> TimeoutSettings {
        TimeoutSettings {
            connect: Span::from_secs(2),
            head: Span::from_secs(30),
            body: Span::from_secs(60),
            tunnel: Span::from_secs(300),
        }
    }
}

// === impl ByteSize ===

impl ByteSize {
    fn parse(text: &str) -> Option<ByteSize> {
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("", 0)];
        let bytes = units.iter().find_map(|(unit, shift)| {
            let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
            number.checked_mul(1 << shift)
        });
        bytes.map(ByteSize)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, such as `10MiB`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
                let wrong = || {
                    E::custom(format!(
                        "\"{text}\" is not a number of bytes, KiB, MiB or GiB"
                    ))
                };
                ByteSize::parse(text).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

// === impl AccessLogSettings ===

impl AccessLogSettings {
    /// Whether lines go to standard output.
    pub fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }
}
