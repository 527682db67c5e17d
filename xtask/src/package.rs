//! What would be published: every published crate packaged, the library's compiled from its
//! package.

use crate::chore::{Chore, no_arguments};
use crate::step::Step;

pub(crate) const CHORE: Chore = Chore {
    name: "package",
    about: "package every published crate, and compile the library from its packages",
    run,
};

/// What a program that uses the library depends on, the lowest level first.
const LIBRARY: [&str; 4] = [
    "tollgate-core",
    "tollgate-memory",
    "tollgate-rules",
    "tollgate",
];
/// The crates of the workspace that are not published.
const UNPUBLISHED: [&str; 7] = [
    "tollgate-attack",
    "tollgate-behaviour",
    "tollgate-bench",
    "tollgate-fuzz",
    "tollgate-simulation",
    "tollgate-testbed",
    "xtask",
];

fn run(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    steps().into_iter().try_for_each(Step::run)
}

/// The crates of the service are packaged without being compiled: their dependencies take minutes.
pub(crate) fn steps() -> [Step; 2] {
    // Uncommitted changes are what is being tested; no registry is asked.
    let common = ["package", "--offline", "--allow-dirty"];
    let library = LIBRARY.iter().flat_map(|name| ["--package", name]);
    let unpublished = UNPUBLISHED.iter().flat_map(|name| ["--exclude", name]);
    [
        Step::cargo("packages of the library", &common).args(library),
        Step::cargo("packages", &common)
            .args(["--no-verify", "--workspace"])
            .args(unpublished),
    ]
}
