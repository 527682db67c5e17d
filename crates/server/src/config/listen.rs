//! `listen`: the service's listeners and their addresses.

use std::net::Ipv4Addr;
use std::path::Path;

use tollgate_listen::{Address, ConnectionLimits, Limits, Protocol, SOCKET_MODE, TlsFiles};
use tollgate_rules::Settings;

use super::tls;

/// What people write for a listener that is off.
const OFF: [&str; 5] = ["off", "false", "no", "none", "disabled"];

/// One listener of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// What it serves.
    pub kind: ListenerKind,
    /// `address`: an IP address with a port, of which 0 is any free one, or `unix:` with the path
    /// of a socket; `mode`: the permissions of its file. Default: `660`.
    pub address: Address,
    /// `tls`: its certificate. Default: none, plain text.
    pub tls: Option<TlsFiles>,
}

/// What a listener serves.
///
/// A new kind of listener needs a variant here, and its routes in `server/src/listener.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// `grpc`: Envoy's rate limit service. Default: `127.0.0.1:8081`.
    Grpc,
    /// `http`: `/json`, `/v1/check` and the services of `grpc`. Default: `127.0.0.1:8080`.
    Http,
    /// `admin`: metrics and rules, without authentication unless the settings have tokens or `tls`
    /// has a `client_ca`. Default: `127.0.0.1:6070`.
    Admin,
    /// `gateway`: whatever the settings' section of this name passes on; without the section there
    /// is no such listener. Default: `127.0.0.1:8000`.
    Gateway,
    /// `redis`: the Redis protocol; only if it, or the section `redis_protocol`, is in the
    /// settings. Default: `127.0.0.1:6380`.
    Redis,
}

// === impl Listen ===

impl Listen {
    /// Every kind of listener that is on without settings, at its default address.
    pub fn defaults() -> Vec<Listen> {
        let default = |kind: ListenerKind| Listen {
            kind,
            address: kind.default_address(),
            tls: None,
        };
        let kinds = ListenerKind::ALL.into_iter();
        let is_on = |kind: &ListenerKind| kind.is_on_by_default();
        kinds.filter(is_on).map(default).collect()
    }

    /// Reads the map. A kind that is missing has its default address; `null` turns a kind off.
    /// Without a section `gateway`, its listener is off, and without `redis_protocol`, `redis` is
    /// off unless it is there. Paths are relative to `directory`. The certificates of the
    /// listeners in effect are not read.
    pub(super) fn take_all(
        map: &Settings<'_>,
        directory: &Path,
        (has_gateway, has_redis): (bool, bool),
        in_effect: &[Listen],
    ) -> Vec<Listen> {
        let mut kinds = ListenerKind::ALL.to_vec();
        kinds.retain(|kind| !map.is_off(kind.name()));
        if !has_gateway {
            kinds.retain(|kind| *kind != ListenerKind::Gateway);
            let key = ListenerKind::Gateway.name();
            if map.has(key) {
                let message = "nothing says what the gateway passes on".to_owned();
                map.report_error(key, message, "write a section `gateway`, or remove this");
            }
        }
        if !map.has(ListenerKind::Redis.name()) && !has_redis {
            kinds.retain(|kind| *kind != ListenerKind::Redis);
        }
        let listen = kinds.into_iter();
        let listen = listen.map(|kind| Listen::take(map, kind, directory, in_effect));
        let listen: Vec<Listen> = listen.collect();
        check_addresses(map, &listen);
        if !listen.iter().any(|listen| listen.kind.decides()) {
            let message = "`grpc`, `http` and `redis` are off, so no request can arrive".to_owned();
            let help = "give one of them an address, or write a section `gateway`";
            map.report_error("grpc", message, help);
        }
        listen
    }

    /// Reads one kind: an address, or a map with `address`, `mode` and `tls`.
    fn take(
        map: &Settings<'_>,
        kind: ListenerKind,
        directory: &Path,
        in_effect: &[Listen],
    ) -> Listen {
        let has_files = |files: &TlsFiles| {
            let mut known = in_effect.iter().filter_map(|one| one.tls.as_ref());
            known.any(|known| known == files)
        };
        let key = kind.name();
        if map.is_map(key) {
            return map.map(key, |long| Listen {
                kind,
                address: take_long_address(long, kind, directory),
                tls: tls::take(long, directory, has_files),
            });
        }
        let address = take_address(map, key, kind, directory);
        Listen {
            kind,
            address: address.unwrap_or(kind.default_address()),
            tls: None,
        }
    }
}

fn take_address(
    map: &Settings<'_>,
    key: &'static str,
    kind: ListenerKind,
    directory: &Path,
) -> Option<Address> {
    map.parse_or_help(key, |text| {
        let address = Address::parse(text, directory);
        address.map_err(|invalid| (invalid.to_string(), help_for_address(text, key, kind)))
    })
}

/// What to write in place of a text that is not an address.
fn help_for_address(text: &str, key: &str, kind: ListenerKind) -> String {
    let (name, default) = (kind.name(), kind.default_address());
    let word = text.to_ascii_lowercase();
    if OFF.contains(&word.as_str()) {
        return format!("write `{name}: null` to turn it off");
    }
    let port = word.strip_prefix("localhost").unwrap_or(&word);
    let port = port.strip_prefix(':').unwrap_or(port);
    match port.parse::<u16>() {
        Ok(port) if word.starts_with(':') => {
            format!("write `{key}: 0.0.0.0:{port}` for all addresses, or `127.0.0.1:{port}`")
        }
        Ok(port) => format!("write `{key}: 127.0.0.1:{port}`"),
        Err(_) if has_large_port(&word) => {
            format!(
                "a port is at most {}; write one as in `{key}: {default}`",
                u16::MAX
            )
        }
        Err(_) => format!("write `{key}: {default}` or `unix:/run/tollgate/{name}.sock`"),
    }
}

