//! A report as one page of HTML: no scripts, nothing from the network, charts as SVG.
//!
//! Whatever comes from a log or a rules file goes through [`escape::Text`].

use std::fmt;

use crate::noun::Noun;
use crate::page::chart::{Bar, Bars, Layer};
use crate::page::escape::{Number, Text};
use crate::page::totals::write_totals;
use crate::report::Report;
use crate::survey::{Distribution, RULES_SHOWN_MAX, Survey, Timeline, WAITS};
use crate::timestamp::Utc;
use crate::traffic::Traffic;
use crate::warning::Warning;

mod bounds;
mod chart;
mod comparison;
mod denied;
mod escape;
mod instances;
mod key_rows;
mod simulation;
mod totals;

pub use comparison::ComparisonPage;
pub use instances::InstancesSection;
pub use simulation::SimulationSection;

const STYLE: &str = include_str!("page/style.css");
/// What the page may load: its own style and nothing else.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
/// What ends a page.
const END: &str = "</main>\n</body>\n</html>\n";
/// How many colours of rules there are; further rules begin again with the first.
const COLOURS: usize = 8;

/// A report, what a closer look found, and the traffic, as one self-contained page of HTML.
pub struct Page<'a> {
    /// The report.
    pub report: &'a Report,
    /// The closer look.
    pub survey: &'a Survey,
    /// The traffic.
    pub traffic: &'a Traffic,
    /// What was simulated, if the traffic was.
    pub simulation: Option<&'a SimulationSection>,
}

// === impl Page ===

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = match self.simulation {
            Some(_) => "Tollgate simulate",
            None => "Tollgate replay",
        };
        begin(title, f)?;
        self.head(f)?;
        if let Some(simulation) = self.simulation {
            write!(f, "{simulation}")?;
        }
        self.over_time(f)?;
        self.rules(f)?;
        self.patterns(f)?;
        self.shadow_keys(f)?;
        self.waits(f)?;
        self.distributions(f)?;
        bounds::input(self.traffic, f)?;
        self.bounds(f)?;
        f.write_str(END)
    }
}

impl Page<'_> {
    /// Writes the title, the warnings and the totals.
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        span(report, f)?;
        for warning in &report.warnings {
            write_warning(warning, "", f)?;
        }
        let mut totals = vec![
            ("offered", "offered", report.events),
            ("allowed", "allowed", report.allowed),
            ("denied", "denied", report.denied),
            ("failed", "without an answer", report.failed),
            ("without-limit", "met no limit", report.without_limit),
            ("denied-keys", "denied keys", report.denied_keys.count),
        ];
        // Only instances that share limits have such.
        totals.retain(|(id, _, count)| *id != "failed" || *count > 0);
        let shares = ["allowed", "denied"];
        write_totals(&totals, report.events, &shares, f)
    }

    /// Writes the chart of allowed and denied requests, and of those without an answer.
    fn over_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = &self.survey.timeline.slots;
        let layers = Layer::outcomes("allowed", slots);
        let label = match self.report.failed {
            0 => "Allowed and denied requests over time; together, what was offered",
            _ => {
                "Requests over time: allowed, denied and without an answer; together, what was \
                 offered"
            }
        };
        f.write_str("<h2>Over time</h2>\n")?;
        chart(&self.survey.timeline, label, layers, f)
    }

    /// Writes the table of rules, and the chart of what each denied.
    fn rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "<h2>By rule</h2>\n<div class=\"scroll\"><table>\n<tr><th>rule</th><th>limit</th>\
             <th class=\"number\">judged</th><th class=\"number\">over</th>\
             <th class=\"number\">denied</th></tr>\n",
        )?;
        for (index, totals) in self.report.rules.iter().enumerate() {
            let mode = totals.enforcement.name();
            let mode = if mode == "enforce" { "" } else { mode };
            writeln!(
                f,
                "<tr><td><i class=\"key {}\"></i>{}/{}</td><td>{} {mode}</td>\
                 <td class=\"number\">{}</td><td class=\"number\">{}</td>\
                 <td class=\"number\">{}</td></tr>",
                colour(index),
                Text(&totals.rule.domain),
                Text(totals.rule.shown()),
                Text(&totals.limit),
                Number(totals.judged),
                Number(totals.over),
                Number(totals.denied),
            )?;
        }
        f.write_str("</table></div>\n")?;
        if self.report.denied == 0 {
            return Ok(());
        }
        let by_rule = self.survey.denied_by_rule.iter().enumerate();
        let denying = by_rule.filter(|(_, values)| values.iter().any(|count| *count > 0));
        let layers = denying.map(|(index, values)| Layer {
            name: match self.report.rules.get(index) {
                Some(totals) if index < RULES_SHOWN_MAX => totals.rule.shown(),
                _ => "other rules",
            },
            colour: colour(index),
            values: values.clone(),
        });
        chart(
            &self.survey.timeline,
            "Denied requests over time, by the rule that denied them",
            layers.collect(),
            f,
        )
    }

    /// Writes how long denied clients would wait.
    fn waits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let survey = self.survey;
        if self.report.denied == 0 {
            return Ok(());
        }
        f.write_str(
            "<h2>How long denied clients would wait</h2>\n\
             <p class=\"faint\">Until the same request \
             would be allowed if nobody else came: what `Retry-After` says.</p>\n",
        )?;
        let longest = format!("longer than {}", WAITS[WAITS.len() - 1]);
        let bounds = WAITS.iter().map(|bound| format!("up to {bound}"));
        let names = bounds.chain([longest, "for ever: never allowed".to_owned()]);
        let counts = survey.waits.iter().chain([&survey.never]).copied();
        let rows: Vec<_> = names.zip(counts).collect();
        table(["wait", "denied requests"], &rows, "denied", f)
    }

    /// Writes how many requests keys have in a window, for each rule.
    fn distributions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "<h2>Requests per key and window</h2>\n<p class=\"faint\">How many requests a key had \
             in a window of its rule's length, aligned to UTC; windows without a request are not \
             counted.</p>\n",
        )?;
        for (totals, found) in self.report.rules.iter().zip(&self.survey.distributions) {
            if found.counts.is_empty() {
                continue;
            }
            writeln!(
                f,
                "<h3>{}/{}: {}; at most {} in {}</h3>",
                Text(&totals.rule.domain),
                Text(totals.rule.shown()),
                Text(&totals.limit),
                Number(found.most),
                found.window
            )?;
            let counts = found.counts.iter().enumerate();
            let rows: Vec<_> = counts
                .map(|(place, count)| (range(place), *count))
                .collect();
            table(["requests", "windows of a key"], &rows, "allowed", f)?;
        }
        Ok(())
    }
}

