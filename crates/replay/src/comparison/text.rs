//! A comparison for programs and for people.

use std::fmt;

use serde_json::{Value, json};

use super::{ChangedClient, Comparison, RuleChange};
use crate::noun::Noun;
use crate::plain::Plain;
use crate::report::{JSON_VERSION, RuleTotals, keys};
use crate::timestamp::Utc;
use crate::traffic::Traffic;

/// A comparison and its traffic, formatted for people.
pub struct ComparisonSummary<'a> {
    /// The comparison.
    pub comparison: &'a Comparison,
    /// The traffic.
    pub traffic: &'a Traffic,
}

// === impl Comparison ===

impl Comparison {
    /// The comparison as a JSON object; `docs/replay.md` has its shape.
    pub fn to_json(&self, traffic: &Traffic) -> Value {
        let clients: Vec<_> = self.clients.iter().map(ChangedClient::to_json).collect();
        json!({
            "version": JSON_VERSION,
            "before": self.before.to_json(traffic),
            "after": self.after.to_json(traffic),
            "newlyDenied": self.newly_denied,
            "noLongerDenied": self.no_longer_denied,
            "rules": self.rules.iter().map(RuleChange::to_json).collect::<Vec<_>>(),
            "newlyDeniedKeys": self.newly_denied_keys.count,
            "topNewlyDeniedKeys": self.newly_denied_keys.to_json(),
            "noLongerDeniedKeys": self.no_longer_denied_keys.count,
            "topNoLongerDeniedKeys": self.no_longer_denied_keys.to_json(),
            "changedClients": self.changed_clients,
            "topChangedClients": clients,
        })
    }
}

// === impl RuleChange ===

impl RuleChange {
    /// The limit and its enforcement, and what they were if that changes.
    pub(crate) fn words(&self) -> String {
        let words = |totals: &Option<RuleTotals>| totals.as_ref().map(RuleTotals::words);
        match (words(&self.before), words(&self.after)) {
            (Some(before), Some(after)) if before == after => after,
            (Some(before), Some(after)) => format!("{after}, was {before}"),
            (None, Some(after)) => format!("{after} (new)"),
            (Some(before), None) => format!("{before} (removed)"),
            (None, None) => String::new(),
        }
    }

    /// The rule, what it was and what it is, and the requests that change because of it.
    fn to_json(&self) -> Value {
        let limit = |totals: &Option<RuleTotals>| {
            let totals = totals.as_ref();
            totals.map(|totals| {
                json!({
                    "limit": totals.limit,
                    "mode": totals.enforcement.name(),
                    "denied": totals.denied,
                })
            })
        };
        json!({
            "domain": self.rule.domain,
            "rule": self.rule.shown(),
            "before": limit(&self.before),
            "after": limit(&self.after),
            "newlyDenied": self.newly_denied,
            "noLongerDenied": self.no_longer_denied,
        })
    }
}

// === impl ChangedClient ===

impl ChangedClient {
    fn to_json(&self) -> Value {
        json!({
            "client": self.client,
            "newlyDenied": self.newly_denied,
            "noLongerDenied": self.no_longer_denied,
        })
    }
}

// === impl ComparisonSummary ===

impl fmt::Display for ComparisonSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = self.comparison;
        let (before, after) = (&comparison.before, &comparison.after);
        for warning in &after.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        for warning in before
            .warnings
            .iter()
            .filter(|old| !after.warnings.contains(old))
        {
            writeln!(f, "warning: old rules: {warning}")?;
        }
        if !(before.warnings.is_empty() && after.warnings.is_empty()) {
            writeln!(f)?;
        }
        let (excluded, skipped) = (
            self.traffic.excluded_events(),
            self.traffic.skipped_lines().count,
        );
        for (count, what) in [
            (after.events, &*Noun(after.events, "event").to_string()),
            (before.denied, "denied by the old rules"),
            (after.denied, "denied by the new rules"),
            (comparison.newly_denied, "newly denied"),
            (comparison.no_longer_denied, "no longer denied"),
            (skipped, &*format!("{} skipped", Noun(skipped, "line"))),
        ] {
            writeln!(f, "{count:>12} {what}")?;
        }
        if excluded > 0 {
            let events = Noun(excluded, "event");
            writeln!(f, "{excluded:>12} {events} not selected")?;
        }
        if let (Some(from), Some(to)) = (after.from, after.to) {
            writeln!(f, "\nfrom {} to {}", Utc(from), Utc(to))?;
        }
        self.rules(f)?;
        keys(&comparison.newly_denied_keys, "newly", f)?;
        keys(&comparison.no_longer_denied_keys, "no longer", f)?;
        self.clients(f)
    }
}

impl ComparisonSummary<'_> {
    /// Writes a row for each rule.
    fn rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.comparison.rules.is_empty() {
            return Ok(());
        }
        let [old, new, newly, no_longer] = ["old denied", "new denied", "newly", "no longer"];
        writeln!(f, "\n{old:>12} {new:>12} {newly:>12} {no_longer:>12}  rule")?;
        for change in &self.comparison.rules {
            let (before, after) = (&change.before, &change.after);
            let denied = |totals: &Option<RuleTotals>| {
                totals
                    .as_ref()
                    .map_or("-".to_owned(), |totals| totals.denied.to_string())
            };
            write!(
                f,
                "{:>12} {:>12} {:>12} {:>12}  {}/{}: ",
                denied(before),
                denied(after),
                change.newly_denied,
                change.no_longer_denied,
                Plain(&change.rule.domain),
                Plain(change.rule.shown()),
            )?;
            writeln!(f, "{}", change.words())?;
        }
        Ok(())
    }

    fn clients(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = self.comparison;
        if comparison.clients.is_empty() {
            return Ok(());
        }
        let (shown, of) = (comparison.clients.len(), comparison.changed_clients);
        let [newly, no_longer] = ["newly", "no longer"];
        writeln!(f, "\n{newly:>12} {no_longer:>12}  client ({shown} of {of})")?;
        for client in &comparison.clients {
            writeln!(
                f,
                "{:>12} {:>12}  {}",
                client.newly_denied,
                client.no_longer_denied,
                Plain(&client.client)
            )?;
        }
        Ok(())
    }
}
