//! `listen`: the service's listeners and their addresses.

use std::net::{Ipv4Addr, SocketAddr};

use tollgate_listen::{ConnectionLimits, Limits, Protocol};
use tollgate_rules::Settings;

/// One listener of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// What it serves.
    pub kind: ListenerKind,
    /// Its address; port 0 is any free port.
    pub address: SocketAddr,
}

/// What a listener serves.
///
/// A new kind of listener needs a variant here, and its routes in `server/src/listener.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// `grpc`: Envoy's rate limit service. `127.0.0.1:8081`.
    Grpc,
    /// `http`: `/json` and `/v1/check`. `127.0.0.1:8080`.
    Http,
    /// `admin`: metrics and rules, without authentication. `127.0.0.1:6070`.
    Admin,
    /// `gateway`: whatever the settings' section of this name passes on; without the section there
    /// is no such listener. `127.0.0.1:8000`.
    Gateway,
}

// === impl Listen ===

impl Listen {
    /// Every kind of listener that needs no settings of its own, at its default address.
    pub fn defaults() -> Vec<Listen> {
        let default = |kind: ListenerKind| Listen {
            kind,
            address: kind.default_address(),
        };
        let kinds = ListenerKind::ALL.into_iter();
        let needs_none = |kind: &ListenerKind| *kind != ListenerKind::Gateway;
        kinds.filter(needs_none).map(default).collect()
    }

    /// Reads the map. A kind that is missing has its default address; `null` turns a kind off.
    /// Without a section `gateway`, its listener is off.
    pub(super) fn take_all(map: &Settings<'_>, has_gateway: bool) -> Vec<Listen> {
        let listen = ListenerKind::ALL.into_iter().filter_map(|kind| {
            let key = kind.name();
            let address = map.parse(key, "127.0.0.1:8080", |text| {
                text.parse()
                    .map_err(|_| "is not an IP address with a port".to_owned())
            });
            let is_missing = kind == ListenerKind::Gateway && !has_gateway;
            if is_missing && address.is_some() {
                let message = "nothing says what the gateway passes on".to_owned();
                map.report_error(key, message, "write a section `gateway`, or remove this");
            }
            match address.filter(|_| !is_missing) {
                None if is_missing => None,
                Some(address) => Some(Listen { kind, address }),
                None if map.is_off(key) => None,
                None => Some(Listen {
                    kind,
                    address: kind.default_address(),
                }),
            }
        });
        let listen: Vec<Listen> = listen.collect();
        if !listen.iter().any(|listen| listen.kind.decides()) {
            let message = "`grpc` and `http` are off, so no request can arrive".to_owned();
            let help = "give one of them an address, or write a section `gateway`";
            map.report_error("grpc", message, help);
        }
        listen
    }
}

// === impl ListenerKind ===

impl ListenerKind {
    /// Every kind, in the order in which listeners are opened.
    pub const ALL: [ListenerKind; 4] = [
        ListenerKind::Grpc,
        ListenerKind::Http,
        ListenerKind::Gateway,
        ListenerKind::Admin,
    ];

    /// Its name in the settings, in logs and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            ListenerKind::Grpc => "grpc",
            ListenerKind::Http => "http",
            ListenerKind::Admin => "admin",
            ListenerKind::Gateway => "gateway",
        }
    }

    /// Whether requests are decided there.
    pub const fn decides(self) -> bool {
        match self {
            ListenerKind::Grpc | ListenerKind::Http | ListenerKind::Gateway => true,
            ListenerKind::Admin => false,
        }
    }

    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            ListenerKind::Grpc => Protocol::Http2,
            ListenerKind::Http | ListenerKind::Admin => Protocol::Http1,
            ListenerKind::Gateway => Protocol::Any,
        }
    }

    pub(crate) const fn connection_limits(self, limits: &Limits) -> ConnectionLimits {
        match self.decides() {
            true => ConnectionLimits::for_decisions(limits),
            false => ConnectionLimits::admin(limits),
        }
    }

    fn default_address(self) -> SocketAddr {
        let port = match self {
            ListenerKind::Grpc => 8081,
            ListenerKind::Http => 8080,
            ListenerKind::Admin => 6070,
            ListenerKind::Gateway => 8000,
        };
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }
}
