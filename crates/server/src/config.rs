//! The settings of `tollgate serve`: a YAML file, and the defaults.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tollgate_backends::{AnyBackend, BACKENDS};
use tollgate_core::Sharing;
use tollgate_engine::ReservationBounds;
use tollgate_gateway::GatewaySettings;
use tollgate_listen::Limits;
use tollgate_rules::{
    Diagnostic, ReadError, Settings, Source, read_paths, read_regular_paths, settings,
};
use tollgate_telemetry::TelemetryConfig;

use crate::admin_tokens::TokenSources;

mod admin;
mod auth;
mod explain;
mod gateway;
mod headroom;
mod limits;
mod listen;
mod log;
mod redis_protocol;
mod reservations;
mod reserving;
mod secret;
mod store;
mod telemetry;
mod tls;
mod unmeasured;
mod unreadable;

pub use admin::find_exposed_admin;
pub use auth::Auth;
pub use explain::Explain;
pub use headroom::HeadroomConfig;
pub use listen::{Listen, ListenerKind};
pub use log::{Log, LogFormat, LogLevel};
pub use redis_protocol::{Password, RedisProtocol};
pub(crate) use secret::hide as hide_secrets;
use store::Known;
pub use store::{OtherStore, Place, STORES_MAX};

/// The smallest `memory.max_bytes`.
const MAX_BYTES_MIN: usize = 1024 * 1024;

/// All settings of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file of these settings, if there is one. Changes in it are logged, but take effect only
    /// after a restart.
    pub file: Option<PathBuf>,
    /// `rules`: files, and directories of `*.yaml` and `*.yml` files. Not empty. In a file,
    /// relative to that file.
    pub rules: Vec<PathBuf>,
    /// `merge_domains`: several documents may add to one domain. Default: `false`.
    pub merge_domains: bool,
    /// `listen`. Default: all kinds, at their default addresses.
    pub listen: Vec<Listen>,
    /// `memory`.
    pub memory: Memory,
    /// `store`: serves every domain that no other store serves. Default: in memory.
    pub store: Place,
    /// `store.mode`, `store.on_store_error` and `store.instances`, which apply to rules that do not
    /// set them and whose domain does not either. Default: strict, local, counted.
    pub sharing: Sharing,
    /// `stores`: stores for single domains. Default: none.
    pub stores: Vec<OtherStore>,
    /// `auth`: what `/v1/auth` decides. Default: nothing.
    pub auth: Option<Auth>,
    /// `admin`: the tokens that the admin listener demands. Default: none.
    pub admin: TokenSources,
    /// `reservations`: how many may be open, and for how long.
    pub reservations: ReservationBounds,
    /// `explain`: what is kept of denied requests.
    pub explain: Explain,
    /// `headroom`: which pressures leave room for the elastic parts of limits.
    pub headroom: HeadroomConfig,
    /// `gateway`: what the listener `gateway` passes on. Default: nothing, and no such listener.
    pub gateway: Option<GatewaySettings>,
    /// `redis_protocol`: what the listener `redis` answers, and to whom.
    pub redis_protocol: RedisProtocol,
    /// `limits`.
    pub limits: Limits,
    /// `telemetry`: what is exported to OpenTelemetry. Default: nothing.
    pub telemetry: TelemetryConfig,
    /// `log`.
    pub log: Log,
    /// `allow_refund`: clients of the listener `http` may refund units with a negative cost, as
    /// those of `grpc` always may, and all users of the Redis protocol. Default: `false`.
    pub allow_refund: bool,
    /// `dynamic_metadata`: responses to Envoy have the request and the rules' `metadata`. Default:
    /// `false`.
    pub dynamic_metadata: bool,
}

/// The size of the store in memory. Without either setting: room for a million keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `max_keys`: room for this many live keys.
    pub max_keys: Option<usize>,
    /// `max_bytes`: the most memory that the store may use, such as `512MiB`.
    pub max_bytes: Option<usize>,
}

/// Why the settings cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable(ReadError),
    /// The file has errors: all of them, by line.
    Invalid(Vec<Diagnostic>),
}

// === impl Config ===

