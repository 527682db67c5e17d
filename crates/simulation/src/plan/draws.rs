//! Which draws make up a plan: the simulation got them one after the other.

use std::fmt;
use std::str::FromStr;

/// Which draws make up a plan. Each of these has those before it.
///
/// A seed that has found a defect is run with the draws with which it did: with later ones its plan
/// is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Draws {
    /// A deployment, limits, requests and faults.
    Plain,
    /// Also versions of the rules file that change limits and what a denial does.
    Features,
    /// Also versions that change modes, choices or which rules there are.
    Changes,
    /// Also requests with priority.
    Priorities,
    /// Also reservations.
    Reservations,
    /// Also elastic limits.
    Elastic,
    /// Also how long messages take without a fault, and which faults meet requests.
    Timing,
    /// Also at which moments callers drop their decisions and settlements.
    All,
}

const ALL: [Draws; 8] = [
    Draws::Plain,
    Draws::Features,
    Draws::Changes,
    Draws::Priorities,
    Draws::Reservations,
    Draws::Elastic,
    Draws::Timing,
    Draws::All,
];

impl fmt::Display for Draws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

impl FromStr for Draws {
    type Err = String;

    fn from_str(name: &str) -> Result<Draws, String> {
        let mut all = ALL.into_iter();
        let found = all.find(|draws| draws.to_string() == name);
        found.ok_or_else(|| format!("there are no draws named {name}"))
    }
}
