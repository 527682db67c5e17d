//! Where Redis is and how to talk to it.

mod url;

use std::fmt;
use std::path::PathBuf;

use tollgate_core::Span;

pub use url::{InvalidUrl, is_address};

/// How long a decision may take: below the 20 ms after which Envoy lets a request pass, with 5 ms
/// for the way to Envoy and back. Shorter is not safer: a decision that Redis makes too late is
/// charged, and answered by `on_store_error` all the same.
pub const TIMEOUT: Span = Span::from_millis(15);
/// What the address of a server's Unix socket begins with; its path follows.
pub const UNIX: &str = "unix:";
/// What every key begins with.
pub const PREFIX: &str = "tg:";
/// Decisions that one script call makes at most, by default.
pub const BATCH: usize = 64;
/// The most decisions of one script call that can be asked for: the script's other clients wait
/// for all of them.
pub const BATCH_MAX: usize = 250;
/// How often a node reports what it has allowed on its own count by default, and the
/// shortest and the longest interval that can be asked for.
pub const SYNC_INTERVAL: Span = Span::from_millis(100);
/// See [`SYNC_INTERVAL`].
pub const SYNC_INTERVAL_MIN: Span = Span::from_millis(10);
/// See [`SYNC_INTERVAL`].
pub const SYNC_INTERVAL_MAX: Span = Span::from_secs(10);
/// Connections to each node, if nothing else is said: while the answers of one are handed out, the
/// node works on what came through the other.
pub const CONNECTIONS: usize = 2;
/// The most connections to one node.
pub const CONNECTIONS_MAX: usize = 16;

/// Where Redis is and how to talk to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which servers.
    pub servers: Servers,
    /// How to encrypt; nothing is encrypted if there is none.
    pub tls: Option<Tls>,
    /// The user, if not Redis's default one.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The user of the sentinels, which know other users than the servers that they watch.
    pub sentinel_username: Option<String>,
    /// The password of the sentinels; they never get the one of the servers.
    pub sentinel_password: Option<Secret>,
    /// What every key begins with; [`PREFIX`] by default. No braces: those choose the slot.
    pub prefix: String,
    /// How long a decision may take; [`TIMEOUT`] by default.
    pub timeout: Span,
    /// Connections to each node, 1 to [`CONNECTIONS_MAX`]; [`CONNECTIONS`] by default.
    /// A key is always asked for over the same one.
    pub connections: usize,
    /// Decisions that share a script call if they arrive together, 1 to [`BATCH_MAX`]; [`BATCH`]
    /// by default. In a Cluster only those of one slot can, so there they share a round trip.
    pub batch: usize,
    /// How often a node reports what it has allowed on its own count
    /// ([`Mode::WriteBack`](tollgate_core::Mode::WriteBack)), [`SYNC_INTERVAL_MIN`] to
    /// [`SYNC_INTERVAL_MAX`]; [`SYNC_INTERVAL`] by default.
    pub sync_interval: Span,
}

/// Which servers, as `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// One server; `unix:/run/redis.sock` is a socket of this machine.
    Single(String),
    /// Some nodes of a Redis Cluster; the others are learned from them.
    Cluster(Vec<String>),
    /// The sentinels that know the master.
    Sentinel {
        /// Some of the sentinels.
        addresses: Vec<String>,
        /// What they call the master.
        master: String,
    },
}

/// How to encrypt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// A file with the certificates (PEM) of the authorities to trust; the public ones if there is
    /// none.
    pub authorities: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host that is connected to.
    pub server_name: Option<String>,
    /// Who we are, for servers that ask their clients for a certificate.
    pub identity: Option<Identity>,
}

/// A client's certificate and its key, in files (PEM).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and those that lead from it to an authority, if there are any.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// What is wrong with a [`Config`].
#[derive(Debug)]
#[non_exhaustive]
pub enum InvalidConfig {
    /// There is no address at all.
    NoAddress,
    /// An address is not `host:port`.
    Address(String),
    /// The prefix has a brace in it.
    Prefix(String),
    /// Not 1 to [`CONNECTIONS_MAX`].
    Connections(usize),
    /// Not 1 to [`BATCH_MAX`].
    Batch(usize),
    /// No time to decide in.
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
    /// Our own certificate or its key cannot be read, or they do not belong together.
    Identity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The name of the server is no name.
    ServerName(String),
}

// === impl Config ===

impl Config {
    /// These servers, and the defaults.
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

    /// A Cluster, of which these nodes are known.
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
                    "{address:?} is no address: write host:port, as in localhost:6379"
                )
            }
            InvalidConfig::Prefix(prefix) => write!(
                f,
                "the prefix {prefix:?} has a brace, which would choose the slot of every key: \
                 leave it out"
            ),
            InvalidConfig::Connections(count) => {
                write!(
                    f,
                    "{count} connections to a node are outside 1 to {CONNECTIONS_MAX}"
                )
            }
            InvalidConfig::Batch(count) => {
                write!(
                    f,
                    "batches of {count} decisions are outside 1 to {BATCH_MAX}"
                )
            }
            InvalidConfig::Timeout => f.write_str("a timeout of 0 leaves no time to decide in"),
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
            InvalidConfig::ServerName(name) => write!(f, "{name:?} is no server's name"),
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
