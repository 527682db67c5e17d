//! Where Redis is and how to connect to it.

mod url;

use std::fmt;
use std::path::PathBuf;

use tollgate_core::Span;

pub use url::{InvalidUrl, is_address};

/// The default timeout of a decision: Envoy's default of 20 ms, after which it fails open, less 5
/// ms for the network between Envoy and this instance. A shorter one is not safer: a decision that
/// Redis makes after the deadline is charged, and `on_store_error` answers in its place.
pub const TIMEOUT: Span = Span::from_millis(15);
/// The shortest [`Config::timeout`] that the settings of the service accept.
pub const TIMEOUT_MIN: Span = Span::from_millis(1);
/// The longest, likewise.
pub const TIMEOUT_MAX: Span = Span::from_secs(10);
/// The scheme of a Unix socket's address; its path follows.
pub const UNIX: &str = "unix:";
/// The default prefix of every key.
pub const PREFIX: &str = "tg:";
/// The default of [`Config::batch`].
pub const BATCH: usize = 64;
/// The maximum of [`Config::batch`]: Redis serves no other client while a script call runs.
pub const BATCH_MAX: usize = 250;
/// The default of [`Config::sync_interval`].
pub const SYNC_INTERVAL: Span = Span::from_millis(100);
/// The minimum of [`Config::sync_interval`].
pub const SYNC_INTERVAL_MIN: Span = Span::from_millis(10);
/// The maximum of [`Config::sync_interval`].
pub const SYNC_INTERVAL_MAX: Span = Span::from_secs(10);
/// The default of [`Config::connections`]: while the replies of one connection are processed, the
/// node works on the requests of the other.
pub const CONNECTIONS: usize = 2;
/// The maximum of [`Config::connections`].
pub const CONNECTIONS_MAX: usize = 16;

/// Where Redis is and how to connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The servers.
    pub servers: Servers,
    /// TLS settings; without them, connections are not encrypted.
    pub tls: Option<Tls>,
    /// The user name, if not Redis's default user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The user name at the sentinels, whose users are separate from those of the servers.
    pub sentinel_username: Option<String>,
    /// The password at the sentinels; they are never sent the one of the servers.
    pub sentinel_password: Option<Secret>,
    /// The prefix of every key; [`PREFIX`] by default. No braces: those would choose the slot.
    pub prefix: String,
    /// How long a decision may take; [`TIMEOUT`] by default.
    pub timeout: Span,
    /// Connections to each node, 1 to [`CONNECTIONS_MAX`]; [`CONNECTIONS`] by default.
    /// All requests on one key use the same connection.
    pub connections: usize,
    /// The most decisions in one script call, 1 to [`BATCH_MAX`]; [`BATCH`] by default. In a
    /// Cluster only decisions on the same node share a call; the others share a round trip.
    pub batch: usize,
    /// How often an instance reports its local counts
    /// ([`Mode::WriteBack`](tollgate_core::Mode::WriteBack)), [`SYNC_INTERVAL_MIN`] to
    /// [`SYNC_INTERVAL_MAX`]; [`SYNC_INTERVAL`] by default.
    pub sync_interval: Span,
}

/// The servers, as `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// One server; `unix:/run/redis.sock` is a Unix socket.
    Single(String),
    /// Some nodes of a Redis Cluster, from which the others are discovered.
    Cluster(Vec<String>),
    /// Sentinels that monitor the primary.
    Sentinel {
        /// Some of the sentinels.
        addresses: Vec<String>,
        /// The name under which they monitor the primary.
        master: String,
    },
}

/// TLS settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// A PEM file with the certificates of the authorities to trust; the public ones if there is
    /// none.
    pub authorities: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host of the address.
    pub server_name: Option<String>,
    /// The client's certificate, for servers that require one.
    pub identity: Option<Identity>,
}

/// A client's certificate and its private key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and its intermediate certificates, if there are any.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Text that is never shown, also not by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a [`Config`] is invalid.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvalidConfig {
    /// There is no address.
    NoAddress,
    /// An address is not `host:port`.
    Address(String),
    /// The prefix contains a brace.
    Prefix(String),
    /// Not 1 to [`CONNECTIONS_MAX`].
    Connections(usize),
    /// Not 1 to [`BATCH_MAX`].
    Batch(usize),
    /// The timeout is zero.
    Timeout,
    /// Not [`SYNC_INTERVAL_MIN`] to [`SYNC_INTERVAL_MAX`].
    SyncInterval(Span),
    /// The authorities' certificates cannot be read.
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The client's certificate or its key cannot be read, or they do not match.
    Identity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server's name is not a valid host name.
    ServerName(String),
}

// === impl Config ===

