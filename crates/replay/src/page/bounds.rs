//! What a page does not show: skipped lines, and the bounds that were reached.

use std::fmt;

use super::Page;
use super::escape::{Number, Text};
use crate::noun::Noun;
use crate::survey::{DETAILS_MAX, DISTRIBUTION_KEYS_MAX, PATTERNS_MAX, RULES_SHOWN_MAX, SLOTS_MAX};
use crate::traffic::Traffic;

impl Page<'_> {
    /// Writes the bounds of this page, and which of them were reached.
    pub(super) fn bounds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "<h2>Bounds</h2>\n<p class=\"faint\">At most {SLOTS_MAX} slots of time, \
             {RULES_SHOWN_MAX} rules one by one, {PATTERNS_MAX} denied keys, {DETAILS_MAX} \
             paths and user agents of each, and {} keys of a rule in a window.</p>",
            Number(u64::try_from(DISTRIBUTION_KEYS_MAX).unwrap_or(u64::MAX))
        )?;
        let reached = self.list_of_reached();
        write_reached(&reached, f)
    }

    /// The bounds that were reached.
    fn list_of_reached(&self) -> Vec<String> {
        let mut reached = Vec::new();
        let (rules, survey) = (&self.report.rules, self.survey);
        if rules.len() > RULES_SHOWN_MAX {
            reached.push(format!(
                "Of {} rules, the first {RULES_SHOWN_MAX} are in the charts one by one.",
                rules.len()
            ));
        }
        for (totals, found) in rules.iter().zip(&survey.distributions) {
            if found.uncounted > 0 {
                reached.push(format!(
                    "{} requests of {} are missing in its distribution: more keys had \
                     requests in a window than are counted.",
                    Number(found.uncounted),
                    Text(totals.rule.shown())
                ));
            }
        }
        let is_full = |most: &crate::survey::Most| most.is_full;
        let full = survey
            .denied
            .iter()
            .filter(|pattern| is_full(&pattern.paths) || is_full(&pattern.user_agents));
        let full = full.count();
        if full > 0 {
            reached.push(format!(
                "{full} denied keys have more than {DETAILS_MAX} paths or user agents: those that \
                 came later are counted as others."
            ));
        }
        reached
    }
}

/// Writes why lines were skipped, and the first of them.
pub(super) fn input(traffic: &Traffic, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let skipped = traffic.skipped_lines();
    let excluded = traffic.excluded_events();
    writeln!(
        f,
        "<h2>Input</h2>\n<p>{} {}; skipped: {}, not selected: {}.</p>",
        Number(u64::from(traffic.lines())),
        Noun(traffic.lines(), "line"),
        Number(skipped.count),
        Number(excluded)
    )?;
    if skipped.count == 0 {
        return Ok(());
    }
    f.write_str("<div class=\"scroll\"><table>\n<tr><th class=\"number\">lines</th>")?;
    f.write_str("<th>reason</th></tr>\n")?;
    for (reason, count) in &skipped.reasons {
        let (count, reason) = (Number(*count), Text(reason));
        writeln!(
            f,
            "<tr><td class=\"number\">{count}</td><td>{reason}</td></tr>"
        )?;
    }
    f.write_str("</table></div>\n<p>The first of them:</p>\n<ul>\n")?;
    for line in &skipped.first {
        let place = traffic.place(line.line);
        let input = place.input.unwrap_or_default();
        writeln!(
            f,
            "<li>{} line {}: {}<code>{}</code></li>",
            Text(input),
            place.line,
            Text(&line.reason),
            Text(&line.excerpt)
        )?;
    }
    f.write_str("</ul>\n")
}

/// Writes which bounds were reached.
pub(super) fn write_reached(reached: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if reached.is_empty() {
        return f.write_str("<p id=\"bounds\">None was reached.</p>\n");
    }
    f.write_str("<ul id=\"bounds\">\n")?;
    for text in reached {
        writeln!(f, "<li>{text}</li>")?;
    }
    f.write_str("</ul>\n")
}
