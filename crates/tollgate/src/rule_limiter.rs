//! The limits of a rules file.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use arc_swap::ArcSwap;
use tollgate_core::{
    Answer, ChargeDenied, Clock, Cost, Descriptor, Entry, Escaped, Request, StoreError,
};
use tollgate_memory::{Memory, SystemClock};
use tollgate_rules::{
    Attempt, Changes, Diagnostic, Loaded, Options, ReadError, RuleSet, Source, read_paths,
};

/// The limits of a rules file, which can be replaced while they are in use.
///
/// # Example
///
/// ```
/// use tollgate::RuleLimiter;
///
/// let limiter = RuleLimiter::from_yaml("
/// domain: shop
/// descriptors:
///   - key: user
///     rate_limit: 2/minute
/// ")?;
/// assert!(limiter.check("shop", &[("user", "ann")])?.is_allowed());
/// assert!(limiter.check("shop", &[("user", "ann")])?.is_allowed());
/// let third = limiter.check("shop", &[("user", "ann")])?;
/// let by = third.denied_by().expect("two a minute");
/// assert_eq!((by.rule.shown(), by.limit.count()), ("user", 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RuleLimiter<C = SystemClock> {
    store: Memory<C>,
    rules: ArcSwap<RuleSet>,
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

/// Why there is no decision. Nothing was charged.
#[derive(Debug)]
#[non_exhaustive]
pub enum RuleError {
    /// There are no rules for this domain.
    UnknownDomain {
        /// The domain, with bytes that are not text escaped.
        domain: String,
    },
    /// The store failed.
    Store(StoreError),
}

/// Why rules cannot be loaded from files.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The files cannot be read.
    Read(ReadError),
    /// The rules in them cannot be used.
    Invalid(InvalidRules),
}

/// Invalid rules: every error in them, with its position and what to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InvalidRules {
    /// The errors, and warnings.
    pub diagnostics: Vec<Diagnostic>,
}

// === impl RuleLimiter ===

impl RuleLimiter {
    /// The rules in `text`, with room for a million keys on this machine's clock.
    ///
    /// # Errors
    ///
    /// [`InvalidRules`] if the rules have errors; warnings are not errors.
    pub fn from_yaml(text: &str) -> Result<RuleLimiter, InvalidRules> {
        RuleLimiter::sized(RuleSet::parse(
            &[Source::new("rules", text)],
            &Options::default(),
        ))
    }

    /// The rules in files, and in the `*.yaml` and `*.yml` files of directories, with room for a
    /// million keys on this machine's clock.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the files cannot be read, or the rules have errors.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use tollgate::RuleLimiter;
    ///
    /// let limiter = RuleLimiter::from_paths(&["/etc/tollgate/rules.d"])?;
    /// // Later, when the files have changed:
    /// let changes = limiter.reload_paths(&["/etc/tollgate/rules.d"])?;
    /// # Ok::<(), tollgate::LoadError>(())
    /// ```
    pub fn from_paths(paths: &[impl AsRef<Path>]) -> Result<RuleLimiter, LoadError> {
        let sources = read(paths)?;
        let loaded = RuleSet::parse(&sources, &Options::default());
        RuleLimiter::sized(loaded).map_err(LoadError::Invalid)
    }

    fn sized(loaded: Loaded) -> Result<RuleLimiter, InvalidRules> {
        let limits: Vec<_> = loaded.rules.rules().filter_map(|rule| rule.limit).collect();
        RuleLimiter::from_loaded(loaded, Memory::builder().limits(&limits).build())
    }
}

impl<C: Clock> RuleLimiter<C> {
    /// The rules in `sources`, counted in `store`, which may have another size or clock. If the
    /// limits are known, size it with [`crate::MemoryBuilder::limits`].
    ///
    /// # Errors
    ///
    /// [`InvalidRules`] if the rules have errors.
    pub fn from_sources(
        sources: &[Source],
        store: Memory<C>,
    ) -> Result<RuleLimiter<C>, InvalidRules> {
        RuleLimiter::from_loaded(RuleSet::parse(sources, &Options::default()), store)
    }

    fn from_loaded(loaded: Loaded, store: Memory<C>) -> Result<RuleLimiter<C>, InvalidRules> {
        if loaded.has_errors() {
            return Err(InvalidRules {
                diagnostics: loaded.diagnostics,
            });
        }
        Ok(RuleLimiter {
            store,
            rules: ArcSwap::from_pointee(loaded.rules),
            on_unknown_domain: OnUnknownDomain::default(),
        })
    }

