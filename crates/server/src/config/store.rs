//! Where state is kept: `store`, and `stores` for single domains.

mod access;

use std::path::Path;

use tollgate_core::{Limit, Sharing, Span};
use tollgate_engine::DEFAULT_STORE;
use tollgate_redis::{
    CONNECTIONS, CONNECTIONS_MAX, Config as RedisConfig, SYNC_INTERVAL, SYNC_INTERVAL_MAX,
    SYNC_INTERVAL_MIN, Servers, TIMEOUT,
};
use tollgate_rules::{Loaded, Options, RuleSet, Settings, Source};

use super::Config;
use super::url::{Url, is_address};
use access::{Credentials, encryption, signs_in};

/// The most stores below `stores`.
pub const STORES_MAX: usize = 16;
/// The longest name of a store, which is a label of its metrics.
const NAME_BYTES_MAX: usize = 63;
/// The longest prefix of keys.
const PREFIX_BYTES_MAX: usize = 64;
/// The shortest and the longest time of a decision.
const TIMEOUTS: (Span, Span) = (Span::from_millis(1), Span::from_secs(10));
/// The shortest and the longest time between two reports.
const SYNC_INTERVALS: (Span, Span) = (SYNC_INTERVAL_MIN, SYNC_INTERVAL_MAX);

/// Where a store keeps its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In this process.
    #[default]
    Memory,
    /// In Redis, shared with other instances.
    Redis(Box<RedisConfig>),
}

/// One of `stores`: a store for some domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherStore {
    /// Its name in logs and metrics.
    pub name: String,
    /// `domains`: the domains that it serves. Not empty, and disjoint from those of other stores.
    pub domains: Vec<String>,
    /// Where it is.
    pub place: Place,
}

// === impl Config ===

impl Config {
    /// The name and the place of a domain's store.
    pub fn store_of(&self, domain: &str) -> (&str, &Place) {
        let serves = |other: &&OtherStore| other.domains.iter().any(|name| name == domain);
        let other = self.stores.iter().find(serves);
        other.map_or((DEFAULT_STORE, &self.store), |other| {
            (&other.name, &other.place)
        })
    }

    /// Parses rules as the service does: with the defaults in these settings, and with an
    /// error for each limit that its domain's store cannot keep.
    pub fn load(&self, sources: &[Source]) -> Loaded {
        let options = Options {
            merge_domains: self.merge_domains,
            sharing: self.sharing,
        };
        RuleSet::parse_for(sources, &options, &|domain, limit| {
            self.store_of(domain).1.unfit(limit)
        })
    }
}

// === impl Place ===

impl Place {
    /// Why a limit cannot be kept there, and what to do instead.
    fn unfit(&self, limit: &Limit) -> Option<String> {
        match self {
            Place::Memory => None,
            Place::Redis(_) => tollgate_redis::check(limit)
                .err()
                .map(|invalid| invalid.to_string()),
        }
    }

    /// Reads `store`, and the defaults of `mode`, `on_store_error` and `nodes` for all rules.
    pub(super) fn take_default(top: &Settings<'_>, directory: &Path) -> (Place, Sharing) {
        let key = "store";
        if top.is_map(key) {
            return top.map(key, |store| {
                let place = Place::take(store, directory).unwrap_or_default();
                (place, store.sharing(Sharing::default()))
            });
        }
        let place = match top.secret(key).as_deref() {
            None | Some("memory") => Place::Memory,
            Some(text) if Url::is_meant(text) => Place::at_url(top, key, text),
            Some(_) => {
                let message = "this is not a store".to_owned();
                let help = "write `store: memory`, `store: redis://localhost:6379` or \
                    `store: {redis: {url: 'redis://localhost:6379'}}`";
                top.report_error(key, message, help);
                Place::Memory
            }
        };
        (place, Sharing::default())
    }

    /// The short form: a URL, with the default of every other setting.
    fn at_url(map: &Settings<'_>, key: &'static str, text: &str) -> Place {
        let report =
            |(message, help): (&str, &str)| map.report_error(key, message.to_owned(), help);
        let url = Url::parse(text).map_err(report).ok();
        url.map_or(Place::Memory, |url| Place::Redis(Box::new(url.config())))
    }

