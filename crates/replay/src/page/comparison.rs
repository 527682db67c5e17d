//! A comparison as a page of HTML: what changes, when, and for whom.

use std::fmt;
use std::sync::Arc;

use super::bounds::{input, write_reached};
use super::chart::Layer;
use super::escape::{Number, Text};
use super::key_rows::write_key_rows;
use super::totals::write_totals;
use super::{END, begin, chart, colour, escape_words, span, write_warning};
use crate::comparison::{Comparison, DirectionOverTime, RuleChange};
use crate::noun::Noun;
use crate::report::{RuleTotals, TopKeys};
use crate::survey::{PATTERNS_MAX, RULES_SHOWN_MAX, SLOTS_MAX};
use crate::traffic::Traffic;

/// A comparison and its traffic, as one self-contained page of HTML.
pub struct ComparisonPage<'a> {
    /// The comparison.
    pub comparison: &'a Comparison,
    /// The traffic.
    pub traffic: &'a Traffic,
}

/// The requests that change in one direction.
struct Direction<'a> {
    name: &'static str,
    class: &'static str,
    count: u64,
    keys: &'a TopKeys,
    over_time: &'a DirectionOverTime,
    /// The rules of the side that denies.
    rules: &'a [RuleTotals],
}

// === impl ComparisonPage ===

impl fmt::Display for ComparisonPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        begin("Tollgate replay: what changes", f)?;
        self.head(f)?;
        self.over_time(f)?;
        self.rules(f)?;
        for direction in self.directions() {
            direction.keys(f)?;
        }
        self.clients(f)?;
        input(self.traffic, f)?;
        self.bounds(f)?;
        f.write_str(END)
    }
}

impl<'a> ComparisonPage<'a> {
    /// Both directions, the newly denied first.
    fn directions(&self) -> [Direction<'a>; 2] {
        let comparison = self.comparison;
        [
            Direction {
                name: "newly denied",
                class: "denied",
                count: comparison.newly_denied,
                keys: &comparison.newly_denied_keys,
                over_time: &comparison.over_time.newly_denied,
                rules: &comparison.after.rules,
            },
            Direction {
                name: "no longer denied",
                class: "freed",
                count: comparison.no_longer_denied,
                keys: &comparison.no_longer_denied_keys,
                over_time: &comparison.over_time.no_longer_denied,
                rules: &comparison.before.rules,
            },
        ]
    }

