//! The limits of a rules file.

pub(crate) mod active_rules;

mod error;

#[cfg(feature = "tower")]
mod held;

use std::path::Path;
use std::sync::Arc;

use tollgate_core::{Answer, Charge, Clock, Request, RuleName, StoreError};
use tollgate_memory::{Memory, Shortage, Stats, SystemClock};
use tollgate_rules::{Attempt, Changes, Diagnostic, Loaded, Options, Resolved, RuleSet, Source};

use active_rules::{ActiveRules, read, request_of};

pub use active_rules::OnUnknownDomain;
pub use error::{InvalidRules, LoadError, RuleError};

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
    rules: ActiveRules,
}

// === impl RuleLimiter ===

impl RuleLimiter {
    /// The rules in `text`, with room for a million keys on this machine's clock.
    ///
    /// # Errors
    ///
    /// [`InvalidRules`] if the rules have errors; warnings are not errors.
    ///
    /// # Panics
    ///
    /// If the system does not have the memory. [`RuleLimiter::from_sources`] takes a smaller one.
    pub fn from_yaml(text: &str) -> Result<RuleLimiter, InvalidRules> {
        RuleLimiter::with_fitting_memory(RuleSet::parse(
            &[Source::new("rules", text)],
            &Options::default(),
        ))
    }

    /// The rules in files, and in the `*.yaml` and `*.yml` files of directories, with room for a
    /// million keys on this machine's clock.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if no path is given, the files cannot be read, or the rules have errors.
    ///
    /// # Panics
    ///
    /// If the system does not have the memory. [`RuleLimiter::from_sources`] takes a smaller one.
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
        RuleLimiter::with_fitting_memory(loaded).map_err(LoadError::Invalid)
    }

    fn with_fitting_memory(loaded: Loaded) -> Result<RuleLimiter, InvalidRules> {
        let limits: Vec<_> = loaded.rules.limits().collect();
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
        let rules = ActiveRules::new(loaded)?;
        Ok(RuleLimiter { store, rules })
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
        let rules = self.rules.on_unknown_domain(on_unknown_domain);
        RuleLimiter { rules, ..self }
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
        self.decide(&request_of(domain, entries))
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
        self.decide_by(request, |resolved, charges| {
            let verdict = self.store.decide_now(charges)?;
            Ok(resolved.answer(&verdict))
        })
    }

    /// Calls `decide` under the rules in effect, and again if they are replaced meanwhile.
    fn decide_by<T>(
        &self,
        request: &Request<'_>,
        decide: impl Fn(&Resolved<'_>, &[Charge<'_>]) -> Result<T, StoreError>,
    ) -> Result<T, RuleError> {
        let mut attempt = Attempt::first(self.rules.load_for(request)?);
        loop {
            let decided = {
                let resolved = attempt.rules().resolve(request, &self.store);
                decide(&resolved, &resolved.charges_under(attempt.resolution()))
            };
            match attempt.next(&decided, || self.rules.load()) {
                None => return decided.map_err(RuleError::Store),
                Some(next) => attempt = next,
            }
        }
    }

    /// Replaces the rules, for all threads at once. A rule with an unchanged limit keeps its exact
    /// state; one with a changed limit keeps the consumed units.
    ///
    /// If two threads reload concurrently, one waits for the other. The memory stays that for the
    /// first rules: if later ones have larger states ([`crate::BYTES_PER_KEY`] says which limits
    /// have), live keys may be evicted for want of it, which [`Stats::evicted_keys`] counts.
    /// [`RuleLimiter::shortage`] says so in advance. Then build the store with
    /// [`crate::MemoryBuilder::limits`] or a larger
    /// [`max_bytes`](crate::MemoryBuilder::max_bytes), and use [`RuleLimiter::from_sources`].
    ///
    /// Units stay consumed through 127 changes of a limit between two decisions on a key; an older
    /// state is read as if its limit had not changed.
    ///
    /// Without a source, no rules are left: for a program that makes its rules, that can be right.
    ///
    /// # Errors
    ///
    /// [`InvalidRules`]; the old rules stay in effect.
    pub fn reload(&self, sources: &[Source]) -> Result<Changes, InvalidRules> {
        let parse = || Ok(RuleSet::parse(sources, &Options::default()));
        self.rules.replace(parse)
    }

    /// As [`RuleLimiter::reload`], from files and directories.
    ///
    /// # Errors
    ///
    /// [`LoadError`], also if no path is given; the old rules stay in effect.
    pub fn reload_paths(&self, paths: &[impl AsRef<Path>]) -> Result<Changes, LoadError> {
        self.rules
            .replace(|| Ok(RuleSet::parse(&read(paths)?, &Options::default())))
    }

    /// The rules in effect.
    pub fn rules(&self) -> RuleSet {
        RuleSet::clone(&self.rules.load())
    }

    /// What is doubtful about the rules in effect, by file and line: a limit without a value, a
    /// value that looks like a pattern of another product, and the like. Log them: the rules are in
    /// effect all the same.
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
    ///     rate_limit:
    /// ")?;
    /// for warning in limiter.warnings() {
    ///     eprintln!("{warning}");
    /// }
    /// # assert!(limiter.warnings().iter().any(|warning| warning.code == "no-value"));
    /// # Ok::<(), tollgate::InvalidRules>(())
    /// ```
    pub fn warnings(&self) -> Vec<Diagnostic> {
        self.rules.warnings()
    }

    /// What the memory lacks for the rules in effect, and the rule for whose keys there is the
    /// least room; `None` if there is room for all keys of each rule. Look after a reload: the
    /// memory stays that for the first rules.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate::{Memory, RuleLimiter, Source};
    ///
    /// let rules = |limit| {
    ///     let rule = format!("{{key: user, rate_limit: {limit}}}");
    ///     [Source::new("r.yaml", format!("{{domain: shop, descriptors: [{rule}]}}"))]
    /// };
    /// let store = Memory::builder().max_keys(100_000).build();
    /// let bucket = "{unit: hour, requests_per_unit: 100, algorithm: token_bucket}";
    /// let limiter = RuleLimiter::from_sources(&rules(bucket), store)?;
    /// assert_eq!(limiter.shortage(), None);
    /// limiter.reload(&rules("{unit: hour, requests_per_unit: 100, algorithm: sliding_log}"))?;
    /// let (rule, shortage) = limiter.shortage().expect("a log is larger than a bucket");
    /// assert_eq!((rule.shown(), shortage.max_keys), ("user", 100_000));
    /// assert!(shortage.keys < 100_000);
    /// # Ok::<(), tollgate::InvalidRules>(())
    /// ```
    pub fn shortage(&self) -> Option<(Arc<RuleName>, Shortage)> {
        let rules = self.rules.load();
        let short = rules.rules().filter_map(|view| {
            let shortage = self.store.shortage(&view.limit?)?;
            Some((view.rule, shortage))
        });
        short.min_by_key(|(_, shortage)| shortage.keys)
    }

    /// How much is stored. Scans every slot, so it is meant for reports.
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// The clock of its decisions.
    pub fn clock(&self) -> &C {
        self.store.clock()
    }
}
