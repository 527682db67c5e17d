//! The limits of a rules file, counted in Redis.

#[cfg(feature = "tower")]
mod held;

use std::path::Path;

use tollgate_core::{Answer, Charge, Request, Verdict};
use tollgate_rules::{
    Attempt, Changes, Diagnostic, Loaded, Options, Resolved, RuleSet, Source, WrittenLimit,
};

use super::store::Redis;
use crate::rule_limiter::active_rules::{ActiveRules, OnUnknownDomain, read, request_of};
use crate::rule_limiter::{InvalidRules, LoadError, RuleError};

/// The limits of a rules file, which all processes with the same Redis share, and which can be
/// replaced while they are in use.
///
/// The methods are those of [`crate::RuleLimiter`], but for `.await`. `mode`, `on_store_error` and
/// `instances` in the file have effect; where it does not set them, [`super::Builder`] does. The
/// counters are those of Tollgate's service: over the same Redis with the same prefix, both share
/// the limits of equal rules.
///
/// # Example
///
/// ```no_run
/// use tollgate::redis::{Redis, RuleLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let redis = Redis::open("redis://localhost:6379")?;
/// let limiter = RuleLimiter::from_yaml(&redis, "
/// domain: shop
/// descriptors:
///   - key: user
///     rate_limit: {unit: minute, requests_per_unit: 2, on_store_error: deny}
/// ")?;
/// let answer = limiter.check("shop", &[("user", "ann")]).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RuleLimiter {
    redis: Redis,
    rules: ActiveRules,
}

// === impl RuleLimiter ===

impl RuleLimiter {
    /// The rules in `text`.
    ///
    /// # Errors
    ///
    /// [`InvalidRules`] if the rules have errors, or limits that Redis cannot keep; warnings are
    /// not errors.
    pub fn from_yaml(redis: &Redis, text: &str) -> Result<RuleLimiter, InvalidRules> {
        RuleLimiter::from_sources(redis, &[Source::new("rules", text)])
    }

    /// The rules in files, and in the `*.yaml` and `*.yml` files of directories.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if no path is given, the files cannot be read, or the rules cannot be used.
    pub fn from_paths(redis: &Redis, paths: &[impl AsRef<Path>]) -> Result<RuleLimiter, LoadError> {
        RuleLimiter::from_sources(redis, &read(paths)?).map_err(LoadError::Invalid)
    }

    /// The rules in `sources`.
    ///
    /// # Errors
    ///
    /// As [`RuleLimiter::from_yaml`].
    pub fn from_sources(redis: &Redis, sources: &[Source]) -> Result<RuleLimiter, InvalidRules> {
        Ok(RuleLimiter {
            rules: ActiveRules::new(parse(redis, sources))?,
            redis: redis.clone(),
        })
    }

    /// Sets what happens to a request whose domain has no rules; see
    /// [`crate::RuleLimiter::on_unknown_domain`].
    #[must_use]
    pub fn on_unknown_domain(self, on_unknown_domain: OnUnknownDomain) -> RuleLimiter {
        let rules = self.rules.on_unknown_domain(on_unknown_domain);
        RuleLimiter { rules, ..self }
    }

    /// Decides on one unit for one descriptor in `domain`; see [`crate::RuleLimiter::check`].
    ///
    /// # Errors
    ///
    /// As [`RuleLimiter::decide`].
    pub async fn check(
        &self,
        domain: &str,
        entries: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<Answer, RuleError> {
        let request = request_of(domain, entries);
        self.decide(&request).await
    }

    /// Decides on a request with any number of descriptors, all or nothing.
    ///
    /// A request that matches no rule is allowed. While Redis does not answer, each rule does what
    /// its `on_store_error` says; [`Answer::is_store_unavailable`] tells a denial for that reason
    /// from others.
    ///
    /// # Errors
    ///
    /// [`RuleError::Store`] without an answer of Redis, if a rule has `on_store_error: error`; if
    /// the request meets more than 128 limits; or if too many other requests are being decided on
    /// the same keys. [`RuleError::UnknownDomain`] if [`RuleLimiter::on_unknown_domain`] chose
    /// that. A denial is an [`Answer`], not an error.
    pub async fn decide(&self, request: &Request<'_>) -> Result<Answer, RuleError> {
        let decided = self.decide_by(request, |resolved, _, verdict| resolved.answer(verdict));
        decided.await
    }

    /// Decides under the rules in effect, and again if they are replaced meanwhile. `conclude`
    /// makes the result of a request, its charges, and the verdict on these.
    async fn decide_by<T>(
        &self,
        request: &Request<'_>,
        conclude: impl Fn(&Resolved<'_>, &[Charge<'_>], &Verdict) -> T,
    ) -> Result<T, RuleError> {
        let mut attempt = Attempt::first(self.rules.load_for(request)?);
        loop {
            let decided = {
                let resolved = attempt.rules().resolve(request, self.redis.hasher());
                let charges = resolved.charges_under(attempt.resolution());
                let verdict = match charges.is_empty() {
                    true => Ok(Verdict::default()),
                    false => self.redis.decide(&charges).await,
                };
                verdict.map(|verdict| conclude(&resolved, &charges, &verdict))
            };
            match attempt.next(&decided, || self.rules.load()) {
                None => return decided.map_err(RuleError::Store),
                Some(next) => attempt = next,
            }
        }
    }

    /// Replaces the rules in this process; see [`crate::RuleLimiter::reload`].
    ///
    /// # Errors
    ///
    /// [`InvalidRules`]; the old rules stay in effect.
    pub fn reload(&self, sources: &[Source]) -> Result<Changes, InvalidRules> {
        self.rules.replace(|| Ok(parse(&self.redis, sources)))
    }

    /// As [`RuleLimiter::reload`], from files and directories.
    ///
    /// # Errors
    ///
    /// [`LoadError`], also if no path is given; the old rules stay in effect.
    pub fn reload_paths(&self, paths: &[impl AsRef<Path>]) -> Result<Changes, LoadError> {
        self.rules.replace(|| Ok(parse(&self.redis, &read(paths)?)))
    }

    /// The rules in effect.
    pub fn rules(&self) -> RuleSet {
        RuleSet::clone(&self.rules.load())
    }

    /// What is doubtful about the rules in effect; see [`crate::RuleLimiter::warnings`].
    pub fn warnings(&self) -> Vec<Diagnostic> {
        self.rules.warnings()
    }

    /// The Redis that counts for these limits.
    pub const fn redis(&self) -> &Redis {
        &self.redis
    }
}

fn parse(redis: &Redis, sources: &[Source]) -> Loaded {
    let options = Options {
        sharing: redis.sharing(),
        ..Options::default()
    };
    let unfit = |written: &WrittenLimit<'_>| {
        let invalid = tollgate_redis::check(written.limit).err();
        invalid.map(|invalid| invalid.to_string())
    };
    RuleSet::parse_for(sources, &options, &unfit)
}