    /// Reads a store's map; `None` if it names no place.
    fn take(store: &Settings<'_>, directory: &Path) -> Option<Place> {
        let is_memory = store.flag("memory", false);
        // An empty `redis` counts as well: it is an error, not a store in memory.
        let is_redis = store.has("redis") || store.is_off("redis");
        if is_redis && !store.is_map("redis") {
            if let Some(text) = store.secret("redis").filter(|text| Url::is_meant(text)) {
                return Some(Place::at_url(store, "redis", &text));
            }
            let message = "`redis` does not say where Redis is".to_owned();
            let help = "write `redis: {url: 'redis://localhost:6379'}`";
            store.report_error("redis", message, help);
            return Some(Place::Memory);
        }
        if !is_redis {
            return is_memory.then_some(Place::Memory);
        }
        if is_memory {
            let message = "this store has both `memory` and `redis`".to_owned();
            store.report_error("memory", message, "remove `memory` or `redis`");
        }
        let config = store.map("redis", |redis| redis_at(redis, directory));
        Some(Place::Redis(Box::new(config)))
    }
}

// === impl OtherStore ===

impl OtherStore {
    /// `stores`.
    pub(super) fn take_all(top: &Settings<'_>, directory: &Path) -> Vec<OtherStore> {
        let mut stores: Vec<OtherStore> = Vec::new();
        top.each("stores", |name, store| {
            if stores.len() == STORES_MAX {
                let message = format!("more than {STORES_MAX} stores");
                store.report_error("domains", message, "let one store serve more domains");
            }
            let other = OtherStore {
                name: name.to_owned(),
                domains: domains(store, &stores),
                place: Place::take(store, directory).unwrap_or_else(|| {
                    let message = "this store has neither `redis` nor `memory`".to_owned();
                    let help = "write `redis: {url: …}` below it, or `memory: true`";
                    store.report_error("redis", message, help);
                    Place::Memory
                }),
            };
            if !is_name(name) {
                let message = "a store's name is a label: 1 to 63 of a-z, 0-9, _ and -, and not \
                    `default`"
                    .to_owned();
                store.report_error("domains", message, "write a name such as `payments`");
            }
            stores.push(other);
        });
        stores
    }
}

fn is_name(name: &str) -> bool {
    let is_label = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-".contains(&c);
    let is_short = (1..=NAME_BYTES_MAX).contains(&name.len());
    is_short && name.bytes().all(is_label) && name != DEFAULT_STORE
}

/// The domains that a store lists. Reports domains that it or a store before it lists already, and
/// leaves them out.
fn domains(store: &Settings<'_>, before: &[OtherStore]) -> Vec<String> {
    let mut domains: Vec<String> = Vec::new();
    let listed = store.texts("domains");
    if listed.is_empty() {
        let message = "this store lists no domain".to_owned();
        store.report_error("domains", message, "write `domains: [shop]`");
    }
    for domain in listed {
        let other = before.iter().find(|other| other.domains.contains(&domain));
        let other = other.map(|other| format!("the store {}", other.name));
        if let Some(first) =
            other.or_else(|| domains.contains(&domain).then(|| "this store".to_owned()))
        {
            let message = format!("a domain is listed twice, first by {first}");
            store.report_error("domains", message, "list each domain once, in one store");
            continue;
        }
        domains.push(domain);
    }
    domains
}

/// A `redis` map.
fn redis_at(redis: &Settings<'_>, directory: &Path) -> RedisConfig {
    let url = redis.secret("url").and_then(|text| {
        let report =
            |(message, help): (&str, &str)| redis.report_error("url", message.to_owned(), help);
        Url::parse(&text).map_err(report).ok()
    });
    let (servers, of_sentinels) = servers(redis, url.as_ref(), directory);
    let tls = encryption(redis, url.as_ref(), directory);
    let (username, password) = signs_in(redis, url, directory);
    let (sentinel_username, sentinel_password) = of_sentinels;
    let default = RedisConfig::new(servers);
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
    RedisConfig {
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

/// Reads exactly one of `url`, `cluster` and `sentinel`, and the credentials for the sentinels.
fn servers(redis: &Settings<'_>, url: Option<&Url>, directory: &Path) -> (Servers, Credentials) {
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
    let address = url.map_or_else(String::new, |url| url.address.clone());
    (Servers::Single(address), (None, None))
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

#[cfg(test)]
mod tests;
