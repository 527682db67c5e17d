//! Over-admission and under-admission: what instances that share limits allowed, compared with what
//! a single instance allows of the same requests.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_core::{Key, RuleName};
use tollgate_rules::RuleSet;

use crate::decider::Decider;
use crate::error::Error;
use crate::plain::Plain;
use crate::replay::Memories;
use crate::traffic::Traffic;

/// The requests that a single instance and several instances allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deviation {
    /// Requests that a single instance allows, of those that came to the instances.
    pub exact: u64,
    /// Requests that the instances allowed.
    pub allowed: u64,
    /// The same of every rule that limits, in the order of the report.
    pub rules: Vec<RuleDeviation>,
}

/// The same, of the requests that met a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDeviation {
    /// Which rule.
    pub rule: Arc<RuleName>,
    /// Its limit in words.
    pub limit: String,
    /// Requests that a single instance allows, of those that came to the instances.
    pub exact: u64,
    /// Requests that the instances allowed.
    pub allowed: u64,
    /// Over-admission: of each key, the requests beyond `exact`.
    pub over: u64,
    /// Under-admission: of each key, the requests that are missing from `exact`.
    pub under: u64,
}

/// Allowed requests of a key: by a single instance, and by several.
type Allowed = HashMap<(usize, Key), [u64; 2]>;

// === impl Deviation ===

impl Deviation {
    /// Compares what instances decided by these rules with what a single one decides on the same
    /// events, retries among them, each at its time. Clients of the single one would retry at other
    /// times, and a comparison with those would be one of different requests.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if an event has too many limits.
    pub fn of(rules: &RuleSet, decided: &Traffic) -> Result<Deviation, Error> {
        let mut allowed = Allowed::new();
        let mut several = Decider::new(rules, Memories::Unbounded, decided)?;
        let mut single = several.again(Memories::Unbounded, decided)?.decide_all();
        count(&mut single, decided, 0, &mut allowed)?;
        count(&mut several, decided, 1, &mut allowed)?;
        let (single, several) = (single.report(decided, 0), several.report(decided, 0));
        let mut deviation = Deviation {
            exact: single.allowed,
            allowed: several.allowed,
            rules: Vec::new(),
        };
        for totals in single.rules {
            deviation.rules.push(RuleDeviation {
                rule: totals.rule,
                limit: totals.limit,
                exact: 0,
                allowed: 0,
                over: 0,
                under: 0,
            });
        }
        for ((rule, _), [exact, allowed]) in allowed {
            if let Some(of_rule) = deviation.rules.get_mut(rule) {
                of_rule.exact += exact;
                of_rule.allowed += allowed;
                of_rule.over += allowed.saturating_sub(exact);
                of_rule.under += exact.saturating_sub(allowed);
            }
        }
        Ok(deviation)
    }

    /// The counts as members of a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "exact": self.exact,
            "allowed": self.allowed,
            "rules": self.rules.iter().map(RuleDeviation::to_json).collect::<Value>(),
        })
    }
}

/// Counts the allowed requests of each key. A request that meets a key with several descriptors is
/// one request.
fn count(
    decider: &mut Decider<'_>,
    traffic: &Traffic,
    side: usize,
    allowed: &mut Allowed,
) -> Result<(), Error> {
    let mut counted = Vec::new();
    for event in traffic.in_order() {
        let outcome = decider.decide(&event, traffic)?;
        if outcome.verdict.denial.is_none() {
            counted.clear();
            for met in outcome.met {
                let counter = (met.rule, met.key);
                if !counted.contains(&counter) {
                    counted.push(counter);
                    allowed.entry(counter).or_default()[side] += 1;
                }
            }
        }
    }
    Ok(())
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [exact, allowed, over, under] = ["exact", "allowed", "over", "under"];
        writeln!(f, "{exact:>12} {allowed:>12} {over:>12} {under:>12}  rule")?;
        self.rules.iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

// === impl RuleDeviation ===

impl RuleDeviation {
    fn to_json(&self) -> Value {
        json!({
            "domain": self.rule.domain,
            "rule": self.rule.shown(),
            "path": self.rule.path,
            "limit": self.limit,
            "exact": self.exact,
            "allowed": self.allowed,
            "over": self.over,
            "under": self.under,
        })
    }
}

impl fmt::Display for RuleDeviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (exact, allowed) = (self.exact, self.allowed);
        let (over, under, limit) = (self.over, self.under, &self.limit);
        let (domain, rule) = (Plain(&self.rule.domain), Plain(self.rule.shown()));
        write!(
            f,
            "{exact:>12} {allowed:>12} {over:>12} {under:>12}  {domain}/{rule}: {limit}"
        )
    }
}
