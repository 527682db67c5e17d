//! What each algorithm does to constant traffic, below and above its limit.

use std::fmt::Write;
use std::ops::ControlFlow;

use serde_json::{Value, json};
use tollgate_core::Moment;
use tollgate_replay::{EVENTS_MAX, Memories, Simulation, Workload, WorkloadTotals};

use crate::message::with_causes;
use crate::output::{self, Output};
use crate::replay::failure::Failure;
use crate::suggest::{AlgorithmChoice, TriedLimits, TriedRules, tried_rules};

/// The requests per unit of the limit that are offered.
const OFFERED: [u32; 8] = [1, 2, 5, 10, 20, 25, 50, 100];
/// How long traffic is offered, in units of the limit.
const UNITS: u64 = 60;
/// The version of the JSON object.
const JSON_VERSION: u32 = 1;
const KEY: &str = "client";

/// What an algorithm does with an offered rate.
struct Row {
    algorithm: &'static str,
    offered: u32,
    totals: WorkloadTotals,
}

/// Simulates every algorithm and offered rate under each limit, and prints what came of it.
pub(super) fn print(limits: &TriedLimits, output: Output) -> Result<(), Failure> {
    let mut text = String::new();
    let mut tables = Vec::new();
    let unit = limits.unit();
    let all = [AlgorithmChoice::All];
    let keys = [KEY.to_owned()];
    let tried = tried_rules("--limit", "table", &keys, limits, &all).map_err(Failure::Message)?;
    for tried in tried.chunks(AlgorithmChoice::names(&all).len()) {
        let rows = rows(tried, limits).map_err(Failure::Message)?;
        match output {
            Output::Human => add_text(tried[0].count, unit, &rows, &mut text),
            Output::Json => tables.push(json!({
                "limit": tried[0].limit,
                "units": UNITS,
                "rows": rows.iter().map(Row::to_json).collect::<Value>(),
            })),
        }
    }
    if output == Output::Json {
        text = format!("{:#}\n", json!({"version": JSON_VERSION, "tables": tables}));
    }
    output::print(&text).map_err(Failure::Message)
}

/// Simulates every algorithm and offered rate for one limit.
fn rows(tried: &[TriedRules], limits: &TriedLimits) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for tried in tried {
        for offered in OFFERED {
            let simulation = Simulation {
                workloads: vec![workload(offered, limits)?],
                seed: 0,
                start: Moment::ZERO,
                domain: "table".to_owned(),
                descriptors: vec![format!("{KEY}={{client}}").parse().expect("it is valid")],
                memories: Memories::Unbounded,
                events_max: EVENTS_MAX,
            };
            let simulated = simulation.run(&tried.rules, &mut |_| ControlFlow::Continue(()));
            let (_, totals) = simulated.map_err(|error| with_causes(&error))?;
            rows.extend(totals.into_iter().map(|totals| Row {
                algorithm: tried.algorithm,
                offered,
                totals,
            }));
        }
    }
    Ok(rows)
}

/// Constant traffic of one client, for [`UNITS`] of the limit.
fn workload(offered: u32, limits: &TriedLimits) -> Result<Workload, String> {
    let (unit, length) = (limits.unit(), limits.window() * UNITS);
    let words = format!("constant {offered}/{unit} for {length}");
    words.parse().map_err(|error| with_causes(&error))
}

/// Adds the rows of a limit as a table, with a line between two algorithms.
fn add_text(count: u32, unit: &str, rows: &[Row], text: &mut String) {
    let blank = if text.is_empty() { "" } else { "\n" };
    let units = match unit.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("times {unit}"),
        false => format!("{unit}s"),
    };
    // A `String` takes whatever is written.
    let _ = writeln!(
        text,
        "{blank}one client, {count} per {unit}, {UNITS} {units} of constant traffic\n\n\
         {:<16} {:>14} {:>9} {:>9} {:>12} {:>13}",
        "algorithm", "offered", "allowed", "denied", "longest wait", "longest delay"
    );
    for row in rows {
        let offered = format!("{}/{unit}", row.offered);
        let (allowed, denied) = (row.totals.allowed, row.totals.given_up());
        let (wait, delay) = (row.totals.longest_wait, row.totals.longest_delay);
        let _ = writeln!(
            text,
            "{:<16} {offered:>14} {allowed:>9} {denied:>9} {:>12} {:>13}",
            row.algorithm,
            wait.to_string(),
            delay.to_string(),
        );
    }
}

// === impl Row ===

impl Row {
    fn to_json(&self) -> Value {
        let mut json = self.totals.to_json();
        json["algorithm"] = json!(self.algorithm);
        json["offeredPerUnit"] = json!(self.offered);
        json
    }
}
