//! A plan as text and as JSON.

use std::fmt;

use serde_json::{Map, Value, json};

use super::constants::Constants;
use super::demand::{Demand, DemandedLimit};
use super::estimate::Plan;
use super::figure::Figure;

/// The version of the JSON.
const VERSION: u32 = 1;

/// What was asked for, what it takes, and by which constants.
pub(super) struct Report<'a> {
    pub(super) demand: &'a Demand,
    pub(super) plan: &'a Plan,
    pub(super) constants: &'a Constants,
    pub(super) shows_modes: bool,
}

// === impl Report ===

impl Report<'_> {
    /// The report as docs/plan.md describes it.
    pub(super) fn to_json(&self) -> Value {
        let limits = self.demand.limits.iter().map(|one| {
            let mut limit = json!({
                "limit": one.limit.to_string(),
                "keys": one.keys,
                "isShared": one.is_shared,
            });
            if self.shows_modes {
                limit["mode"] = json!(one.mode.to_string());
            }
            limit
        });
        let mut report = json!({
            "version": VERSION,
            "users": self.demand.users,
            "requestsPerSecond": self.demand.per_second,
            "limits": limits.collect::<Vec<_>>(),
            "settings": self.plan.settings,
            "warnings": self.plan.warnings,
            "constants": self.constants.to_json(self.names().into_iter()),
        });
        for (section, figures) in &self.plan.sections {
            let members = figures.iter();
            let members = members.map(|figure| (figure.name.to_owned(), figure.to_json()));
            report[*section] = Value::Object(members.collect::<Map<_, _>>());
        }
        report
    }

    /// The constants that the figures were computed from.
    fn names(&self) -> Vec<&'static str> {
        let figures = self.plan.sections.iter().flat_map(|(_, figures)| figures);
        let mut names: Vec<_> = figures.flat_map(|figure: &Figure| &figure.from).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().copied().collect()
    }

    fn write_limit(&self, one: &DemandedLimit, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = match one.is_shared {
            true => "one key for all users",
            false => "a key for each user",
        };
        write!(f, "  {}: {keys}", one.limit)?;
        match self.shows_modes {
            true => writeln!(f, ", {}", one.mode),
            false => writeln!(f),
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Demand {
            users,
            per_second,
            limits,
        } = self.demand;
        writeln!(
            f,
            "{users} users, {per_second} requests per second, each charged to:"
        )?;
        limits.iter().try_for_each(|one| self.write_limit(one, f))?;
        if limits.is_empty() {
            writeln!(f, "  no limit")?;
        }
        for (section, figures) in &self.plan.sections {
            writeln!(f, "\n{section}")?;
            figures
                .iter()
                .try_for_each(|figure| write!(f, "{figure}"))?;
        }
        if let Some(settings) = &self.plan.settings {
            writeln!(f, "\nsettings\n  {settings}")?;
        }
        for warning in &self.plan.warnings {
            writeln!(f, "\nwarning: {warning}")?;
        }
        write!(f, "\n{}", self.constants)?;
        self.constants.write_lines(self.names().into_iter(), f)
    }
}
