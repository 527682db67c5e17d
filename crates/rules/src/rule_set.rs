//! All rules that are in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::{Limit, Sharing};

use crate::build::built;
use crate::check::{check_fit, checked};
use crate::diagnostic::Diagnostic;
use crate::domain::Domain;
use crate::findings::{Findings, Spoilt};
use crate::parse::parsed;
use crate::reload::Removed;
use crate::source::Source;

/// How files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Several documents may add descriptors to one domain. Otherwise a domain that is there twice
    /// is a mistake.
    pub merge_domains: bool,
    /// How nodes share a limit, as far as neither its rule nor its domain says so.
    pub sharing: Sharing,
}

/// The rules of any number of domains. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    pub(crate) domains: Arc<BTreeMap<Arc<str>, Arc<Domain>>>,
    /// Rules that were there once.
    pub(crate) removed: Arc<Removed>,
}

/// What came of reading files.
#[derive(Clone, Debug)]
#[must_use = "rules that nobody takes over limit nothing"]
pub struct Loaded {
    /// The domains without an error.
    pub rules: RuleSet,
    /// Every mistake of all files, by file and line.
    pub diagnostics: Vec<Diagnostic>,
    pub(crate) spoilt: Spoilt,
}

// === impl RuleSet ===

impl RuleSet {
    /// Reads rules, and reports every mistake in them.
    ///
    /// A domain with an error in it is left out; the others are there. What follows, the caller
    /// decides: a check fails, a first start may refuse, a reload keeps the old domain
    /// ([`Loaded::succeed`]).
    pub fn parse(sources: &[Source], options: &Options) -> Loaded {
        RuleSet::parse_for(sources, options, &|_, _| None)
    }

    /// The same for stores that cannot keep every limit. `unfit` is asked with a domain's name and
    /// each of its limits, and says why its store cannot keep it; that is an error of the limit.
    pub fn parse_for(
        sources: &[Source],
        options: &Options,
        unfit: &dyn Fn(&str, &Limit) -> Option<String>,
    ) -> Loaded {
        let mut findings = Findings::of(sources);
        let drafts = parsed(sources, options, &mut findings);
        for draft in &drafts {
            findings.enter((!draft.is_nameless()).then_some(&draft.name.value));
            checked(draft, options.sharing, &mut findings);
            check_fit(
                &draft.descriptors,
                &|limit| unfit(&draft.name.value, limit),
                &mut findings,
            );
        }
        let good = drafts
            .iter()
            .filter(|draft| !draft.is_nameless() && !findings.is_spoilt(&draft.name.value));
        let names = sources.iter().map(|source| Arc::from(&*source.name));
        let files: Vec<Arc<str>> = names.collect();
        let domains = good.map(|draft| {
            let domain = built(draft, options.sharing, &files);
            let name = Arc::clone(&domain.name);
            (name, Arc::new(domain))
        });
        let rules = RuleSet {
            domains: Arc::new(domains.collect()),
            removed: Arc::default(),
        };
        let (diagnostics, spoilt) = findings.finish(sources);
        Loaded {
            rules,
            diagnostics,
            spoilt,
        }
    }

    /// The names of all domains, sorted.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(|name| &**name)
    }

    /// Whether there is no domain.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    pub(crate) fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name).map(|domain| &**domain)
    }
}

// === impl Loaded ===

impl Loaded {
    /// Whether anything was left out.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