impl Config {
    /// The defaults, for a service with these rules.
    pub fn new(rules: Vec<PathBuf>) -> Config {
        Config {
            file: None,
            rules,
            merge_domains: false,
            listen: Listen::defaults(),
            memory: Memory::default(),
            store: Place::default(),
            sharing: Sharing::default(),
            stores: Vec::new(),
            auth: None,
            admin: TokenSources::default(),
            reservations: ReservationBounds::default(),
            explain: Explain::default(),
            headroom: HeadroomConfig::default(),
            gateway: None,
            redis_protocol: RedisProtocol::default(),
            limits: Limits::default(),
            telemetry: TelemetryConfig::default(),
            log: Log::default(),
            allow_refund: false,
            dynamic_metadata: false,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if it cannot be read, or with every error in it.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        Config::read_with(path, None)
    }

    /// Reads the file of a service that runs with these settings. Lists, and the certificates that
    /// listeners have, are not read: invalid ones leave those in effect what they are, and keep
    /// nothing else from taking effect.
    pub(crate) fn read_again(&self, path: &Path) -> Result<Config, ConfigError> {
        Config::read_with(path, Some(&self.listen))
    }

    /// Reads a file of settings, of a service that starts or that runs with these listeners.
    fn read_with(path: &Path, in_effect: Option<&[Listen]>) -> Result<Config, ConfigError> {
        if path.is_dir() {
            let path = path.to_owned();
            let source = io::Error::from(io::ErrorKind::IsADirectory);
            return Err(ConfigError::Unreadable(ReadError::Io { path, source }));
        }
        let sources = match in_effect {
            None => read_paths(&[path.to_owned()]),
            Some(_) => read_regular_paths(&[path.to_owned()]),
        };
        let sources = sources.map_err(ConfigError::Unreadable)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let source = sources.first().expect("one file was asked for");
        let known = Known {
            backends: BACKENDS,
            directory,
            file: path,
            in_effect,
        };
        let config = Config::parse_known(source, known)?;
        Ok(Config {
            file: Some(path.to_owned()),
            ..config
        })
    }

    /// Reads a file's text, in which paths are relative to `directory`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with every error in it.
    pub fn parse(source: &Source, directory: &Path) -> Result<Config, ConfigError> {
        Config::parse_with(source, directory, BACKENDS)
    }

    /// As [`Config::parse`], where these backends can be named, which have different keys.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with every error in it.
    pub fn parse_with(
        source: &Source,
        directory: &Path,
        backends: &[AnyBackend],
    ) -> Result<Config, ConfigError> {
        let known = Known {
            backends,
            directory,
            file: &directory.join(&source.name),
            in_effect: None,
        };
        Config::parse_known(source, known)
    }

    fn parse_known(source: &Source, known: Known<'_>) -> Result<Config, ConfigError> {
        settings(source, &secret::KEYS, |top| Config::take(top, known)).map_err(
            |mut diagnostics| {
                secret::hide(&mut diagnostics, &source.text, known.backends);
                ConfigError::Invalid(diagnostics)
            },
        )
    }

    /// The top-level keys whose values differ in `other`.
    pub(crate) fn differences(&self, other: &Config) -> Vec<&'static str> {
        let store = (&self.store, &self.sharing) != (&other.store, &other.sharing);
        let (own, others) = (self.gateway.as_ref(), other.gateway.as_ref());
        let access_log = own.map(|one| &one.access_log) != others.map(|one| &one.access_log);
        let lists = own.map(|one| &one.lists) != others.map(|one| &one.lists);
        let differ = [
            ("rules", self.rules != other.rules),
            ("merge_domains", self.merge_domains != other.merge_domains),
            ("listen", self.listen != other.listen),
            ("memory", self.memory != other.memory),
            ("store", store),
            ("stores", self.stores != other.stores),
            ("auth", self.auth != other.auth),
            ("admin", self.admin != other.admin),
            ("reservations", self.reservations != other.reservations),
            ("explain", self.explain != other.explain),
            ("headroom", self.headroom != other.headroom),
            ("gateway", own != others && !access_log && !lists),
            ("gateway.access_log", access_log),
            ("gateway.lists", lists),
            (
                "redis_protocol",
                self.redis_protocol != other.redis_protocol,
            ),
            ("limits", self.limits != other.limits),
            ("telemetry", self.telemetry != other.telemetry),
            ("log", self.log != other.log),
            ("allow_refund", self.allow_refund != other.allow_refund),
            (
                "dynamic_metadata",
                self.dynamic_metadata != other.dynamic_metadata,
            ),
        ];
        let keys = differ.iter().filter(|(_, differs)| *differs);
        keys.map(|(key, _)| *key).collect()
    }