/// Whether a text ends with a number that is larger than a port can be.
fn has_large_port(text: &str) -> bool {
    let port = text.rsplit(':').next().unwrap_or_default();
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_number && port.parse::<u16>().is_err()
}

/// Reads `address`, and `mode`, which only a Unix socket has.
fn take_long_address(long: &Settings<'_>, kind: ListenerKind, directory: &Path) -> Address {
    let mode = long.parse("mode", "660", parse_mode);
    let mut address =
        take_address(long, "address", kind, directory).unwrap_or_else(|| kind.default_address());
    match (&mut address, mode) {
        (Address::Unix(socket), mode) => socket.mode = mode.unwrap_or(SOCKET_MODE),
        (Address::Tcp(_), Some(_)) => {
            let message = "`mode` is for Unix sockets, and this address is none".to_owned();
            long.report_error("mode", message, "remove it, or write `address: unix:PATH`");
        }
        (Address::Tcp(_), None) => {}
    }
    address
}

/// Permissions in octal digits, as `chmod` takes them.
fn parse_mode(text: &str) -> Result<u32, String> {
    let is_octal = !text.is_empty() && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = u32::from_str_radix(text, 8).ok().filter(|_| is_octal);
    match mode {
        // Nobody may connect without writing.
        Some(mode) if mode & 0o222 == 0 => {
            Err("lets nobody connect, which needs permission to write".to_owned())
        }
        Some(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("is not permissions in octal digits".to_owned()),
    }
}

/// Reports listeners that cannot both be opened.
fn check_addresses(map: &Settings<'_>, listen: &[Listen]) {
    for (index, one) in listen.iter().enumerate() {
        let mut earlier = listen[..index].iter();
        if let Some(other) = earlier.find(|other| overlap(&one.address, &other.address)) {
            let (name, other_name) = (one.kind.name(), other.kind.name());
            let what = match one.address {
                Address::Unix(_) => "Unix socket",
                Address::Tcp(_) => "port",
            };
            let (address, other) = (&one.address, &other.address);
            let message =
                format!("`{name}` has the same {what} as `{other_name}`: {address} and {other}");
            // The one that the settings name: the other may have its default address.
            let (key, help) = match map.contains(name) {
                true => (name, "give each listener an address of its own"),
                false => (other_name, "give it another address, or the other one"),
            };
            map.report_error(key, message, help);
        }
    }
}

/// Whether what is sent to one of these addresses may be meant for the other.
fn overlap(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Unix(one), Address::Unix(other)) => one.path == other.path,
        (Address::Tcp(one), Address::Tcp(other)) => {
            let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
            let is_same = one.ip() == other.ip() || is_any && one.is_ipv4() == other.is_ipv4();
            // Port 0 is another one each time.
            one.port() == other.port() && one.port() != 0 && is_same
        }
        (Address::Unix(_), Address::Tcp(_)) | (Address::Tcp(_), Address::Unix(_)) => false,
    }
}

// === impl ListenerKind ===

impl ListenerKind {
    /// Every kind, in the order in which listeners are opened.
    pub const ALL: [ListenerKind; 5] = [
        ListenerKind::Grpc,
        ListenerKind::Http,
        ListenerKind::Gateway,
        ListenerKind::Redis,
        ListenerKind::Admin,
    ];

    /// Its name in the settings, in logs and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            ListenerKind::Grpc => "grpc",
            ListenerKind::Http => "http",
            ListenerKind::Admin => "admin",
            ListenerKind::Gateway => "gateway",
            ListenerKind::Redis => "redis",
        }
    }

    /// Whether it is open if the settings do not name it.
    const fn is_on_by_default(self) -> bool {
        !matches!(self, ListenerKind::Gateway | ListenerKind::Redis)
    }

    /// Whether requests are decided there.
    pub const fn decides(self) -> bool {
        match self {
            ListenerKind::Grpc
            | ListenerKind::Http
            | ListenerKind::Gateway
            | ListenerKind::Redis => true,
            ListenerKind::Admin => false,
        }
    }

    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            ListenerKind::Grpc => Protocol::Http2,
            ListenerKind::Admin => Protocol::Http1,
            ListenerKind::Http | ListenerKind::Gateway => Protocol::Any,
            ListenerKind::Redis => Protocol::Other,
        }
    }

    pub(crate) const fn connection_limits(self, limits: &Limits) -> ConnectionLimits {
        match self.decides() {
            true => ConnectionLimits::for_decisions(limits),
            false => ConnectionLimits::admin(limits),
        }
    }

    fn default_address(self) -> Address {
        let port = match self {
            ListenerKind::Grpc => 8081,
            ListenerKind::Http => 8080,
            ListenerKind::Admin => 6070,
            ListenerKind::Gateway => 8000,
            ListenerKind::Redis => 6380,
        };
        Address::Tcp((Ipv4Addr::LOCALHOST, port).into())
    }
}

#[cfg(test)]
mod tests;
