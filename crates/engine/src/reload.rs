//! Loads and reloads rules: each domain completely or not at all.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_core::{Sharing, Span};
use tollgate_rules::{
    Changes, Diagnostic, Loaded, ReadError, RuleSet, Source, read_regular_paths, warn_of_unread,
};
use tracing::{error, info, warn};

use crate::engine::Engine;
use crate::outcome::Outcome;
use crate::reload_history::ReloadRecord;
use crate::unshared::find_unshared;

/// Why rules are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// An operator asked for it, and wants to know what is wrong.
    Ordered,
    /// Something may have changed.
    Noticed,
}

/// Where rules come from, and how they are read.
pub trait RuleSource: Send + 'static {
    /// The files and directories of the rules.
    fn paths(&self) -> &[PathBuf];

    /// Other files to watch.
    fn other_paths(&self) -> &[PathBuf];

    /// Parses what was read.
    fn parse(&self, sources: &[Source]) -> Loaded;

    /// How instances share limits for which neither the rule nor its domain sets that.
    fn default_sharing(&self) -> Sharing;

    /// Checks the other files, after the rules were read again. Returns whether anything is
    /// different that [`RuleSource::check_fit`] looks at.
    fn check_others(&mut self, why: Why) -> bool;

    /// Warns about what does not fit the rules in effect, after these or the other files have
    /// changed.
    fn check_fit(&self, rules: &RuleSet);
}

/// Reads the rules of an engine and applies them.
pub struct Reloader<S> {
    engine: Arc<Engine>,
    source: S,
    /// A hash of the texts last read, or of the error if they could not be read; and the outcome.
    last: Option<(u64, Outcome)>,
    /// The rules without the domains that were removed, which stay in effect until the settings
    /// were read again.
    without_removed: Option<RuleSet>,
}

// === impl Engine ===

impl Engine {
    /// The latest [`RELOADS_KEPT`](crate::RELOADS_KEPT) loads of the rules, the latest first, each
    /// with the time since.
    pub fn recent_reloads(&self) -> Vec<(ReloadRecord, Span)> {
        self.reload_history.latest(self.stores().now())
    }
}

// === impl Reloader ===

impl<S: RuleSource> Reloader<S> {
    /// A reloader for the rules of `engine`. Reads nothing yet.
    pub const fn new(engine: Arc<Engine>, source: S) -> Reloader<S> {
        Reloader {
            engine,
            source,
            last: None,
            without_removed: None,
        }
    }

