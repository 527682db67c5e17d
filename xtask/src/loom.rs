//! The in-process store under a model checker.

use crate::chore::{Chore, no_arguments};
use crate::step::{Step, target};

pub(crate) const CHORE: Chore = Chore {
    name: "loom",
    about: "the in-process store under a model checker, which tries every order of its threads",
    run,
};

fn run(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    step().run()
}

/// Optimised: it runs the same few steps some million times.
pub(crate) fn step() -> Step {
    let test = [
        "test",
        "--release",
        "-p",
        "tollgate-memory",
        "--test",
        "loom",
    ];
    Step::cargo("model checker", &test)
        .runs_tests()
        .env("RUSTFLAGS", "--cfg tollgate_loom")
        .env("CARGO_TARGET_DIR", target("loom"))
}
