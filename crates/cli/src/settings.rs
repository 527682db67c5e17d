//! A service's settings and its rules, read together as the service reads them.

use std::path::Path;

use tollgate_core::Mode;
use tollgate_rules::{Loaded, ReadError, read_paths};
use tollgate_server::{Config, ConfigError, Place};

use crate::complaint::with_reasons;

/// Settings, and the rules that they name.
pub(crate) struct Service {
    pub(crate) config: Config,
    pub(crate) loaded: Loaded,
    /// How many files the rules are.
    pub(crate) files: usize,
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

    /// What the settings and the rules say, each right by itself, and not together.
    pub(crate) fn notes(&self) -> Vec<String> {
        let rules = &self.loaded.rules;
        let mut notes = Vec::new();
        for store in &self.config.stores {
            for domain in &store.domains {
                if !rules.domains().any(|known| known == domain) {
                    let name = &store.name;
                    notes.push(format!(
                        "the store `{name}` serves the domain `{domain}`, which has no rules"
                    ));
                }
            }
        }
        // What the settings say of all rules is meant for those in Redis.
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
        notes
    }
}

// === impl Unread ===

impl Unread {
    /// What is wrong, with everything that led to it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Unread::Settings(error) => with_reasons(error),
            Unread::Rules(error) => with_reasons(error),
        }
    }
}
