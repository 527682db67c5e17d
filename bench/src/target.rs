//! A figure to be reached.

use std::fmt;

/// Whether a figure is as good as it should be. Displayed as a line of a report.
#[derive(Clone, Debug)]
pub struct Target {
    /// What was compared.
    pub what: String,
    /// Whether `bound` is the least that is good, or the most.
    pub is_least: bool,
    /// The figure to be reached.
    pub bound: f64,
    /// What was measured. `None` if a contender was not there, or the load was not run.
    pub measured: Option<f64>,
}

// === impl Target ===

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target {
            what,
            is_least,
            bound,
            measured,
        } = self;
        let sign = if *is_least { ">=" } else { "<=" };
        write!(f, "  {what:<80}{sign} {bound:<8}")?;
        let Some(measured) = measured else {
            return writeln!(f, "not measured");
        };
        let is_reached = match is_least {
            true => measured >= bound,
            false => measured <= bound,
        };
        let verdict = if is_reached { "reached" } else { "MISSED" };
        writeln!(f, "{measured:<12.3}{verdict}")
    }
}
