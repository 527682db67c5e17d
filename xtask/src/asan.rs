//! The in-process store under AddressSanitizer.

use crate::chore::{Chore, no_arguments};
use crate::step::{Step, target};

pub(crate) const CHORE: Chore = Chore {
    name: "asan",
    about: "the in-process store's tests under AddressSanitizer",
    run,
};

/// The sanitizer wants a target of its own, or build scripts would be instrumented too.
#[cfg(target_arch = "aarch64")]
const TARGET: &str = "aarch64-unknown-linux-gnu";
#[cfg(not(target_arch = "aarch64"))]
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn run(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    step().run()
}

/// The stable compiler has the sanitizer; `RUSTC_BOOTSTRAP` lets it be asked for.
pub(crate) fn step() -> Step {
    let test = [
        "test",
        "-p",
        "tollgate-memory",
        "--lib",
        "--tests",
        "--target",
        TARGET,
    ];
    Step::cargo("address sanitizer", &test)
        .runs_tests()
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("CARGO_TARGET_DIR", target("asan"))
}
