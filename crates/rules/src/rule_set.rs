//! All rules in effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::build::build_domain;
use crate::check::{check_domain, check_fit};
use crate::diagnostic::Diagnostic;
use crate::domain::Domain;
use crate::findings::{Findings, Rejected};
use crate::options::Options;
use crate::parse::parse_sources;
use crate::reload::Removed;
use crate::source::Source;
use crate::written_limit::WrittenLimit;

/// The rules of any number of domains. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    pub(crate) domains: Arc<BTreeMap<Arc<str>, Arc<Domain>>>,
    /// Rules that were removed.
    pub(crate) removed: Arc<Removed>,
}

/// What came of reading files.
#[derive(Clone, Debug)]
#[must_use = "rules that are not put into effect limit nothing"]
pub struct Loaded {
    /// The domains without an error.
    pub rules: RuleSet,
    /// All diagnostics of all files, by file and line.
    pub diagnostics: Vec<Diagnostic>,
    pub(crate) rejected: Rejected,
}

// === impl RuleSet ===

impl RuleSet {
    /// Reads rules and reports every error in them.
    ///
    /// A domain with an error is left out; the others are loaded. The caller decides what follows:
    /// a check fails, a first start may fail, a reload keeps the old domain ([`Loaded::succeed`]).
    pub fn parse(sources: &[Source], options: &Options) -> Loaded {
        RuleSet::parse_for(sources, options, &|_| None)
    }

    /// As [`RuleSet::parse`], for stores that cannot keep every limit. `unfit` gets each limit,
    /// and returns why the store of its domain cannot keep it, which is then an error.
    pub fn parse_for(
        sources: &[Source],
        options: &Options,
        unfit: &dyn Fn(&WrittenLimit<'_>) -> Option<String>,
    ) -> Loaded {
        let mut findings = Findings::of(sources);
        let drafts = parse_sources(sources, options, &mut findings);
        for draft in &drafts {
            findings.enter((!draft.is_nameless()).then_some(&draft.name.value));
            check_domain(draft, options.sharing, &mut findings);
            check_fit(draft, options.sharing, unfit, &mut findings);
        }
        let good = drafts
            .iter()
            .filter(|draft| !draft.is_nameless() && !findings.is_rejected(&draft.name.value));
        let names = sources.iter().map(|source| Arc::from(&*source.name));
        let files: Vec<Arc<str>> = names.collect();
        let domains = good.map(|draft| {
            let domain = build_domain(draft, options.sharing, &files);
            let name = Arc::clone(&domain.name);
            (name, Arc::new(domain))
        });
        let rules = RuleSet {
            domains: Arc::new(domains.collect()),
            removed: Arc::default(),
        };
        let (diagnostics, rejected) = findings.finish(sources);
        Loaded {
            rules,
            diagnostics,
            rejected,
        }
    }

    /// The names of all domains, sorted.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(|name| &**name)
    }

    /// Whether there is a domain of this name. Found in the logarithm of their number, however many
    /// there are.
    pub fn has_domain(&self, name: &[u8]) -> bool {
        self.domain_of_bytes(name).is_some()
    }

    /// Whether there are no domains.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// Whether a leaky bucket of a domain may delay its requests.
    pub fn may_delay(&self, domain: &[u8]) -> bool {
        self.domain_of_bytes(domain)
            .is_some_and(|domain| domain.has_leaky_bucket)
    }

    fn domain_of_bytes(&self, name: &[u8]) -> Option<&Domain> {
        str::from_utf8(name).ok().and_then(|name| self.domain(name))
    }

    pub(crate) fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name).map(|domain| &**domain)
    }
}

// === impl Loaded ===

impl Loaded {
    /// Whether the rules of this domain have an error, so that they are not among
    /// [`Loaded::rules`].
    pub fn has_errors_in(&self, domain: &str) -> bool {
        self.rejected.domains.contains(domain)
    }

    /// Whether anything was left out.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
