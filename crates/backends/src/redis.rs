//! Redis, Redis Cluster and Valkey.

mod access;

use std::path::Path;

use tollgate_core::{Limit, Span};
use tollgate_redis::{
    CONNECTIONS, CONNECTIONS_MAX, Config, LEASE_CAPACITY_MIN, Redis, SYNC_INTERVAL,
    SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN, Servers, TIMEOUT, TIMEOUT_MAX, TIMEOUT_MIN, is_address,
};
use tollgate_rules::Settings;

use crate::backend::{Backend, InvalidUrl, OpenError, Reservations};
use crate::inspector::Inspector;
use access::{Credentials, encryption, signs_in};

/// The longest prefix of keys.
const PREFIX_BYTES_MAX: usize = 64;
/// The shortest and the longest time of a decision.
const TIMEOUTS: (Span, Span) = (TIMEOUT_MIN, TIMEOUT_MAX);
/// The least time that Redis gets to answer an operator: the setting `timeout` is for requests, and
/// an operator can wait longer.
const INSPECTION_TIMEOUT_MIN: Span = Span::from_secs(3);
/// The shortest and the longest time between two reports.
const SYNC_INTERVALS: (Span, Span) = (SYNC_INTERVAL_MIN, SYNC_INTERVAL_MAX);

impl Backend for Config {
    const NAME: &'static str = "Redis";
    const KEY: &'static str = "redis";
    const SCHEMES: &'static [&'static str] = &["redis", "rediss", "unix"];
    const EXAMPLE_URL: &'static str = "redis://localhost:6379";
    const LEASE_CAPACITY_MIN: u32 = LEASE_CAPACITY_MIN;

    type Store = Redis;

    fn from_url(url: &str) -> Result<Config, InvalidUrl> {
        Config::from_url(url).map_err(|invalid| InvalidUrl {
            message: invalid.message,
            help: invalid.help,
        })
    }

    /// Reads servers, encryption and credentials, then the settings with a range.
    fn from_map(redis: &Settings<'_>, directory: &Path) -> Config {
        let url = redis.secret("url").and_then(|text| {
            let of_url = Config::from_url(&text);
            let report = |bad: tollgate_redis::InvalidUrl| {
                redis.report_error("url", bad.message.to_owned(), bad.help);
            };
            of_url.map_err(report).ok()
        });
        let (servers, of_sentinels) = servers(redis, url.as_ref(), directory);
        let tls = encryption(redis, url.as_ref(), directory);
        let (username, password) = signs_in(redis, url, directory);
        let (sentinel_username, sentinel_password) = of_sentinels;
        let default = Config::new(servers);
        let prefix = redis.parse("prefix", "'tg:'", |text| {
            if text.contains(['{', '}']) {
                return Err("has a brace, which would choose the slot of every key".to_owned());
            }
            if text.len() > PREFIX_BYTES_MAX {
                return Err(format!("is longer than {PREFIX_BYTES_MAX} bytes"));
            }
            Ok(text.to_owned())
        });
        let handful = |count: usize| u32::try_from(count).expect("a handful");
        let pool = redis.count("pool", handful(CONNECTIONS), (1, handful(CONNECTIONS_MAX)));
        Config {
            tls,
            username,
            password,
            sentinel_username,
            sentinel_password,
            prefix: prefix.unwrap_or(default.prefix),
            timeout: redis.span("timeout", TIMEOUT, TIMEOUTS),
            connections: usize::try_from(pool).expect("a handful"),
            sync_interval: redis.span("sync_interval", SYNC_INTERVAL, SYNC_INTERVALS),
            ..default
        }
    }

    fn unfit(&self, limit: &Limit) -> Option<String> {
        let invalid = tollgate_redis::check(limit).err();
        invalid.map(|invalid| invalid.to_string())
    }

    fn reservations(&self) -> Reservations {
        match self.servers {
            Servers::Single(_) | Servers::Sentinel { .. } => Reservations::All,
            Servers::Cluster(_) => Reservations::InOneSlot,
        }
    }

    fn servers(&self) -> String {
        match &self.servers {
            Servers::Single(address) => address.clone(),
            Servers::Cluster(addresses) => format!("cluster {}", addresses.join(", ")),
            Servers::Sentinel { addresses, master } => {
                format!("sentinel {master} at {}", addresses.join(", "))
            }
        }
    }

    fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    fn open(&self) -> Result<Redis, OpenError> {
        Ok(Redis::connect(self)?)
    }

    fn open_inspector(&self) -> Option<Result<Inspector, OpenError>> {
        let config = Config {
            timeout: self.timeout.max(INSPECTION_TIMEOUT_MIN),
            connections: 1,
            ..self.clone()
        };
        Some(config.open().map(Inspector::new))
    }
}

/// Reads exactly one of `url`, `cluster` and `sentinel`, and the credentials for the sentinels.
fn servers(redis: &Settings<'_>, url: Option<&Config>, directory: &Path) -> (Servers, Credentials) {
    let help = "write one of `url: redis://host:6379`, `cluster: [host:port]` and \
        `sentinel: {master: NAME, addresses: [host:port]}`";
    let ways = ["url", "cluster", "sentinel"];
    let written: Vec<_> = ways.into_iter().filter(|key| redis.has(key)).collect();
    match *written {
        [] => redis.report_error("url", "no server is named".to_owned(), help),
        [_, second, ..] => {
            let message = format!("`{}` and `{second}` both name servers", written[0]);
            redis.report_error(second, message, help);
        }
        [_] => {}
    }
    if redis.has("sentinel") {
        return redis.map("sentinel", |sentinel| {
            let master = sentinel.text("master").unwrap_or_default();
            if master.is_empty() {
                let message = "the master has no name".to_owned();
                let help = "write `master: NAME`, as in `sentinel monitor NAME`";
                sentinel.report_error("master", message, help);
            }
            let addresses = addresses(sentinel, "addresses");
            let servers = Servers::Sentinel { addresses, master };
            (servers, signs_in(sentinel, None, directory))
        });
    }
    if redis.has("cluster") {
        let servers = Servers::Cluster(addresses(redis, "cluster"));
        return (servers, (None, None));
    }
    let nowhere = || Servers::Single(String::new());
    let servers = url.map_or_else(nowhere, |url| url.servers.clone());
    (servers, (None, None))
}

fn addresses(map: &Settings<'_>, key: &'static str) -> Vec<String> {
    let addresses = map.texts(key);
    let help = format!("write `{key}: ['host:6379']`");
    if addresses.is_empty() {
        map.report_error(key, "no server is named".to_owned(), &help);
    }
    // A URL may hold a password, so the address is not repeated.
    if let Some(bad) = addresses.iter().position(|address| !is_address(address)) {
        let message = format!("address {} is not a host with a port", bad + 1);
        map.report_error(key, message, &help);
    }
    addresses
}