/// Writes all that precedes the body of a page, and its title.
fn begin(title: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>"
    )
}

/// Writes the time of the first event and of the last.
fn span(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (report.from, report.to) {
        (Some(from), Some(to)) => {
            writeln!(f, "<p class=\"faint\">{} to {}</p>", Utc(from), Utc(to))
        }
        _ => Ok(()),
    }
}

/// Writes a warning about some of the rules, which `about` names.
fn write_warning(warning: &Warning, about: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (code, text) = (warning.code(), warning.to_string());
    // The message has values that are shortened one by one, so it is not cut as a whole.
    let text = escape_words(&text);
    writeln!(
        f,
        "<p class=\"warning\" id=\"warning-{code}\">Warning: {about}{text}</p>"
    )
}

/// Escapes text whose words are shortened one by one.
fn escape_words(text: &str) -> String {
    let words = text.split_inclusive(' ');
    words.map(|word| Text(word).to_string()).collect()
}

/// Writes stacked bars over time, with a legend and axes.
fn chart(
    timeline: &Timeline,
    label: &str,
    layers: Vec<Layer<'_>>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let bars = Bars {
        class: "chart",
        label,
        timeline,
        layers,
    };
    f.write_str("<figure>\n<div class=\"legend\">")?;
    for layer in &bars.layers {
        let (colour, name) = (&layer.colour, Text(layer.name));
        write!(f, "<span><i class=\"key {colour}\"></i>{name}</span>")?;
    }
    write!(
        f,
        "</div>\n<div class=\"axis\"><span>{} {} in {}</span></div>\n{bars}\n",
        Number(bars.most()),
        Noun(bars.most(), "request"),
        timeline.length
    )?;
    let slots = timeline.slots.len();
    write!(
        f,
        "<div class=\"axis\"><span>{}</span>",
        Utc(timeline.start(0))
    )?;
    if slots > 2 {
        write!(f, "<span>{}</span>", Utc(timeline.start(slots / 2)))?;
    }
    let end = Utc(timeline.start(slots));
    writeln!(
        f,
        "<span>{end}</span></div>\n<figcaption>{}.</figcaption>\n</figure>",
        Text(label)
    )
}

/// The numbers of requests that a place of a distribution stands for.
fn range(place: usize) -> String {
    match Distribution::range(place) {
        (from, to) if from == to => Number(from).to_string(),
        (from, to) => format!("{} to {}", Number(from), Number(to)),
    }
}

/// Writes a table of counts with bars.
fn table(
    heads: [&str; 2],
    rows: &[(String, u64)],
    colour: &'static str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let [name, count] = heads;
    writeln!(
        f,
        "<div class=\"scroll\"><table>\n<tr><th>{name}</th><th class=\"number\">{count}</th>\
         <th class=\"bar\"></th></tr>"
    )?;
    for (name, value) in rows {
        let (count, bar) = (
            Number(*value),
            Bar {
                value: *value,
                most,
                colour,
            },
        );
        writeln!(
            f,
            "<tr><td>{name}</td><td class=\"number\">{count}</td><td class=\"bar\">{bar}</td></tr>"
        )?;
    }
    f.write_str("</table></div>\n")
}

/// The class of a rule's colour.
fn colour(rule: usize) -> String {
    format!("r{}", rule % COLOURS)
}
