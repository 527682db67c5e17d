//! What would be published: every published crate, packaged.

use crate::chore::{Chore, no_arguments};
use crate::step::Step;

pub(crate) const CHORE: Chore = Chore {
    name: "package",
    about: "package every published crate, without compiling the packages",
    run,
};

/// The crates of the workspace that are not published.
const UNPUBLISHED: [&str; 6] = [
    "tollgate-attack",
    "tollgate-behaviour",
    "tollgate-bench",
    "tollgate-fuzz",
    "tollgate-testbed",
    "xtask",
];

fn run(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    step().run()
}

/// The packages are not compiled: cargo keeps unpacked sources by version, and takes those of an
/// earlier run for ours as long as the version stays the same. The same sources are compiled by
/// every other step.
pub(crate) fn step() -> Step {
    // Uncommitted changes are what is being tested; no registry is asked.
    let package = ["package", "--offline", "--allow-dirty", "--no-verify"];
    let unpublished = UNPUBLISHED.iter().flat_map(|name| ["--exclude", name]);
    Step::cargo("packages", &package)
        .args(["--workspace"])
        .args(unpublished)
}
