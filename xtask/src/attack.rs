//! Attacks on a real `tollgate serve`, with a well-behaved client beside each.

use std::time::Instant;

use crate::chore::Chore;
use crate::step::{Outcome, Step, target};

pub(crate) const CHORE: Chore = Chore {
    name: "attack",
    about: "[--seconds 10] [--only WORDS] ...: attacks on a release build of the service",
    run,
};

/// In CI each attack is short, in the smaller address space alone, and the builds are those that
/// the tests have used.
const IN_CI: [&str; 6] = ["--seconds", "1", "--settle", "15", "--address-space", "512"];
/// What the well-behaved client's p99 must be below in CI, in milliseconds. A build without
/// optimisation works for seconds on what some attacks send in one; that it answers every request
/// soon after the attack is required beside this.
const P99_IN_CI: &str = "10000";
const BUILD: [&str; 5] = ["build", "-p", "tollgate-cli", "-p", "tollgate-attack"];
/// With the features that the tests have, so that nothing but the program that attacks is built
/// after them.
const BUILD_IN_CI: [&str; 4] = ["build", "--workspace", "--bins", "--tests"];

fn run(args: &[String]) -> Result<(), String> {
    Step::cargo("build", &BUILD).args(["--release"]).run()?;
    attack("release").args(args).run()
}

/// Builds what is attacked and what attacks, with a variable of the environment, and runs every
/// attack for a short time.
pub(crate) fn outcome((name, value): (&str, &str)) -> Outcome {
    let start = Instant::now();
    let build = Step::cargo("build for attacks", &BUILD_IN_CI);
    let built = build.env(name, value).outcome();
    if built.problem.is_some() {
        return built;
    }
    let mut outcome = attack("debug")
        .args(IN_CI)
        .args(["--p99", P99_IN_CI])
        .outcome();
    outcome.took = start.elapsed();
    outcome
}

fn attack(profile: &str) -> Step {
    let built = target(profile);
    let step = Step::new("attack", built.join("tollgate-attack"));
    step.args(["--tollgate".into(), built.join("tollgate")])
}
