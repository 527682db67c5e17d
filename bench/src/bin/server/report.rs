//! The results for people, as JSON, and as a picture.

use std::fmt;

use serde_json::{Value, json};
use tollgate_bench::chart::Panel;

use crate::measure::Figures;
use crate::target::targets;

/// The contender with which the others are compared.
const COMPARED: &str = "redis INCR";
/// Below this share of its core, a server waited: for the load generator, or for other processes.
const BUSY_LEAST: f64 = 0.9;

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How each contender was started, and what could not be had.
    notes: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    load: String,
    contender: String,
    /// Whether requests were sent by a schedule.
    is_paced: bool,
    figures: Figures,
}

// === impl Report ===

impl Report {
    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(crate) fn add(&mut self, load: &str, contender: &str, is_paced: bool, figures: Figures) {
        self.rows.push(Row {
            load: load.to_owned(),
            contender: contender.to_owned(),
            is_paced,
            figures,
        });
    }

    /// The figures of a contender under a load in a closed loop.
    pub(crate) fn find(&self, load: &str, contender: &str) -> Option<Figures> {
        let mut rows = self.rows.iter().filter(|row| !row.is_paced);
        let row = rows.find(|row| row.load == load && row.contender == contender);
        row.map(|row| row.figures)
    }

    /// A figure of ours divided by that of another contender.
    pub(crate) fn ratio(
        &self,
        load: &str,
        ours: &str,
        other: &str,
        figure: fn(&Figures) -> f64,
    ) -> Option<f64> {
        let (ours, other) = (self.find(load, ours)?, self.find(load, other)?);
        Some(figure(&ours) / figure(&other))
    }

    /// All figures.
    pub(crate) fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            json!({
                "load": row.load,
                "is_paced": row.is_paced,
                "contender": row.contender,
                "decisions_per_second": row.figures.per_second,
                "server_cpu_us_per_decision": row.figures.cpu_micros,
                "p50_us": row.figures.p50_micros,
                "p99_us": row.figures.p99_micros,
                "p999_us": row.figures.p999_micros,
                "server_busy": row.figures.server_busy,
                "load_generator_busy": row.figures.load_busy,
            })
        });
        let rows: Vec<Value> = rows.collect();
        json!({"notes": self.notes, "rows": rows}).to_string()
    }

    /// Processor time per decision, a panel for each load in a closed loop.
    pub(crate) fn panels(&self) -> Vec<Panel> {
        let mut panels: Vec<Panel> = Vec::new();
        for row in self.rows.iter().filter(|row| !row.is_paced) {
            if panels.last().is_none_or(|panel| panel.title != row.load) {
                panels.push(Panel {
                    title: row.load.clone(),
                    unit: "us of the server's processor per decision; less is better".to_owned(),
                    bars: Vec::new(),
                });
            }
            if let Some(panel) = panels.last_mut() {
                let bar = (row.contender.clone(), row.figures.cpu_micros);
                panel.bars.push(bar);
            }
        }
        panels
    }

    /// Writes the line of one contender, and whether it waited.
    fn write_row(&self, f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
        let Figures {
            per_second,
            cpu_micros,
            p50_micros,
            p99_micros,
            p999_micros,
            server_busy,
            load_busy,
        } = row.figures;
        let compared = self.find(&row.load, COMPARED);
        let ratio = compared.map(|compared| cpu_micros / compared.cpu_micros);
        let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        write!(
            f,
            "  {:<24}{per_second:>11.0}{cpu_micros:>9.2}{ratio:>8}{p50_micros:>9.0}\
             {p99_micros:>9.0}{p999_micros:>9.0}{:>8.0}{:>6.0}",
            row.contender,
            server_busy * 100.0,
            load_busy * 100.0,
        )?;
        match !row.is_paced && server_busy < BUSY_LEAST {
            true => writeln!(f, "  waited"),
            false => writeln!(f),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.notes
            .iter()
            .try_for_each(|note| writeln!(f, "{note}"))?;
        let mut shown = None;
        for row in &self.rows {
            if shown != Some((&row.load, row.is_paced)) {
                shown = Some((&row.load, row.is_paced));
                let paced = match row.is_paced {
                    true => ", sent by a schedule at half of each contender's rate",
                    false => "",
                };
                writeln!(f, "\n{}{paced}", row.load)?;
                writeln!(
                    f,
                    "  {:<24}{:>11}{:>9}{:>8}{:>9}{:>9}{:>9}{:>8}{:>6}",
                    "",
                    "per second",
                    "CPU us",
                    "x INCR",
                    "p50 us",
                    "p99",
                    "p99.9",
                    "busy %",
                    "load"
                )?;
            }
            self.write_row(f, row)?;
        }
        let targets = targets(self);
        if !targets.is_empty() {
            writeln!(f, "\ntargets")?;
        }
        targets.iter().try_for_each(|target| write!(f, "{target}"))
    }
}
