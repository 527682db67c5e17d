//! Where state is kept: `store`, and `stores` for single domains.

use std::path::Path;

use tollgate_backends::{AnyBackend, SharedConfig};
use tollgate_core::{Limit, Sharing};
use tollgate_engine::DEFAULT_STORE;
use tollgate_rules::{Loaded, Options, RuleSet, Settings, Source};

use super::{Config, Listen};

/// The most stores below `stores`.
pub const STORES_MAX: usize = 16;
/// The longest name of a store, which is a label of its metrics.
const NAME_BYTES_MAX: usize = 63;
/// What is known before a store is read: the backends that can be named, and the directory that
/// paths are relative to, and the file itself, whose further documents are rules.
#[derive(Clone, Copy)]
pub(super) struct Known<'k> {
    pub(super) backends: &'k [AnyBackend],
    pub(super) directory: &'k Path,
    pub(super) file: &'k Path,
    /// The listeners in effect, if the service runs: their certificates, and the gateway's lists,
    /// are then not read, because they have a reload and errors of their own.
    pub(super) in_effect: Option<&'k [Listen]>,
}

/// Where a store keeps its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In this process.
    #[default]
    Memory,
    /// In a shared store, which other instances use as well.
    Shared(SharedConfig),
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
        let mut loaded = RuleSet::parse_for(sources, &options, &|written| {
            let (_, place) = self.store_of(written.domain);
            let unfit = place.unfit(written.limit);
            unfit.or_else(|| self.unreservable(written))
        });
        self.warn_of_unmeasured(&mut loaded, sources);
        loaded
    }
}

// === impl Place ===

impl Place {
    /// Why a limit cannot be kept there, and what to do instead.
    fn unfit(&self, limit: &Limit) -> Option<String> {
        match self {
            Place::Memory => None,
            Place::Shared(config) => config.unfit(limit),
        }
    }

    /// Reads `store`, and the defaults of `mode`, `on_store_error` and `instances` for all rules.
    pub(super) fn take_default(top: &Settings<'_>, known: Known<'_>) -> (Place, Sharing) {
        let key = "store";
        if top.is_map(key) {
            return top.map(key, |store| {
                let place = known.place(store).unwrap_or_default();
                (place, store.sharing(Sharing::default()))
            });
        }
        let text = top.secret(key);
        let place = match text.as_deref() {
            None | Some("memory") => Place::Memory,
            Some(text) => match known.backends.iter().find(|backend| backend.is_url(text)) {
                Some(backend) => at_url(backend, top, key, text),
                None => {
                    let message = "this is not a store".to_owned();
                    top.report_error(key, message, &known.help_for_store());
                    Place::Memory
                }
            },
        };
        (place, Sharing::default())
    }
}

/// The short form: a URL, with the default of every other setting.
fn at_url(backend: &AnyBackend, map: &Settings<'_>, key: &'static str, text: &str) -> Place {
    let config = backend.from_url(text);
    config.map_or_else(
        |invalid| {
            map.report_error(key, invalid.message.to_owned(), invalid.help);
            Place::Memory
        },
        Place::Shared,
    )
}

// === impl Known ===

impl Known<'_> {
    /// Reads a store's map; `None` if it names no place.
    fn place(self, store: &Settings<'_>) -> Option<Place> {
        let is_memory = store.flag("memory", false);
        // All keys are asked for, since only those are known; an empty one counts as well: it is
        // an error, not a store in memory.
        let is_named =
            |backend: &&AnyBackend| store.has(backend.key) || store.contains(backend.key);
        let named: Vec<&AnyBackend> = self.backends.iter().filter(is_named).collect();
        let Some((backend, others)) = named.split_first() else {
            return is_memory.then_some(Place::Memory);
        };
        let key = backend.key;
        for other in others {
            let message = format!("this store has both `{key}` and `{}`", other.key);
            let help = format!("remove `{key}` or `{}`", other.key);
            store.report_error(other.key, message, &help);
        }
        if !store.is_map(key) {
            if let Some(text) = store.secret(key).filter(|text| backend.is_url(text)) {
                return Some(at_url(backend, store, key, &text));
            }
            let message = format!("`{key}` does not say where {} is", backend.name);
            let help = format!("write `{key}: {{url: '{}'}}`", backend.example_url);
            store.report_error(key, message, &help);
            return Some(Place::Memory);
        }
        if is_memory {
            let message = format!("this store has both `memory` and `{key}`");
            store.report_error("memory", message, &format!("remove `memory` or `{key}`"));
        }
        let config = store.map(key, |map| backend.from_map(map, self.directory));
        Some(Place::Shared(config))
    }

    /// Each way to write `store`.
    fn help_for_store(self) -> String {
        let mut ways = vec!["`store: memory`".to_owned()];
        for backend in self.backends {
            let (key, url) = (backend.key, backend.example_url);
            ways.push(format!("`store: {url}`"));
            ways.push(format!("`store: {{{key}: {{url: '{url}'}}}}`"));
        }
        let last = ways.split_off(ways.len() - 1).concat();
        match ways.is_empty() {
            true => format!("write {last}"),
            false => format!("write {} or {last}", ways.join(", ")),
        }
    }

    /// Reports that a store does not say where it is.
    fn report_no_place(self, store: &Settings<'_>) {
        let keys = self.backends.iter().map(|backend| backend.key);
        let names: Vec<String> = keys.clone().map(|key| format!("`{key}`")).collect();
        let maps: Vec<String> = keys.map(|key| format!("`{key}: {{url: …}}`")).collect();
        let message = format!(
            "this store has neither {} nor `memory`",
            names.join(" nor ")
        );
        let help = format!("write {} below it, or `memory: true`", maps.join(" or "));
        let first = self.backends.first().map_or("memory", |first| first.key);
        store.report_error(first, message, &help);
    }
}

// === impl OtherStore ===

impl OtherStore {
    /// `stores`.
    pub(super) fn take_all(top: &Settings<'_>, known: Known<'_>) -> Vec<OtherStore> {
        let mut stores: Vec<OtherStore> = Vec::new();
        top.each("stores", |name, store| {
            if stores.len() == STORES_MAX {
                let message = format!("more than {STORES_MAX} stores");
                store.report_error("domains", message, "let one store serve more domains");
            }
            let other = OtherStore {
                name: name.to_owned(),
                domains: domains(store, &stores),
                place: known.place(store).unwrap_or_else(|| {
                    known.report_no_place(store);
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

#[cfg(test)]
mod tests;