impl Config {
    /// A configuration for these servers, with the default of every other setting.
    pub fn new(servers: Servers) -> Config {
        Config {
            servers,
            tls: None,
            username: None,
            password: None,
            sentinel_username: None,
            sentinel_password: None,
            prefix: PREFIX.to_owned(),
            timeout: TIMEOUT,
            connections: CONNECTIONS,
            batch: BATCH,
            sync_interval: SYNC_INTERVAL,
        }
    }

    /// One server, at `host:port`.
    pub fn single(address: impl Into<String>) -> Config {
        Config::new(Servers::Single(address.into()))
    }

    /// A Cluster, with some of its nodes.
    pub fn cluster(addresses: impl IntoIterator<Item = String>) -> Config {
        Config::new(Servers::Cluster(addresses.into_iter().collect()))
    }

    /// Checks every setting that can be checked without a connection, and returns the first error.
    pub(crate) fn validate(&self) -> Result<(), InvalidConfig> {
        let addresses = self.servers.addresses();
        if addresses.is_empty() {
            return Err(InvalidConfig::NoAddress);
        }
        for address in addresses {
            let is_single = matches!(self.servers, Servers::Single(_));
            if is_single
                && address
                    .strip_prefix(UNIX)
                    .is_some_and(|path| !path.is_empty())
            {
                continue;
            }
            let port = address
                .rsplit_once(':')
                .map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(_))) {
                return Err(InvalidConfig::Address(address.clone()));
            }
        }
        if self.prefix.contains(['{', '}']) {
            return Err(InvalidConfig::Prefix(self.prefix.clone()));
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(InvalidConfig::Connections(self.connections));
        }
        if !(1..=BATCH_MAX).contains(&self.batch) {
            return Err(InvalidConfig::Batch(self.batch));
        }
        if self.timeout.is_zero() {
            return Err(InvalidConfig::Timeout);
        }
        if !(SYNC_INTERVAL_MIN..=SYNC_INTERVAL_MAX).contains(&self.sync_interval) {
            return Err(InvalidConfig::SyncInterval(self.sync_interval));
        }
        Ok(())
    }
}

// === impl Servers ===

impl Servers {
    pub(crate) fn addresses(&self) -> &[String] {
        match self {
            Servers::Single(address) => std::slice::from_ref(address),
            Servers::Cluster(addresses) | Servers::Sentinel { addresses, .. } => addresses,
        }
    }
}

// === impl Secret ===

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

// === impl InvalidConfig ===

impl std::error::Error for InvalidConfig {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InvalidConfig::Authorities { source, .. } | InvalidConfig::Identity { source, .. } => {
                Some(source.as_ref())
            }
            _ => None,
        }
    }
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidConfig::NoAddress => f.write_str("no address of a Redis server is given"),
            InvalidConfig::Address(address) => {
                write!(
                    f,
                    "{address:?} is not an address: write host:port, as in localhost:6379"
                )
            }
            InvalidConfig::Prefix(prefix) => write!(
                f,
                "the prefix {prefix:?} contains a brace, which would choose the slot of every key: \
                 remove it"
            ),
            InvalidConfig::Connections(count) => {
                write!(
                    f,
                    "{count} connections to a node are not within 1 to {CONNECTIONS_MAX}"
                )
            }
            InvalidConfig::Batch(count) => {
                write!(
                    f,
                    "batches of {count} decisions are not within 1 to {BATCH_MAX}"
                )
            }
            InvalidConfig::Timeout => f.write_str("the timeout must be longer than 0"),
            InvalidConfig::SyncInterval(interval) => write!(
                f,
                "a sync_interval of {interval} is outside {SYNC_INTERVAL_MIN} to \
                 {SYNC_INTERVAL_MAX}"
            ),
            InvalidConfig::Authorities { path, .. } => {
                write!(f, "cannot read certificates from {}", path.display())
            }
            InvalidConfig::Identity { path, .. } => {
                write!(f, "cannot use the client's certificate: {}", path.display())
            }
            InvalidConfig::ServerName(name) => write!(f, "{name:?} is not a valid server name"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_outside_its_bounds_is_an_error() {
        let of = |sync_interval| Config {
            sync_interval,
            ..Config::single("localhost:6379")
        };
        for interval in [SYNC_INTERVAL_MIN, SYNC_INTERVAL, SYNC_INTERVAL_MAX] {
            assert!(of(interval).validate().is_ok(), "{interval}");
        }
        let too_short = of(Span::from_millis(9)).validate();
        let message = too_short.map_err(|invalid| invalid.to_string());
        let expected = "a sync_interval of 9ms is outside 10ms to 10s";
        assert_eq!(message, Err(expected.to_owned()));
    }
}
