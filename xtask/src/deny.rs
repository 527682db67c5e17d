//! Licences, bans, sources and doubles among the dependencies.

use crate::chore::{Chore, no_arguments};
use crate::step::Step;
use crate::tools;

pub(crate) const CHORE: Chore = Chore {
    name: "deny",
    about: "licences, bans, sources and doubles among the dependencies (deny.toml)",
    run,
};

pub(crate) const PROGRAM: &str = "cargo-deny";
pub(crate) const VERSION: &str = "0.20.2";

fn run(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    tools::ensure_cargo(PROGRAM, VERSION)?;
    step().run()
}

/// Without `advisories`: their database is fetched from the network on every run.
pub(crate) fn step() -> Step {
    let check = ["--all-features", "check", "bans", "licenses", "sources"];
    Step::new("dependencies", PROGRAM).args(check)
}
