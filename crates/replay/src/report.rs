//! The report of a replay, for programs and for people.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_core::{Enforcement, Moment, RuleName};

use crate::noun::Noun;
use crate::plain::Plain;
use crate::timestamp::Utc;
use crate::traffic::{Place, Traffic};
use crate::warning::Warning;

/// The version of [`Report::to_json`] and of the lines of decisions; `docs/replay.md` has their
/// shape. It grows when a member changes its meaning or is removed; new members do not change it.
pub const JSON_VERSION: u32 = 1;

/// Counts of one replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events that were decided.
    pub events: u64,
    /// Of these, those that are allowed.
    pub allowed: u64,
    /// Of these, those that are denied.
    pub denied: u64,
    /// Of these, those without an answer: only instances that share limits have such.
    pub failed: u64,
    /// Of those that are allowed, those in the soft part of a limit.
    pub over_soft: u64,
    /// Of those that are allowed, those that a leaky bucket would have delayed.
    pub delayed: u64,
    /// Of those that are allowed, those that met no limit.
    pub without_limit: u64,
    /// The first event's moment.
    pub from: Option<Moment>,
    /// The last event's moment.
    pub to: Option<Moment>,
    /// Every rule that limits, in the order of the files; after them limits that requests brought.
    pub rules: Vec<RuleTotals>,
    /// The keys that were denied.
    pub denied_keys: TopKeys,
    /// The keys that shadow rules would have denied.
    pub shadow_keys: TopKeys,
    /// How many live keys a bounded store evicted; `None` if the store had no bound.
    pub evicted_keys: Option<u64>,
    /// Reasons to doubt this report.
    pub warnings: Vec<Warning>,
}

/// Counts of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTotals {
    /// Which rule.
    pub rule: Arc<RuleName>,
    /// Its limit in words: `100 per 1m token_bucket`. Overrides of a domain count as one rule,
    /// which has words of its own if their limits differ.
    pub limit: String,
    /// Its enforcement.
    pub enforcement: Enforcement,
    /// Descriptors that it decided.
    pub judged: u64,
    /// Of these, those that it denied, whether or not the request was denied.
    pub over: u64,
    /// Requests that were denied because of it. A request that several limits deny counts for the
    /// one with the longest wait.
    pub denied: u64,
    /// For each descriptor on the way to the rule, its value as written; `None` if requests with
    /// different values for it have different counters.
    pub(crate) shared_values: Vec<Option<Box<str>>>,
}

/// The keys with the most denials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopKeys {
    /// How many keys have any.
    pub count: u64,
    /// The first of them, at most [`crate::Options::top_keys`].
    pub first: Vec<DeniedKey>,
}

/// A key with denied requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedKey {
    /// The rule that counts it.
    pub rule: Arc<RuleName>,
    /// The keys and values of a descriptor that met it, escaped where they are not UTF-8. Of values
    /// that share a counter, the value as the rule has it, such as `/blog/*`.
    pub descriptor: Vec<(String, String)>,
    /// Requests that were denied because of it.
    pub denied: u64,
}

/// A report and its traffic, formatted for people.
pub struct Summary<'a> {
    /// The report.
    pub report: &'a Report,
    /// The traffic.
    pub traffic: &'a Traffic,
}

// === impl Report ===

impl Report {
    /// The report on `traffic` as a JSON object.
    pub fn to_json(&self, traffic: &Traffic) -> Value {
        let skipped = traffic.skipped_lines();
        let first = skipped.first.iter().map(|skipped| {
            let Place { input, line } = traffic.place(skipped.line);
            let mut shown = json!({
                "line": line,
                "reason": skipped.reason,
                "text": skipped.excerpt,
            });
            if let Some(input) = input {
                shown["file"] = json!(input);
            }
            shown
        });
        let reasons = skipped.reasons.iter();
        let reasons = reasons.map(|(reason, count)| json!({"reason": reason, "count": count}));
        let mut report = json!({
            "version": JSON_VERSION,
            "events": self.events,
            "allowed": self.allowed,
            "denied": self.denied,
            "overSoft": self.over_soft,
            "delayed": self.delayed,
            "withoutLimit": self.without_limit,
            "from": self.from.map(|at| Utc(at).to_string()),
            "to": self.to.map(|at| Utc(at).to_string()),
            "rules": self.rules.iter().map(RuleTotals::to_json).collect::<Vec<_>>(),
            "deniedKeys": self.denied_keys.count,
            "topDeniedKeys": self.denied_keys.to_json(),
            "shadowDeniedKeys": self.shadow_keys.count,
            "topShadowDeniedKeys": self.shadow_keys.to_json(),
            "excluded": traffic.excluded_events(),
            "skipped": skipped.count,
            "skippedReasons": reasons.collect::<Vec<_>>(),
            "firstSkipped": first.collect::<Vec<_>>(),
            "warnings": self.warnings.iter().map(Warning::to_json).collect::<Vec<_>>(),
        });
        if let Some(evicted) = self.evicted_keys {
            report["evictedKeys"] = json!(evicted);
        }
        report
    }
}

// === impl RuleTotals ===

