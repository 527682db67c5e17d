//! Core and the in-process store under Miri, for those who have it.

use crate::chore::{Chore, no_arguments};
use crate::step::Step;
use crate::tools;

pub(crate) const CHORE: Chore = Chore {
    name: "miri",
    about: "core and the in-process store under Miri, where the toolchain has it",
    run,
};

/// Runs the tests under Miri, or says how to get it.
fn run(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    if !tools::answers("cargo", &["miri", "--version"]) {
        return Err(
            "Miri is not to be had on this toolchain: it is a component of nightly ones. \
             With one: rustup +nightly component add miri rust-src, \
             then RUSTUP_TOOLCHAIN=nightly cargo xtask miri"
                .into(),
        );
    }
    let test = [
        "miri",
        "test",
        "-p",
        "tollgate-core",
        "-p",
        "tollgate-memory",
    ];
    // The store reads the machine's clocks, from which Miri isolates programs by default.
    Step::new("miri", "cargo")
        .args(test)
        .env("MIRIFLAGS", "-Zmiri-disable-isolation")
        .runs_tests()
        .run()
}
