//! A rules file, and everybody who is counted under its rules.

use std::fmt;
use std::ops::ControlFlow;

use arc_swap::ArcSwap;
use tollgate_core::{Answer, ChargeDenied, Clock, Cost, Descriptor, Entry, Request, StoreError};
use tollgate_memory::{Memory, SystemClock};
use tollgate_rules::{Attempt, Changes, Diagnostic, Loaded, Options, RuleSet, Source};

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
}

/// Rules that cannot be used: every mistake in them, with its place and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidRules {
    /// The mistakes, and warnings about what may be none.
    pub diagnostics: Vec<Diagnostic>,
}

// === impl RuleLimiter ===

impl RuleLimiter {
    /// The rules in `text`, with room for a million keys on this machine's clock.
    ///
    /// # Errors
    ///
    /// [`InvalidRules`] if there is any mistake in them; warnings are no mistakes.
    pub fn from_yaml(text: &str) -> Result<RuleLimiter, InvalidRules> {
        let loaded = RuleSet::parse(&[Source::new("rules", text)], &Options::default());
        let limits: Vec<_> = loaded.rules.rules().filter_map(|rule| rule.limit).collect();
        RuleLimiter::from_loaded(loaded, Memory::builder().limits(&limits).build())
    }
}

impl<C: Clock> RuleLimiter<C> {
    /// The rules of files that were read with [`tollgate_rules::read_paths`] or by other means,
    /// counted in `store`. Size it with [`tollgate_memory::Builder::limits`] where they are known.
    ///
    /// # Errors
    ///
    /// [`InvalidRules`] if there is any mistake in them.
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
        })
    }

    /// Asks for one unit in `domain`, for one descriptor: from the general to the special, as the
    /// rules are nested. Keys and values are text or any other bytes.
    ///
    /// # Errors
    ///
    /// As [`RuleLimiter::decide`].
    pub fn check(
        &self,
        domain: &str,
        entries: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<Answer, StoreError> {
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

    /// Asks whatever a request may ask: several descriptors, all or nothing.
    ///
    /// What no rule matches is admitted.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if there is no answer: more than [`tollgate_core::CHARGES_MAX`] limits, or
    /// what [`crate::Limiter::check`] describes. A refusal is an [`Answer`].
    pub fn decide(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let mut attempt = Attempt::first(self.rules.load());
        loop {
            let resolved = attempt.rules().resolve(request, &self.store);
            let mut charges = resolved.charges();
            charges
                .iter_mut()
                .for_each(|charge| charge.is_current = attempt.is_current());
            let verdict = self.store.decide_now(&charges);
            let answer = verdict.map(|verdict| resolved.answer(&verdict));
            match attempt.next(answer, || self.rules.load()) {
                ControlFlow::Break(answer) => return answer,
                ControlFlow::Continue(next) => attempt = next,
            }
        }
    }

    /// Puts other rules in place of these, at once for all threads. A rule whose limit stays keeps
    /// its exact state; one whose limit changes keeps what was consumed.
    ///
    /// One caller at a time: of two that reload at once, the later one wins.
    ///
    /// # Errors
    ///
    /// [`InvalidRules`]; the old rules stay.
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

    /// The rules in force.
    pub fn rules(&self) -> RuleSet {
        RuleSet::clone(&self.rules.load())
    }

    /// The store that counts.
    pub const fn store(&self) -> &Memory<C> {
        &self.store
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
