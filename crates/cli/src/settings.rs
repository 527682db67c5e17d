//! A service's settings and its rules, read as the service reads them.

use std::path::Path;
use std::sync::Arc;

use tollgate_backends::AnyBackend;
use tollgate_core::{Limit, Mode};
use tollgate_rules::{Diagnostic, Loaded, ReadError, RuleView, Source, read_paths};
use tollgate_server::{Config, ConfigError, Place};

use crate::message::{Reason, with_causes};

mod warnings;
mod without_effect;

/// Settings, and the rules that they name.
pub(crate) struct Service {
    pub(crate) config: Config,
    pub(crate) loaded: Loaded,
    /// The settings file.
    file: Source,
    /// The rules files.
    pub(crate) sources: Vec<Source>,
}

/// What is valid, and may not be what is meant: a limit that gains nothing from its mode, or
/// settings that are not checked.
pub(crate) struct Hint {
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
    pub(crate) message: String,
}

/// Why a service's settings or rules cannot be read.
pub(crate) enum Unread {
    Settings(ConfigError),
    /// Also each entry of `rules` that is to blame.
    Rules(ReadError, Vec<Diagnostic>),
}

// === impl Service ===

impl Service {
    /// Reads a settings file, and the rules that it names.
    pub(crate) fn read(path: &Path) -> Result<Service, Unread> {
        let config = Config::read(path).map_err(Unread::Settings)?;
        let unread = |error| Unread::Settings(ConfigError::Unreadable(error));
        let file = read_paths(&[path.to_owned()]).map_err(unread)?;
        let unread = |error| Unread::Rules(error, config.unreadable_rules());
        let sources = read_paths(&config.rules).map_err(unread)?;
        Ok(Service {
            loaded: config.load(&sources),
            file: file.into_iter().next().expect("one file was asked for"),
            sources,
            config,
        })
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

/// Why the rules cannot be read: the entries of `rules` that are to blame, or the error itself.
pub(crate) fn unreadable_rules(error: &ReadError, found: &[Diagnostic]) -> Reason {
    match found {
        [] => Reason::Message(format!("the setting `rules`: {}", with_causes(error))),
        found => Reason::Diagnostics(found.iter().map(Diagnostic::to_string).collect()),
    }
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
            Unread::Rules(error, found) => unreadable_rules(error, found),
        }
    }
}
