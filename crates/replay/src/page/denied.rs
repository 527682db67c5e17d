//! Who is denied: a card for each of the keys that are denied most; and who shadow rules would
//! deny, in a table.

use std::fmt;

use super::Page;
use super::chart::{Bars, Layer};
use super::escape::{Number, Percent, Text};
use super::key_rows::{write_descriptor, write_key_rows};
use crate::noun::Noun;
use crate::survey::{DeniedPattern, Most, PATTERNS_MAX};
use crate::timestamp::Utc;

impl Page<'_> {
    /// Writes the keys that are denied most.
    pub(super) fn patterns(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, of) = (self.survey.denied.len(), self.report.denied_keys.count);
        f.write_str("<h2>Who is denied</h2>\n")?;
        if shown == 0 {
            return f.write_str("<p>Nobody.</p>\n");
        }
        writeln!(
            f,
            "<p class=\"faint\">The {shown} {} with the most denials, of {}.</p>",
            Noun(shown, "key"),
            Number(of)
        )?;
        f.write_str("<div class=\"cards\">\n")?;
        for pattern in &self.survey.denied {
            self.card(pattern, f)?;
        }
        f.write_str("</div>\n")
    }

    /// Writes the keys that shadow rules would deny, if there are any.
    pub(super) fn shadow_keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = &self.report.shadow_keys;
        if keys.first.is_empty() {
            return Ok(());
        }
        let shown = keys.first.iter().take(PATTERNS_MAX);
        writeln!(
            f,
            "<h2>Who shadow rules would deny</h2>\n<p class=\"faint\">The {} {} with the most \
             requests that shadow rules would deny, of {}.</p>\n<div class=\"scroll\">\
             <table id=\"shadow-keys\">\n<tr><th>key</th><th>rule</th>\
             <th class=\"number\">would deny</th><th class=\"bar\"></th></tr>",
            shown.len(),
            Noun(shown.len(), "key"),
            Number(keys.count)
        )?;
        write_key_rows(shown, "both", f)?;
        f.write_str("</table></div>\n")
    }

    /// Writes what is known of one key.
    fn card(&self, pattern: &DeniedPattern, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<article>\n<h3>")?;
        write_descriptor(&pattern.descriptor, f)?;
        f.write_str("</h3>\n")?;
        let bars = Bars {
            class: "spark",
            label: "Requests of this key over time",
            timeline: &self.survey.timeline,
            layers: Layer::outcomes("others of this key", &pattern.slots),
        };
        writeln!(f, "{bars}\n<table>")?;
        let (part, of) = (pattern.denied, pattern.offered);
        let run = &pattern.longest_run;
        let rows = [
            ("rule", Text(pattern.rule.shown()).to_string()),
            (
                "denied",
                format!(
                    "{} of {} ({})",
                    Number(part),
                    Number(of),
                    Percent { part, of }
                ),
            ),
            (
                "peak",
                format!(
                    "{} in a second, {} in a minute",
                    Number(pattern.peak_second),
                    Number(pattern.peak_minute)
                ),
            ),
            ("first denial", Utc(pattern.first).to_string()),
            ("last denial", Utc(pattern.last).to_string()),
            (
                "longest run of denials",
                format!("{} in {}", Number(run.requests), run.length),
            ),
        ];
        for (name, value) in rows {
            writeln!(f, "<tr><td>{name}</td><td>{value}</td></tr>")?;
        }
        most("path", &pattern.paths, f)?;
        most("user agent", &pattern.user_agents, f)?;
        f.write_str("</table>\n</article>\n")
    }
}

/// Writes the most frequent values, if there are any.
fn most(name: &str, most: &Most, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if most.first.is_empty() {
        return Ok(());
    }
    let s = if most.first.len() == 1 && most.others == 0 {
        ""
    } else {
        "s"
    };
    write!(f, "<tr><td>{name}{s}</td><td>")?;
    for (value, count) in &most.first {
        let shown = if value.is_empty() { "(none)" } else { value };
        write!(f, "<code><b>{}×</b> {}</code>", Number(*count), Text(shown))?;
    }
    if most.others > 0 {
        write!(f, "{}× others", Number(most.others))?;
    }
    f.write_str("</td></tr>\n")
}