    /// Sets what happens to a request whose domain has no rules.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{OnUnknownDomain, RuleError, RuleLimiter};
    ///
    /// let rules = "{domain: shop, descriptors: [{key: user, rate_limit: 2/minute}]}";
    /// let limiter = RuleLimiter::from_yaml(rules)?.on_unknown_domain(OnUnknownDomain::Error);
    /// let misspelled = limiter.check("shpo", &[("user", "ann")]);
    /// assert!(matches!(misspelled, Err(RuleError::UnknownDomain { .. })));
    /// # Ok::<(), tollgate::InvalidRules>(())
    /// ```
    #[must_use]
    pub fn on_unknown_domain(self, on_unknown_domain: OnUnknownDomain) -> RuleLimiter<C> {
        RuleLimiter {
            on_unknown_domain,
            ..self
        }
    }

    /// Decides on one unit for one descriptor in `domain`. Its entries go from the general to the
    /// specific, as the rules are nested; keys and values are text or other bytes.
    ///
    /// # Errors
    ///
    /// As [`RuleLimiter::decide`].
    pub fn check(
        &self,
        domain: &str,
        entries: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<Answer, RuleError> {
        let entries = entries.iter().map(|(key, value)| Entry {
            key: key.as_ref(),
            value: value.as_ref(),
        });
        self.decide(&Request {
            domain: domain.as_bytes(),
            descriptors: vec![Descriptor {
                entries: entries.collect(),
                ..Descriptor::default()
            }],
            cost: Cost::ONE,
            charge_denied: ChargeDenied::Never,
        })
    }

    /// Decides on a request with any number of descriptors, all or nothing.
    ///
    /// A request that matches no rule is allowed.
    ///
    /// # Errors
    ///
    /// [`RuleError::Store`] if the request meets more than 128 limits, or if the store fails as
    /// [`crate::Limiter::check`] describes. [`RuleError::UnknownDomain`] if
    /// [`RuleLimiter::on_unknown_domain`] chose that. A denial is an [`Answer`], not an error.
    pub fn decide(&self, request: &Request<'_>) -> Result<Answer, RuleError> {
        let rules = self.rules.load();
        let is_known = |domain: &str| domain.as_bytes() == request.domain;
        if self.on_unknown_domain == OnUnknownDomain::Error && !rules.domains().any(is_known) {
            let domain = Escaped(request.domain).to_string();
            return Err(RuleError::UnknownDomain { domain });
        }
        let mut attempt = Attempt::first(rules);
        loop {
            let resolved = attempt.rules().resolve(request, &self.store);
            let mut charges = resolved.charges();
            charges
                .iter_mut()
                .for_each(|charge| charge.is_current = attempt.is_current());
            let verdict = self.store.decide_now(&charges);
            let answer = verdict.map(|verdict| resolved.answer(&verdict));
            match attempt.next(answer, || self.rules.load()) {
                ControlFlow::Break(answer) => return answer.map_err(RuleError::Store),
                ControlFlow::Continue(next) => attempt = next,
            }
        }
    }

    /// Replaces the rules, for all threads at once. A rule with an unchanged limit keeps its exact
    /// state; one with a changed limit keeps the consumed units.
    ///
    /// If two threads reload concurrently, the later reload wins.
    ///
    /// # Errors
    ///
    /// [`InvalidRules`]; the old rules stay in effect.
    pub fn reload(&self, sources: &[Source]) -> Result<Changes, InvalidRules> {
        let loaded = RuleSet::parse(sources, &Options::default());
        if loaded.has_errors() {
            return Err(InvalidRules {
                diagnostics: loaded.diagnostics,
            });
        }
        let (rules, changes) = loaded.succeed(&self.rules.load());
        self.rules.store(rules.into());
        Ok(changes)
    }

    /// As [`RuleLimiter::reload`], from files and directories.
    ///
    /// # Errors
    ///
    /// [`LoadError`]; the old rules stay in effect.
    pub fn reload_paths(&self, paths: &[impl AsRef<Path>]) -> Result<Changes, LoadError> {
        self.reload(&read(paths)?).map_err(LoadError::Invalid)
    }

    /// The rules in effect.
    pub fn rules(&self) -> RuleSet {
        RuleSet::clone(&self.rules.load())
    }

    /// The store that counts the units.
    pub const fn store(&self) -> &Memory<C> {
        &self.store
    }
}

fn read(paths: &[impl AsRef<Path>]) -> Result<Vec<Source>, LoadError> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().into()).collect();
    read_paths(&paths).map_err(LoadError::Read)
}

// === impl RuleError ===

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::UnknownDomain { domain } => write!(f, "no rules for the domain `{domain}`"),
            RuleError::Store(_) => f.write_str("the store has no answer"),
        }
    }
}

impl std::error::Error for RuleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RuleError::UnknownDomain { .. } => None,
            RuleError::Store(source) => Some(source),
        }
    }
}

// === impl LoadError ===

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Read(_) => f.write_str("the rules cannot be read"),
            LoadError::Invalid(_) => f.write_str("the rules cannot be used"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Read(source) => Some(source),
            LoadError::Invalid(source) => Some(source),
        }
    }
}

// === impl InvalidRules ===

impl fmt::Display for InvalidRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.diagnostics {
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidRules {}
