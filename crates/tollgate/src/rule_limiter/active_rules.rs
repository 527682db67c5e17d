//! The rules in effect, which can be replaced during decisions.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use tollgate_core::{ChargeDenied, Cost, Descriptor, Entry, Escaped, Request};
use tollgate_rules::{Changes, Diagnostic, Loaded, RuleSet, Source, read_paths};

use super::error::{InvalidRules, LoadError, RuleError};

/// The rules in effect.
#[derive(Debug)]
pub(crate) struct ActiveRules {
    rules: ArcSwap<RuleSet>,
    /// Those about the rules in effect.
    warnings: ArcSwap<Vec<Diagnostic>>,
    /// Held during a reload.
    reload: Mutex<()>,
    on_unknown_domain: OnUnknownDomain,
}

/// What happens to a request whose domain has no rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnUnknownDomain {
    /// It is allowed, as in Envoy's rate limit service. The default.
    #[default]
    Allow,
    /// It is an error: [`RuleError::UnknownDomain`].
    Error,
}

// === impl ActiveRules ===

impl ActiveRules {
    pub(crate) fn new(loaded: Loaded) -> Result<ActiveRules, InvalidRules> {
        let Loaded {
            rules, diagnostics, ..
        } = valid(loaded)?;
        Ok(ActiveRules {
            rules: ArcSwap::from_pointee(rules),
            warnings: ArcSwap::from_pointee(diagnostics),
            reload: Mutex::default(),
            on_unknown_domain: OnUnknownDomain::default(),
        })
    }

    pub(crate) fn on_unknown_domain(self, on_unknown_domain: OnUnknownDomain) -> ActiveRules {
        ActiveRules {
            on_unknown_domain,
            ..self
        }
    }

    pub(crate) fn load(&self) -> Guard<Arc<RuleSet>> {
        self.rules.load()
    }

    /// The rules for a request, unless there have to be some for its domain and there are none.
    pub(crate) fn load_for(&self, request: &Request<'_>) -> Result<Guard<Arc<RuleSet>>, RuleError> {
        let rules = self.rules.load();
        let must_be_known = self.on_unknown_domain == OnUnknownDomain::Error;
        if must_be_known && !rules.has_domain(request.domain) {
            let domain = Escaped(request.domain).to_string();
            return Err(RuleError::UnknownDomain { domain });
        }
        Ok(rules)
    }

    /// Replaces the rules by what `load` gives, unless that has errors.
    ///
    /// One reload ends before another reads anything: what was read earlier must not replace what
    /// was read later, and two at once would give different limits the same revision.
    pub(crate) fn replace<E: From<InvalidRules>>(
        &self,
        load: impl FnOnce() -> Result<Loaded, E>,
    ) -> Result<Changes, E> {
        let _one = self.reload.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = valid(load()?)?;
        let warnings = loaded.diagnostics.clone();
        let (rules, changes) = loaded.succeed(&self.rules.load());
        self.rules.store(rules.into());
        self.warnings.store(warnings.into());
        Ok(changes)
    }

    /// What is doubtful about the rules in effect.
    pub(crate) fn warnings(&self) -> Vec<Diagnostic> {
        Vec::clone(&self.warnings.load())
    }
}

fn valid(loaded: Loaded) -> Result<Loaded, InvalidRules> {
    match loaded.has_errors() {
        true => Err(InvalidRules {
            diagnostics: loaded.diagnostics,
        }),
        false => Ok(loaded),
    }
}

/// A request for one unit of one descriptor.
pub(crate) fn request_of<'r>(
    domain: &'r str,
    entries: &'r [(impl AsRef<[u8]>, impl AsRef<[u8]>)],
) -> Request<'r> {
    let entries = entries.iter().map(|(key, value)| Entry {
        key: key.as_ref(),
        value: value.as_ref(),
    });
    Request {
        domain: domain.as_bytes(),
        descriptors: vec![Descriptor {
            entries: entries.collect(),
            ..Descriptor::default()
        }]
        .into(),
        cost: Cost::ONE,
        charge_denied: ChargeDenied::Never,
    }
}

/// What is in files and directories of rules.
pub(crate) fn read(paths: &[impl AsRef<Path>]) -> Result<Vec<Source>, LoadError> {
    if paths.is_empty() {
        return Err(LoadError::NoPaths);
    }
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().into()).collect();
    read_paths(&paths).map_err(LoadError::Read)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use tollgate_rules::Options;

    use super::*;

    fn rules(limit: &str) -> Loaded {
        let text = format!("{{domain: d, descriptors: [{{key: k, rate_limit: {limit}}}]}}");
        RuleSet::parse(&[Source::new("rules", text)], &Options::default())
    }

    /// Rules that take long to read do not replace those that were read after them.
    #[test]
    fn of_two_reloads_the_later_wins() {
        let active = ActiveRules::new(rules("1/hour")).unwrap();
        thread::scope(|scope| {
            let slow = active.replace(|| {
                let later = || active.replace(|| Ok::<_, InvalidRules>(rules("3/hour")));
                scope.spawn(move || later().unwrap());
                Ok::<_, InvalidRules>(rules("2/hour"))
            });
            slow.unwrap();
        });
        let rules = active.load();
        let limits: Vec<u32> = rules.limits().map(|limit| limit.capacity()).collect();
        assert_eq!(limits, [3]);
    }
}
