//! Reads rules, at the start and again: for each domain at once or not at all.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_core::{Limit, Mode};
use tollgate_rules::{Changes, Diagnostic, Loaded, ReadError, RuleSet, Source, read_paths};
use tracing::{error, info, warn};

use crate::config::Config;
use crate::engine::Engine;
use crate::metrics::Metrics;
use settings::SettingsFile;

mod settings;

/// Why rules are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Somebody wants it, and to be told what is wrong.
    Ordered,
    /// Something may have changed.
    Noticed,
}

/// What came of reading rules again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is in force, changed or not.
    InForce,
    /// Some or all of it has mistakes, and what those concern stays as it was; or the files cannot
    /// be read, and everything stays. The log has the reasons.
    Failed,
}

/// Knows where the rules are, and what they said the last time.
pub(crate) struct Reader {
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    config: Config,
    /// What was last found, the texts or that they cannot be read, as a hash; and what came of it.
    seen: Option<(u64, Outcome)>,
    settings: SettingsFile,
}

// === impl Reader ===

impl Reader {
    pub(crate) fn new(engine: Arc<Engine>, metrics: Arc<Metrics>, config: Config) -> Reader {
        Reader {
            engine,
            metrics,
            config,
            seen: None,
            settings: SettingsFile::new(),
        }
    }

    /// What is read: the rules, and the settings to tell what changed in them.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.config.rules.iter().chain(&self.config.file)
    }

    /// Puts the first rules in force: those of the domains without a mistake.
    ///
    /// # Errors
    ///
    /// That files cannot be read.
    pub(crate) fn first(&mut self) -> Result<Vec<Diagnostic>, ReadError> {
        let sources = read_paths(&self.config.rules)?;
        let loaded = self.config.load(&sources);
        tell(&loaded.diagnostics);
        let diagnostics = loaded.diagnostics.clone();
        let outcome = self.succeed(loaded);
        self.seen = Some((hash(&Ok(sources)), outcome));
        Ok(diagnostics)
    }

    /// Reads the rules again, and puts what is good in force.
    pub(crate) fn again(&mut self, why: Why) -> Outcome {
        if let Some(file) = &self.config.file {
            self.settings.look(file, &self.config, why);
        }
        let found = read_paths(&self.config.rules);
        let hash = hash(&found);
        // Also of a failure: the log may stand beside the rules, and then to tell it is a change.
        if let (Why::Noticed, Some((seen, outcome))) = (why, self.seen)
            && seen == hash
        {
            return outcome;
        }
        let outcome = match found {
            Ok(sources) => {
                let loaded = self.config.load(&sources);
                tell(&loaded.diagnostics);
                self.succeed(loaded)
            }
            Err(error) => {
                let reason = reason(&error);
                error!(%error, reason, "the rules cannot be read; the old ones stay in force");
                self.metrics.reloaded("failed");
                Outcome::Failed
            }
        };
        self.seen = Some((hash, outcome));
        outcome
    }

    fn succeed(&self, loaded: Loaded) -> Outcome {
        let has_errors = loaded.has_errors();
        let (rules, changes) = loaded.succeed(&self.engine.rules());
        let (count, domains) = (rules.rules().count(), rules.domains().count());
        self.tell_stores(&rules);
        self.engine.replace_rules(rules);
        self.metrics.in_force(count, domains);
        tell_changes(&changes);
        if has_errors {
            self.metrics.reloaded("failed");
            warn!(
                rules = count,
                domains, "rules in force, without those that have mistakes"
            );
            return Outcome::Failed;
        }
        self.metrics.reloaded("ok");
        info!(rules = count, domains, "rules in force");
        Outcome::InForce
    }

    /// Warns about what the rules and the stores say, each by itself right, and not together.
    fn tell_stores(&self, rules: &RuleSet) {
        let stores = self.engine.stores();
        for (domain, named) in stores.chosen() {
            if !rules.domains().any(|known| known == domain) {
                let store = &named.name;
                warn!(
                    domain,
                    store, "the settings name a domain that has no rules"
                );
            }
        }
        for view in rules.rules() {
            let domain = &view.rule.domain;
            let max_bytes = view
                .limit
                .and_then(|limit| stores.memory().max_bytes_for(&limit));
            if let (Some(max_bytes), false) = (max_bytes, stores.of(Some(domain)).is_shared()) {
                let rule = view.rule.shown();
                warn!(
                    domain,
                    rule,
                    max_bytes,
                    "the memory is too small for `max_keys` keys of this rule: live keys may be \
                     evicted before there are so many; set `memory.max_bytes`"
                );
            }
        }
        // What the settings say of all rules was meant for those in Redis.
        let holds = [Mode::Strict, self.config.sharing.mode];
        for view in rules.rules() {
            let (domain, mode) = (&view.rule.domain, view.sharing.mode);
            if !holds.contains(&mode) && !stores.of(Some(domain)).is_shared() {
                let (rule, mode) = (view.rule.shown(), mode.to_string());
                warn!(
                    domain,
                    rule, mode, "the mode has no effect: the store is in memory"
                );
            }
        }
    }
}

/// The limits in the rules files as far as they can be read: what the store in memory is sized for.
/// Mistakes are told when the rules are put in effect.
pub(crate) fn known_limits(config: &Config) -> Vec<Limit> {
    let sources = read_paths(&config.rules).unwrap_or_default();
    let rules = config.load(&sources).rules;
    rules.rules().filter_map(|view| view.limit).collect()
}

fn tell(diagnostics: &[Diagnostic]) {
    for found in diagnostics {
        let (file, line, column) = (&found.file, found.line, found.column);
        let (code, message) = (found.code, &found.message);
        let help = found.help.as_deref().unwrap_or_default();
        if found.is_error() {
            error!(file, line, column, code, help, "{message}");
        } else {
            warn!(file, line, column, code, help, "{message}");
        }
    }
}

fn tell_changes(changes: &Changes) {
    for changed in &changes.changed {
        let (domain, rule) = (&changed.rule.domain, changed.rule.shown());
        let (from, to) = (&changed.from, &changed.to);
        info!(
            domain,
            rule,
            ?from,
            ?to,
            "limit changed; what was consumed is kept"
        );
    }
    for domain in &changes.kept {
        warn!(domain, "domain stays as it was");
    }
    for domain in &changes.added {
        info!(domain, "domain added");
    }
    // Its requests are not limited from now on, and a file may have gone by mistake.
    for domain in &changes.removed {
        warn!(domain, "domain removed: its requests meet no limit");
    }
}

fn reason(error: &ReadError) -> Option<String> {
    std::error::Error::source(error).map(ToString::to_string)
}

fn hash(found: &Result<Vec<Source>, ReadError>) -> u64 {
    let mut hasher = DefaultHasher::new();
    match found {
        Ok(sources) => {
            for source in sources {
                source.name.hash(&mut hasher);
                source.text.hash(&mut hasher);
            }
        }
        Err(error) => (error.to_string(), reason(error)).hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
