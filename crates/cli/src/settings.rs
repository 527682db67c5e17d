//! A service's settings and its rules, read as the service reads them.

use std::path::Path;
use std::sync::Arc;

use tollgate_backends::{AnyBackend, backend_names};
use tollgate_core::{Limit, Mode, Sharing};
use tollgate_rules::{Loaded, ReadError, RuleView, read_paths};
use tollgate_server::{Config, ConfigError, Place, find_unlimited};

use crate::message::{Reason, with_causes};

/// Settings, and the rules that they name.
pub(crate) struct Service {
    pub(crate) config: Config,
    pub(crate) loaded: Loaded,
    /// How many rules files there are.
    pub(crate) files: usize,
}

/// A valid limit that gains nothing from its mode.
pub(crate) struct Hint {
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
    pub(crate) message: String,
}

/// Why a service's settings or rules cannot be read.
pub(crate) enum Unread {
    Settings(ConfigError),
    Rules(ReadError),
}

// === impl Service ===

impl Service {
    /// Reads a settings file, and the rules that it names.
    pub(crate) fn read(path: &Path) -> Result<Service, Unread> {
        let config = Config::read(path).map_err(Unread::Settings)?;
        let sources = read_paths(&config.rules).map_err(Unread::Rules)?;
        Ok(Service {
            loaded: config.load(&sources),
            files: sources.len(),
            config,
        })
    }

    /// Warnings about settings and rules that are valid on their own but do not fit together.
    pub(crate) fn notes(&self) -> Vec<String> {
        let rules = &self.loaded.rules;
        let has_rules = |domain: &str| rules.domains().any(|known| known == domain);
        let (auth, gateway) = (self.config.auth.as_ref(), self.config.gateway.as_ref());
        let mut notes: Vec<String> = find_unlimited(auth, gateway, rules).into_iter().collect();
        for store in &self.config.stores {
            for domain in &store.domains {
                if !has_rules(domain) {
                    let name = &store.name;
                    notes.push(format!(
                        "the store `{name}` serves the domain `{domain}`, which has no rules"
                    ));
                }
            }
        }
        let mut places = self.config.stores.iter().map(|store| &store.place);
        let is_alone = places.all(|place| *place == Place::Memory);
        if self.config.sharing != Sharing::default()
            && self.config.store == Place::Memory
            && is_alone
        {
            notes.push(format!(
                "`mode`, `on_store_error` and `instances` of the settings have no effect: no store \
                 is in {}",
                backend_names()
            ));
        }
        // The default mode of the settings is meant for rules in shared stores, so it needs no
        // warning.
        let expected = [Mode::Strict, self.config.sharing.mode];
        for view in rules.rules() {
            let (domain, mode) = (&view.rule.domain, view.sharing.mode);
            let (name, place) = self.config.store_of(domain);
            if view.limit.is_some() && !expected.contains(&mode) && *place == Place::Memory {
                let rule = view.rule.shown();
                notes.push(format!(
                    "`mode: {mode}` of `{rule}` in `{domain}` has no effect: its store, `{name}`, \
                     is in memory"
                ));
            }
        }
        notes.extend(self.mode_warning());
        notes
    }

    /// A hint for each limit that is too small to be leased.
    pub(crate) fn hints(&self) -> Vec<Hint> {
        let hints = self.loaded.rules.rules().filter_map(|view| {
            let (domain, rule) = (&view.rule.domain, view.rule.shown());
            let backend = self.backend_of(domain)?;
            let too_small = too_small_to_lease(&view.limit?, view.sharing.mode, backend)?;
            let name = backend.name;
            let message = format!(
                "`{rule}` in `{domain}` is too small to be leased, so {name} is asked for each \
                 decision: {too_small}"
            );
            Some(Hint {
                file: view.file,
                line: view.line,
                message,
            })
        });
        hints.collect()
    }

    /// The backend of a domain's store, if it is shared.
    fn backend_of(&self, domain: &str) -> Option<AnyBackend> {
        match self.config.store_of(domain).1 {
            Place::Memory => None,
            Place::Shared(config) => Some(config.backend()),
        }
    }

    /// A warning about the limits that the settings' mode does not suit. If a rule or a domain sets
    /// the mode, a diagnostic already reports it.
    fn mode_warning(&self) -> Option<String> {
        let mode = self.config.sharing.mode;
        let is_reported = |domain: &str| {
            let mut diagnostics = self.loaded.diagnostics.iter();
            diagnostics.any(|found| {
                found.code == "unsuitable-mode" && found.domain.as_deref() == Some(domain)
            })
        };
        let mut unsuited = self.loaded.rules.rules().filter(|view| {
            let (domain, holds) = (&view.rule.domain, view.sharing.mode);
            holds == mode
                && self.backend_of(domain).is_some()
                && !suits(mode, view)
                && !is_reported(domain)
        });
        let first = unsuited.next()?;
        let (rule, domain) = (first.rule.shown(), &first.rule.domain);
        let which = match unsuited.count() {
            0 => format!("`{rule}` in `{domain}`, which is"),
            others => format!(
                "{} limits, the first `{rule}` in `{domain}`, which are",
                others + 1
            ),
        };
        Some(format!(
            "`mode: {mode}` of the settings does not suit {which} decided strictly"
        ))
    }
}

/// The mode in which a backend decides a limit whose rule has the mode `mode`.
pub(crate) fn mode_in_effect(limit: &Limit, mode: Mode, backend: AnyBackend) -> Mode {
    match mode.suits(limit) && too_small_to_lease(limit, mode, backend).is_none() {
        true => mode,
        false => Mode::Strict,
    }
}

/// Why a limit with the mode `leased` is not leased, if it is too small. A limit of 0 units has
/// nothing to lease.
pub(crate) fn too_small_to_lease(limit: &Limit, mode: Mode, backend: AnyBackend) -> Option<String> {
    let (capacity, needed) = (limit.capacity(), backend.lease_capacity_min);
    let is_leased = mode == Mode::Leased && mode.suits(limit);
    let is_too_small = is_leased && (1..needed).contains(&capacity);
    is_too_small.then(|| format!("it holds {capacity} units, and a lease needs {needed}"))
}

/// Whether the rule can be decided in this mode.
fn suits(mode: Mode, view: &RuleView) -> bool {
    view.limit.is_none_or(|limit| mode.suits(&limit))
}

// === impl Unread ===

impl Unread {
    /// The error with its causes.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Unread::Settings(error @ ConfigError::Unreadable(_)) => Reason::Message(format!(
                "{}; name the settings file with `--config PATH`",
                with_causes(error)
            )),
            Unread::Settings(error @ ConfigError::Invalid(_)) => {
                Reason::Diagnostics(error.to_string())
            }
            Unread::Settings(error) => Reason::Message(with_causes(error)),
            Unread::Rules(error) => {
                Reason::Message(format!("the setting `rules`: {}", with_causes(error)))
            }
        }
    }
}
