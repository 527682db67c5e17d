//! What a replay found: a report or a comparison, how it is written, and the exit status.

use std::io::{self, ErrorKind, Write};

use serde_json::{Map, Value};
use tollgate_replay::{
    Checked, Comparison, ComparisonPage, ComparisonSummary, Counted, Page, Report,
    SimulationSection, Summary, Survey, Traffic,
};

use super::failure::{Failure, is_standard};
use super::report_args::ReportArgs;
use crate::output::{self, Output};
use crate::output_file;
use crate::printable::json_lines;

/// What stands before a report, and the members that it adds to the JSON object.
#[derive(Default)]
pub(crate) struct Preface {
    pub(crate) text: String,
    pub(crate) members: Map<String, Value>,
    /// What the page shows of simulated traffic.
    pub(crate) simulation: Option<SimulationSection>,
}

/// What a replay found.
pub(crate) enum Found {
    /// What came of the events.
    Report(Box<Report>),
    /// The same, with a closer look for the page of HTML.
    Survey(Box<(Report, Survey)>),
    /// What changes.
    Comparison(Box<Comparison>),
}

// === impl Found ===

impl Found {
    /// Writes the report to standard output, or to standard error if that has the decisions, and
    /// the page if one is asked for. Then fails if a condition holds. What cannot be written keeps
    /// nothing else from being done.
    pub(crate) fn write(
        &self,
        args: &ReportArgs,
        traffic: &Traffic,
        preface: Preface,
    ) -> Result<(), Failure> {
        let counted = Counted {
            report: self.report(),
            traffic,
            comparison: match self {
                Found::Report(_) | Found::Survey(_) => None,
                Found::Comparison(comparison) => Some(comparison),
            },
        };
        let page = self.to_page(traffic, preface.simulation.as_ref());
        let conditions = args.fail_if.iter();
        let conditions: Vec<Checked> = conditions
            .map(|condition| condition.check(&counted))
            .collect();
        let text = match args.output.or_json(args.json) {
            Output::Human => preface.text + &self.to_text(traffic),
            Output::Json => {
                let mut json = self.to_json(traffic);
                for (name, value) in preface.members {
                    json[name] = value;
                }
                if !conditions.is_empty() {
                    json["conditions"] = conditions.iter().map(Checked::to_json).collect();
                }
                json_lines(&json)
            }
        };
        let has_decisions = args.decisions.as_deref().is_some_and(is_standard);
        let printed = print(&text, has_decisions);
        let written = match (&args.report, page) {
            (Some(path), Some(page)) => output_file::write(path, &page).map_err(Failure::Message),
            _ => Ok(()),
        };
        last_failure([printed, written, fail_if_any(&conditions)])
    }

    /// The report; of a comparison, that of the new rules.
    fn report(&self) -> &Report {
        match self {
            Found::Report(report) => report,
            Found::Survey(found) => &found.0,
            Found::Comparison(comparison) => &comparison.after,
        }
    }

    fn to_text(&self, traffic: &Traffic) -> String {
        match self {
            Found::Comparison(comparison) => ComparisonSummary {
                comparison,
                traffic,
            }
            .to_string(),
            found => Summary {
                report: found.report(),
                traffic,
            }
            .to_string(),
        }
    }

    /// The page of HTML; `None` without a closer look.
    fn to_page(&self, traffic: &Traffic, simulation: Option<&SimulationSection>) -> Option<String> {
        match self {
            Found::Report(_) => None,
            Found::Survey(found) => {
                let (report, survey) = found.as_ref();
                let page = Page {
                    report,
                    survey,
                    traffic,
                    simulation,
                };
                Some(page.to_string())
            }
            Found::Comparison(comparison) => {
                let page = ComparisonPage {
                    comparison,
                    traffic,
                };
                Some(page.to_string())
            }
        }
    }

    fn to_json(&self, traffic: &Traffic) -> Value {
        match self {
            Found::Comparison(comparison) => comparison.to_json(traffic),
            found => found.report().to_json(traffic),
        }
    }
}

/// Writes to standard output or standard error. A closed pipe is not an error.
pub(super) fn print(text: &str, to_error: bool) -> Result<(), Failure> {
    if !to_error {
        return output::print(text).map_err(Failure::Message);
    }
    match io::stderr().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Message(format!(
            "cannot write to standard error: {error}"
        ))),
        _ => Ok(()),
    }
}

/// The last failure; those before it are printed here.
fn last_failure(outcomes: [Result<(), Failure>; 3]) -> Result<(), Failure> {
    let mut failures: Vec<Failure> = outcomes.into_iter().filter_map(Result::err).collect();
    let last = failures.pop();
    for failure in failures {
        failure.print();
    }
    last.map_or(Ok(()), Err)
}

/// Fails if a condition holds or cannot be judged, and says which.
fn fail_if_any(conditions: &[Checked]) -> Result<(), Failure> {
    let holding = conditions.iter().filter(|checked| checked.holds);
    let holding: Vec<String> = holding.map(ToString::to_string).collect();
    if !holding.is_empty() {
        return Err(Failure::Condition(format!(
            "--fail-if {}",
            holding.join("\n  --fail-if ")
        )));
    }
    match conditions.iter().find(|checked| !checked.is_judged) {
        None => Ok(()),
        Some(checked) => Err(Failure::Message(format!(
            "--fail-if {} cannot be judged, because no event met a limit: compare the domain and \
             the keys with those of the rules, or use `without_limit` if no limit is expected",
            checked.condition
        ))),
    }
}
