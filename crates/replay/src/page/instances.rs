//! What instances that share limits allowed beside a single one, and what it cost.

use std::fmt;

use super::escape::{Number, Text};
use super::totals::write_totals;
use crate::deviation::Deviation;

/// What a page shows of instances that share limits.
#[derive(Clone, Debug)]
pub struct InstancesSection {
    /// Its title, such as `3 instances over Redis`.
    pub title: String,
    /// What they allowed beside a single instance.
    pub deviation: Deviation,
    /// What it cost: each count with its identifier and what it counts.
    pub counts: Vec<(&'static str, &'static str, u64)>,
    /// What is to be said of limits whose mode has no effect, in a sentence each.
    pub notes: Vec<String>,
}

impl fmt::Display for InstancesSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "<h2 id=\"instances\">{}</h2>\n<div class=\"scroll\"><table>\n<tr><th>rule</th>\
             <th>limit</th><th class=\"number\">exact</th><th class=\"number\">allowed</th>\
             <th class=\"number\">over</th><th class=\"number\">under</th></tr>",
            Text(&self.title)
        )?;
        for rule in &self.deviation.rules {
            write!(
                f,
                "<tr><td>{}/{}</td><td>{}</td>",
                Text(&rule.rule.domain),
                Text(rule.rule.shown()),
                Text(&rule.limit)
            )?;
            for count in [rule.exact, rule.allowed, rule.over, rule.under] {
                write!(f, "<td class=\"number\">{}</td>", Number(count))?;
            }
            f.write_str("</tr>\n")?;
        }
        f.write_str(
            "</table></div>\n<p class=\"faint\">Exact: of these requests, retries among them, \
             those that a single instance allows. Over and under: of each key, those beyond it \
             and those that are missing from it, added up.</p>\n",
        )?;
        write_totals(&self.counts, 0, &[], f)?;
        for note in &self.notes {
            writeln!(f, "<p class=\"faint\">{}</p>", Text(note))?;
        }
        Ok(())
    }
}