    /// Writes the time, the warnings and the totals.
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = self.comparison;
        let (before, after) = (&comparison.before, &comparison.after);
        span(after, f)?;
        for warning in &after.warnings {
            write_warning(warning, "", f)?;
        }
        let of_old = before.warnings.iter();
        for warning in of_old.filter(|old| !after.warnings.contains(old)) {
            write_warning(warning, "old rules: ", f)?;
        }
        let totals = [
            ("offered", "offered", after.events),
            ("denied-before", "denied by the old rules", before.denied),
            ("denied-after", "denied by the new rules", after.denied),
            ("newly-denied", "newly denied", comparison.newly_denied),
            (
                "no-longer-denied",
                "no longer denied",
                comparison.no_longer_denied,
            ),
            (
                "changed-clients",
                "clients with a change",
                comparison.changed_clients,
            ),
        ];
        // Clients are not part of the requests.
        let shares = [
            "denied-before",
            "denied-after",
            "newly-denied",
            "no-longer-denied",
        ];
        write_totals(&totals, after.events, &shares, f)
    }

    /// Writes the charts of all outcomes, and of those that change.
    fn over_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = &self.comparison.over_time;
        let (newly, no_longer) = (&found.newly_denied.slots, &found.no_longer_denied.slots);
        let of_both = found.timeline.slots.iter().zip(newly).zip(no_longer);
        let of_both = of_both.map(|((slot, newly), no_longer)| {
            (slot.offered - slot.denied - no_longer, slot.denied - newly)
        });
        let (allowed, denied): (Vec<u64>, Vec<u64>) = of_both.unzip();
        let layer = |name, colour: &str, values: &[u64]| Layer {
            name,
            colour: colour.to_owned(),
            values: values.to_vec(),
        };
        let changes = || {
            [
                layer("no longer denied", "freed", no_longer),
                layer("newly denied", "denied", newly),
            ]
        };
        let mut outcomes = vec![
            layer("allowed by both", "allowed", &allowed),
            layer("denied by both", "both", &denied),
        ];
        let has_changes = self.directions().iter().any(|side| side.count > 0);
        f.write_str("<h2>Over time</h2>\n")?;
        if !has_changes {
            f.write_str("<p id=\"no-change\">No request changes its outcome.</p>\n")?;
        }
        outcomes.extend(changes());
        chart(
            &found.timeline,
            "Requests over time, by what the old and the new rules decide",
            outcomes,
            f,
        )?;
        if !has_changes {
            return Ok(());
        }
        let label = "Only the requests that change their outcome";
        chart(&found.timeline, label, changes().into(), f)
    }

    /// Writes the table of the rules of both sides, and which of them change outcomes when.
    fn rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "<h2>By rule</h2>\n<p class=\"faint\">A request that several limits deny counts for \
             the one with the longest wait. A request that one rule denies instead of another does \
             not change.</p>\n<div class=\"scroll\"><table>\n<tr><th>rule</th><th>limit</th>\
             <th class=\"number\">old denied</th><th class=\"number\">new denied</th>\
             <th class=\"number\">newly</th><th class=\"number\">no longer</th></tr>\n",
        )?;
        for (index, change) in self.comparison.rules.iter().enumerate() {
            row(index, change, f)?;
        }
        f.write_str("</table></div>\n")?;
        for direction in self.directions() {
            if direction.count > 0 {
                self.chart_by_rule(&direction, f)?;
            }
        }
        Ok(())
    }

    /// Writes the chart of the rules that deny the requests of a direction.
    fn chart_by_rule(&self, side: &Direction<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_rule = side.over_time.by_rule.iter().enumerate();
        let denying = by_rule.filter(|(_, values)| values.iter().any(|count| *count > 0));
        let layers = denying.map(|(index, values)| {
            let totals = side.rules.get(index).filter(|_| index < RULES_SHOWN_MAX);
            Layer {
                name: totals.map_or("other rules", |totals| totals.rule.shown()),
                colour: colour(totals.map_or(RULES_SHOWN_MAX, |totals| self.place(totals))),
                values: values.clone(),
            }
        });
        let denies = if side.class == "freed" {
            "denied"
        } else {
            "denies"
        };
        let label = format!(
            "Requests that are {}, by the rule that {denies} them",
            side.name
        );
        let timeline = &self.comparison.over_time.timeline;
        chart(timeline, &label, layers.collect(), f)
    }

    /// The row of a rule in the table.
    fn place(&self, totals: &RuleTotals) -> usize {
        let is_same = |side: &Option<RuleTotals>| {
            side.as_ref()
                .is_some_and(|side| Arc::ptr_eq(&side.rule, &totals.rule))
        };
        let mut rules = self.comparison.rules.iter();
        rules
            .position(|change| is_same(&change.before) || is_same(&change.after))
            .unwrap_or(RULES_SHOWN_MAX)
    }

    /// Writes the clients whose requests change.
    fn clients(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = self.comparison;
        if comparison.clients.is_empty() {
            return Ok(());
        }
        let shown = comparison.clients.iter().take(PATTERNS_MAX);
        writeln!(
            f,
            "<h2>By client</h2>\n<p class=\"faint\">The {} {} with the most requests that \
             change, of {}.</p>\n<div class=\"scroll\"><table id=\"clients\">\n\
             <tr><th>client</th><th class=\"number\">newly denied</th>\
             <th class=\"number\">no longer denied</th></tr>",
            shown.len(),
            Noun(shown.len(), "client"),
            Number(comparison.changed_clients)
        )?;
        let mut rest = [comparison.newly_denied, comparison.no_longer_denied];
        for client in shown {
            let changes = [client.newly_denied, client.no_longer_denied];
            rest = [0, 1].map(|side| rest[side].saturating_sub(changes[side]));
            writeln!(
                f,
                "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
                Text(&client.client),
                Number(changes[0]),
                Number(changes[1])
            )?;
        }
        if rest != [0, 0] {
            writeln!(
                f,
                "<tr><td>others</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
                Number(rest[0]),
                Number(rest[1])
            )?;
        }
        f.write_str("</table></div>\n")
    }

    /// Writes the bounds of this page, and which of them were reached.
    fn bounds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "<h2>Bounds</h2>\n<p class=\"faint\">At most {SLOTS_MAX} slots of time, \
             {RULES_SHOWN_MAX} rules of a side one by one in the charts, and {PATTERNS_MAX} keys \
             and clients in a table; the rows of the others are added up.</p>"
        )?;
        let comparison = self.comparison;
        let mut reached = Vec::new();
        for (name, report) in [("old", &comparison.before), ("new", &comparison.after)] {
            if report.rules.len() > RULES_SHOWN_MAX {
                reached.push(format!(
                    "Of {} {name} rules, the first {RULES_SHOWN_MAX} are in the charts one by one.",
                    report.rules.len()
                ));
            }
        }
        write_reached(&reached, f)
    }
}

/// Writes the row of a rule.
fn row(index: usize, change: &RuleChange, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let denied = |totals: &Option<RuleTotals>| match totals {
        Some(totals) => Number(totals.denied).to_string(),
        None => "–".to_owned(),
    };
    let limit = escape_words(&change.words());
    writeln!(
        f,
        "<tr><td><i class=\"key {}\"></i>{}/{}</td><td>{limit}</td><td class=\"number\">{}</td>\
         <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
        colour(index),
        Text(&change.rule.domain),
        Text(change.rule.shown()),
        denied(&change.before),
        denied(&change.after),
        Number(change.newly_denied),
        Number(change.no_longer_denied),
    )
}

// === impl Direction ===

impl Direction<'_> {
    /// Writes the keys with the most requests that change.
    fn keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.keys.first.is_empty() {
            return Ok(());
        }
        let shown = self.keys.first.iter().take(PATTERNS_MAX);
        let (name, class) = (self.name, self.class);
        writeln!(
            f,
            "<h2>Keys: {name}</h2>\n<p class=\"faint\">The {} {} with the most requests that are \
             {name}, of {}.</p>\n<div class=\"scroll\"><table id=\"keys-{class}\">\n\
             <tr><th>key</th><th>rule</th><th class=\"number\">{name}</th><th class=\"bar\"></th>\
             </tr>",
            shown.len(),
            Noun(shown.len(), "key"),
            Number(self.keys.count)
        )?;
        let of_shown: u64 = shown.clone().map(|key| key.denied).sum();
        let rest = self.count.saturating_sub(of_shown);
        write_key_rows(shown, class, f)?;
        if rest > 0 {
            writeln!(
                f,
                "<tr><td>others</td><td></td><td class=\"number\">{}</td><td></td></tr>",
                Number(rest)
            )?;
        }
        f.write_str("</table></div>\n")
    }
}
