//! What a replay found, for programs and for people.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_core::{Enforcement, Moment, RuleName};

use crate::plain::Plain;
use crate::timestamp::Utc;
use crate::traffic::{Place, Traffic};

/// Counts of one replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events that were decided.
    pub events: u64,
    /// Of these, those that pass.
    pub admitted: u64,
    /// Of these, those that do not.
    pub refused: u64,
    /// Of those that pass, those in the soft part of a limit.
    pub over_soft: u64,
    /// Of those that pass, those that a leaky bucket would have held for a while.
    pub delayed: u64,
    /// Of those that pass, those that no limit judged.
    pub without_limit: u64,
    /// The first event's moment.
    pub from: Option<Moment>,
    /// The last event's moment.
    pub to: Option<Moment>,
    /// Every rule that limits, in the order of the files; after them limits that requests brought.
    pub rules: Vec<RuleTotals>,
    /// The keys with the most refused requests, at most [`crate::REFUSED_KEYS_MAX`].
    pub refused_keys: Vec<RefusedKey>,
    /// How many keys had requests refused.
    pub refused_keys_count: u64,
    /// How many live keys a bounded store gave up; `None` if the store had no bound.
    pub evicted_keys: Option<u64>,
}

/// Counts of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTotals {
    /// Which rule.
    pub rule: Arc<RuleName>,
    /// Its limit in words: `100 per 1m token_bucket`.
    pub limit: String,
    /// What its refusal does.
    pub enforcement: Enforcement,
    /// Descriptors that it judged.
    pub judged: u64,
    /// Of these, those that it would not let pass, whatever followed from it.
    pub over: u64,
    /// Requests that were refused because of it. A request that several limits refuse counts for
    /// the one with the longest wait.
    pub refused: u64,
}

/// A key with refused requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedKey {
    /// The rule that counts it.
    pub rule: Arc<RuleName>,
    /// The keys and values of a descriptor that met it.
    pub descriptor: Vec<(String, String)>,
    /// Requests that were refused because of it.
    pub refused: u64,
}

/// A report and the traffic that it is about, to be written for people.
pub struct Summary<'a> {
    /// What was counted.
    pub report: &'a Report,
    /// What was read.
    pub traffic: &'a Traffic,
}

// === impl Report ===

impl Report {
    /// The report as a JSON object; `traffic` is what it is about.
    pub fn to_json(&self, traffic: &Traffic) -> Value {
        let skipped = traffic.skipped();
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
        let mut report = json!({
            "events": self.events,
            "admitted": self.admitted,
            "refused": self.refused,
            "overSoft": self.over_soft,
            "delayed": self.delayed,
            "withoutLimit": self.without_limit,
            "from": self.from.map(|at| Utc(at).to_string()),
            "to": self.to.map(|at| Utc(at).to_string()),
            "rules": self.rules.iter().map(RuleTotals::to_json).collect::<Vec<_>>(),
            "refusedKeys": self.refused_keys_count,
            "topRefusedKeys": self.refused_keys.iter().map(RefusedKey::to_json).collect::<Vec<_>>(),
            "skipped": skipped.count,
            "firstSkipped": first.collect::<Vec<_>>(),
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
            refused: 0,
        }
    }

    const fn mode(&self) -> &'static str {
        match self.enforcement {
            Enforcement::Enforce => "enforce",
            Enforcement::Shadow => "shadow",
            Enforcement::Quota => "quota",
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "domain": self.rule.domain,
            "rule": self.rule.shown(),
            "path": self.rule.path,
            "limit": self.limit,
            "mode": self.mode(),
            "judged": self.judged,
            "over": self.over,
            "refused": self.refused,
        })
    }
}

// === impl RefusedKey ===

impl RefusedKey {
    fn to_json(&self) -> Value {
        let entries = self.descriptor.iter();
        let entries = entries.map(|(key, value)| json!({"key": key, "value": value}));
        json!({
            "domain": self.rule.domain,
            "rule": self.rule.shown(),
            "descriptor": entries.collect::<Vec<_>>(),
            "refused": self.refused,
        })
    }
}

// === impl Summary ===

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.totals(f)?;
        self.rules(f)?;
        self.refused_keys(f)?;
        self.skipped(f)
    }
}

impl Summary<'_> {
    fn totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        let mut line = |count, what| writeln!(f, "{count:>12} {what}");
        line(report.events, "events")?;
        line(report.admitted, "admitted")?;
        line(report.refused, "refused")?;
        let notable = [
            (report.over_soft, "admitted in the soft part of a limit"),
            (report.delayed, "admitted after a delay"),
            (report.without_limit, "met no limit"),
            (report.evicted_keys.unwrap_or(0), "live keys evicted"),
        ];
        for (count, what) in notable.into_iter().filter(|(count, _)| *count > 0) {
            line(count, what)?;
        }
        line(self.traffic.skipped().count, "lines skipped")?;
        if let (Some(from), Some(to)) = (report.from, report.to) {
            writeln!(f, "\nfrom {} to {}", Utc(from), Utc(to))?;
        }
        Ok(())
    }

    fn rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.report.rules.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:>12} {:>12} {:>12}  rule",
            "judged", "over", "refused"
        )?;
        for totals in &self.report.rules {
            let (rule, mode) = (&totals.rule, totals.mode());
            let mode = if mode == "enforce" {
                String::new()
            } else {
                format!(" ({mode})")
            };
            writeln!(
                f,
                "{:>12} {:>12} {:>12}  {}/{}: {}{mode}",
                totals.judged,
                totals.over,
                totals.refused,
                Plain(&rule.domain),
                Plain(rule.shown()),
                totals.limit,
            )?;
        }
        Ok(())
    }

    fn refused_keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        if report.refused_keys.is_empty() {
            return Ok(());
        }
        let shown = report.refused_keys.len();
        writeln!(
            f,
            "\n{:>12}  key ({shown} of {})",
            "refused", report.refused_keys_count
        )?;
        for key in &report.refused_keys {
            write!(f, "{:>12} ", key.refused)?;
            for (name, value) in &key.descriptor {
                write!(f, " {}={}", Plain(name), Plain(value))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn skipped(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.traffic.skipped();
        if skipped.count > 0 {
            let shown = skipped.first.len();
            writeln!(f, "\nlines skipped ({shown} of {} shown)", skipped.count)?;
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