    /// The files and directories to watch.
    pub fn watched_paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.source.paths().iter().chain(self.source.other_paths())
    }

    /// Applies the first rules: those of the domains without errors.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if files cannot be read.
    pub fn load(&mut self) -> Result<Vec<Diagnostic>, ReadError> {
        let sources = read_regular_paths(self.source.paths())?;
        log_diagnostics(&warn_of_unread(self.source.paths()));
        let loaded = self.source.parse(&sources);
        log_diagnostics(&loaded.diagnostics);
        let diagnostics = loaded.diagnostics.clone();
        let outcome = self.apply(loaded);
        self.source.check_fit(&self.engine.rules());
        self.record(outcome, &diagnostics, None);
        self.last = Some((hash(&Ok(sources)), outcome));
        Ok(diagnostics)
    }

    /// Reads the rules again, and applies those of the domains without errors; then everything else
    /// that the source reads.
    pub fn reload(&mut self, why: Why) -> Outcome {
        let before = self.engine.rules.load_full();
        // Settings that name a new domain find its rules in effect, and a domain that is removed
        // has its rules until the settings were read again, which may remove the routes to it.
        let outcome = self.reload_rules(why);
        let has_new_settings = self.source.check_others(why);
        if let Some(rules) = self.without_removed.take() {
            self.engine.replace_rules(rules);
        }
        let active = self.engine.rules.load_full();
        if has_new_settings || !Arc::ptr_eq(&before, &active) {
            self.source.check_fit(&active.rules);
        }
        outcome
    }

    /// Reads the rules again, and applies them unless they are those of the last time.
    fn reload_rules(&mut self, why: Why) -> Outcome {
        let found = read_regular_paths(self.source.paths());
        let hash = hash(&found);
        // A failure is hashed too. Logging it again may write to a file beside the rules, which
        // would trigger the next reload, and so on.
        if let (Why::Noticed, Some((last, outcome))) = (why, self.last)
            && last == hash
        {
            return outcome;
        }
        let outcome = match found {
            Ok(sources) => {
                let loaded = self.source.parse(&sources);
                log_diagnostics(&loaded.diagnostics);
                let diagnostics = loaded.diagnostics.clone();
                let outcome = self.apply(loaded);
                self.record(outcome, &diagnostics, None);
                outcome
            }
            Err(error) => {
                let reason = reason(&error);
                error!(
                    %error,
                    reason,
                    "the rules cannot be read; the previous rules stay in effect"
                );
                let unreadable = match &reason {
                    Some(reason) => format!("{error}: {reason}"),
                    None => error.to_string(),
                };
                let outcome = Outcome::Failed;
                self.record(outcome, &[], Some(unreadable));
                outcome
            }
        };
        self.last = Some((hash, outcome));
        outcome
    }

    /// Counts a reload, and keeps how many rules and domains there are once it is done, and its
    /// diagnostics.
    fn record(&self, outcome: Outcome, diagnostics: &[Diagnostic], unreadable: Option<String>) {
        let engine = &self.engine;
        let counts = match &self.without_removed {
            Some(rules) => (rules.rule_count(), rules.domains().count()),
            None => engine.rule_and_domain_counts(),
        };
        engine.count_reload(outcome);
        let now = engine.stores().now();
        let record = ReloadRecord::new(now, outcome, counts, diagnostics, unreadable);
        engine.reload_history.push(record);
    }

    /// Has the rules of the domains without errors take effect, beside those of domains that were
    /// removed, for which [`Reloader::reload`] decides how long.
    fn apply(&mut self, loaded: Loaded) -> Outcome {
        let has_errors = loaded.has_errors();
        let former = self.engine.rules();
        let (rules, changes) = loaded.succeed(&former);
        let (count, domains) = (rules.rule_count(), rules.domains().count());
        self.check_stores(&rules);
        self.engine
            .replace_rules(rules.with_other_domains_of(&former));
        self.without_removed = (!changes.removed.is_empty()).then_some(rules);
        log_changes(&changes);
        if has_errors {
            warn!(
                rules = count,
                domains, "rules in effect, without those that have errors"
            );
            return Outcome::Failed;
        }
        info!(rules = count, domains, "rules in effect");
        Outcome::InEffect
    }

    /// Warns about rules and stores that are valid on their own but do not fit together.
    fn check_stores(&self, rules: &RuleSet) {
        let stores = self.engine.stores();
        for (domain, named) in stores.chosen_stores() {
            if !rules.has_domain(domain.as_bytes()) {
                let store = &named.name;
                warn!(
                    domain,
                    store, "the settings name a domain that has no rules"
                );
            }
        }
        let short = rules.rules().filter_map(|view| {
            let is_shared = stores.of(Some(&view.rule.domain)).is_shared();
            let shortage = view.limit.and_then(|limit| stores.shortage(&limit));
            Some((view, shortage.filter(|_| !is_shared)?))
        });
        // One line, and not one for each rule at each reload.
        let least = short.min_by_key(|(_, shortage)| shortage.keys);
        if let Some((view, shortage)) = least {
            let (domain, rule) = (&view.rule.domain, view.rule.shown());
            let (keys, max_keys, help) = (shortage.keys, shortage.max_keys, shortage.help());
            warn!(
                domain,
                rule,
                keys,
                max_keys,
                help,
                "the memory has room for fewer keys of this rule than it is meant for: live keys \
                 may be evicted"
            );
        }
        let in_memory = |domain: &str| {
            let named = stores.of(Some(domain));
            (!named.is_shared()).then_some(&*named.name)
        };
        for unshared in find_unshared(rules, self.source.default_sharing(), in_memory) {
            let (domain, rule) = (&unshared.domain, unshared.first.rule.shown());
            warn!(domain, rule, "{unshared}");
        }
    }
}

/// Logs a record for each error and each warning.
pub fn log_diagnostics(diagnostics: &[Diagnostic]) {
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

/// Logs a line for each limit that was changed or removed, and for each domain that was added,
/// removed or kept because of errors.
fn log_changes(changes: &Changes) {
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
    // A warning, because it may be a slip in a key.
    for rule in &changes.removed_rules {
        let (domain, rule) = (&rule.domain, rule.shown());
        warn!(domain, rule, "rule removed: no request meets its limit");
    }
    for domain in &changes.kept {
        warn!(domain, "domain stays as it was");
    }
    for domain in &changes.without_rules {
        error!(
            domain,
            "no rules of the domain are in effect, because of errors: its requests meet no limit"
        );
    }
    for domain in &changes.added {
        info!(domain, "domain added");
    }
    // A warning, because its requests are no longer limited and a file may have been removed
    // accidentally.
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