    /// Takes all settings from the file's top level. Errors are reported to `top`; an invalid value
    /// is replaced by its default, so that all errors are found at once.
    fn take(top: &Settings<'_>, known: Known<'_>) -> Config {
        let files = top.texts("rules");
        let mut rules: Vec<_> = files
            .iter()
            .map(|path| known.directory.join(path))
            .collect();
        if top.is_followed_by_rules() {
            rules.push(known.file.to_owned());
        }
        let (store, sharing) = Place::take_default(top, known);
        // One without a value is an error of its own.
        let has_gateway = top.contains("gateway");
        let has_redis_protocol = top.contains("redis_protocol");
        let listen = top.map("listen", |map| {
            let in_effect = known.in_effect.unwrap_or_default();
            let on = (has_gateway, has_redis_protocol);
            Listen::take_all(map, known.directory, on, in_effect)
        });
        let gateway = gateway::take(top, &listen, known.directory, known.in_effect.is_none());
        let has_redis = listen.iter().any(|one| one.kind == ListenerKind::Redis);
        let auth = Auth::take(top, known.directory);
        if auth.is_some() && !listen.iter().any(|one| one.kind == ListenerKind::Http) {
            let message = "`auth` has no effect, because `listen.http` is off".to_owned();
            top.report_error(
                "auth",
                message,
                "give `listen.http` an address, or remove `auth`",
            );
        }
        let has_admin = listen.iter().any(|one| one.kind == ListenerKind::Admin);
        let config = Config {
            file: None,
            rules,
            merge_domains: top.flag("merge_domains", false),
            listen,
            memory: top.map("memory", Memory::take),
            store,
            sharing,
            stores: OtherStore::take_all(top, known),
            auth,
            admin: admin::take(top, known.directory, has_admin),
            reservations: top.map("reservations", reservations::take),
            explain: top.map("explain", Explain::take),
            headroom: top.map("headroom", HeadroomConfig::take),
            gateway,
            redis_protocol: RedisProtocol::take(top, known.directory, has_redis),
            limits: top.map("limits", limits::take),
            telemetry: telemetry::take(top, known.directory),
            log: top.map("log", Log::take),
            allow_refund: top.flag("allow_refund", false),
            dynamic_metadata: top.flag("dynamic_metadata", false),
        };
        if config.rules.is_empty() {
            report_no_rules(top);
        }
        config.check_reserving(top);
        config
    }
}

/// Reports that no rules are named, once all keys have been asked for.
fn report_no_rules(top: &Settings<'_>) {
    if top.contains("domain") && !top.has_known_key() {
        let message = "this is a rules file, not a settings file".to_owned();
        let help = "write a settings file that names it, as in `rules: [PATH]`; \
            `tollgate check PATH` checks rules alone";
        return top.report_other_file(message, help);
    }
    let message = "no rules file is named".to_owned();
    let help = "write `rules: [PATH]`, with rules files or directories, or write the rules below \
        `---` at the end of this file";
    top.report_error("rules", message, help);
}

// === impl Memory ===

impl Memory {
    fn take(map: &Settings<'_>) -> Memory {
        Memory {
            max_keys: map.parse("max_keys", "1000000", |text| match text.parse() {
                Ok(keys) if keys > 0 => Ok(keys),
                _ => Err("is not a number of keys, which is at least 1".to_owned()),
            }),
            max_bytes: map.parse("max_bytes", "512MiB", |text| match bytes(text)? {
                bytes if bytes >= MAX_BYTES_MIN => Ok(bytes),
                _ => Err("is less than 1MiB".to_owned()),
            }),
        }
    }
}

/// A number of bytes: `1048576`, `512MiB`.
fn bytes(text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("", 0)];
    let parsed = units.iter().find_map(|(unit, shift)| {
        let number: usize = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        number.checked_mul(1 << shift)
    });
    parsed.ok_or_else(|| "is not a number of bytes, KiB, MiB or GiB".to_owned())
}

// === impl ConfigError ===

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unreadable(error) => write!(f, "{error}"),
            ConfigError::Invalid(diagnostics) => {
                let mut diagnostics = diagnostics.iter();
                diagnostics.try_for_each(|diagnostic| write!(f, "{diagnostic}"))
            }
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Unreadable(error) => error.source(),
            ConfigError::Invalid(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