impl RuleTotals {
    /// Nothing counted yet.
    pub(crate) const fn new(
        rule: Arc<RuleName>,
        limit: String,
        enforcement: Enforcement,
    ) -> RuleTotals {
        RuleTotals {
            rule,
            limit,
            enforcement,
            judged: 0,
            over: 0,
            denied: 0,
            shared_values: Vec::new(),
        }
    }

    /// The limit, and the enforcement if that is unusual: `100 per 1m token_bucket (shadow)`.
    pub(crate) fn words(&self) -> String {
        match self.enforcement.name() {
            "enforce" => self.limit.clone(),
            mode => format!("{} ({mode})", self.limit),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "domain": self.rule.domain,
            "rule": self.rule.shown(),
            "path": self.rule.path,
            "limit": self.limit,
            "mode": self.enforcement.name(),
            "judged": self.judged,
            "over": self.over,
            "denied": self.denied,
        })
    }
}

// === impl TopKeys ===

impl TopKeys {
    pub(crate) fn to_json(&self) -> Value {
        self.first.iter().map(DeniedKey::to_json).collect()
    }
}

// === impl DeniedKey ===

impl DeniedKey {
    fn to_json(&self) -> Value {
        let entries = self.descriptor.iter();
        let entries = entries.map(|(key, value)| json!({"key": key, "value": value}));
        json!({
            "domain": self.rule.domain,
            "rule": self.rule.shown(),
            "descriptor": entries.collect::<Vec<_>>(),
            "denied": self.denied,
        })
    }
}

// === impl Summary ===

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.report.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        if !self.report.warnings.is_empty() {
            writeln!(f)?;
        }
        self.totals(f)?;
        self.rules(f)?;
        let report = self.report;
        keys(&report.denied_keys, "denied", f)?;
        keys(&report.shadow_keys, "would deny", f)?;
        self.write_skipped(f)
    }
}

impl Summary<'_> {
    /// Writes the counts of the whole replay.
    fn totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        let mut line = |count, one, many| {
            let what = if count == 1 { one } else { many };
            writeln!(f, "{count:>12} {what}")
        };
        line(report.events, "event", "events")?;
        line(report.allowed, "allowed", "allowed")?;
        line(report.denied, "denied", "denied")?;
        let (over_soft, delayed) = (
            "allowed in the soft part of a limit",
            "allowed after a delay",
        );
        let failed = "without an answer";
        let evicted = report.evicted_keys.unwrap_or(0);
        let notable = [
            (report.failed, failed, failed),
            (report.over_soft, over_soft, over_soft),
            (report.delayed, delayed, delayed),
            (report.without_limit, "met no limit", "met no limit"),
            (evicted, "live key evicted", "live keys evicted"),
        ];
        for (count, one, many) in notable.into_iter().filter(|(count, ..)| *count > 0) {
            line(count, one, many)?;
        }
        let (excluded, skipped) = (
            self.traffic.excluded_events(),
            self.traffic.skipped_lines().count,
        );
        if excluded > 0 {
            line(excluded, "event not selected", "events not selected")?;
        }
        if !self.traffic.is_simulated() {
            line(skipped, "line skipped", "lines skipped")?;
        }
        if let (Some(from), Some(to)) = (report.from, report.to) {
            writeln!(f, "\nfrom {} to {}", Utc(from), Utc(to))?;
        }
        Ok(())
    }

    /// Writes a row for each rule.
    fn rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.report.rules.is_empty() {
            return Ok(());
        }
        let [judged, over, denied] = ["judged", "over", "denied"];
        writeln!(f, "\n{judged:>12} {over:>12} {denied:>12}  rule")?;
        for totals in &self.report.rules {
            let rule = &totals.rule;
            writeln!(
                f,
                "{:>12} {:>12} {:>12}  {}/{}: {}",
                totals.judged,
                totals.over,
                totals.denied,
                Plain(&rule.domain),
                Plain(rule.shown()),
                totals.words(),
            )?;
        }
        Ok(())
    }

    /// Writes why lines were skipped, the most frequent reason first.
    fn write_skipped(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.traffic.skipped_lines();
        if skipped.count > 0 {
            writeln!(f, "\n{:>12}  reason", "skipped")?;
        }
        for (reason, count) in &skipped.reasons {
            writeln!(f, "{count:>12}  {reason}")?;
        }
        if !skipped.first.is_empty() {
            let shown = skipped.first.len();
            let lines = Noun(skipped.count, "line");
            writeln!(f, "\n{lines} skipped ({shown} of {} shown)", skipped.count)?;
        }
        for line in &skipped.first {
            let place = self.traffic.place(line.line);
            let input = place
                .input
                .map(|input| format!("{input} "))
                .unwrap_or_default();
            writeln!(f, "  {input}line {}: {}", place.line, line.reason)?;
            if !line.excerpt.is_empty() {
                writeln!(f, "    {}", line.excerpt)?;
            }
        }
        Ok(())
    }
}

/// Writes a row for each key.
pub(crate) fn keys(keys: &TopKeys, heading: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if keys.first.is_empty() {
        return Ok(());
    }
    let shown = keys.first.len();
    writeln!(f, "\n{heading:>12}  key ({shown} of {})", keys.count)?;
    for key in &keys.first {
        write!(f, "{:>12} ", key.denied)?;
        for (name, value) in &key.descriptor {
            write!(f, " {}={}", Plain(name), Plain(value))?;
        }
        writeln!(f)?;
    }
    Ok(())
}
