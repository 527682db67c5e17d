//! The in-process store with real threads and exact accounts.

use crate::chore::{Chore, parse_seconds};
use crate::step::Step;

pub(crate) const CHORE: Chore = Chore {
    name: "stress",
    about: "[--seconds 60]: the in-process store in release, with real threads and exact accounts",
    run,
};

/// How long the random workloads go on.
pub(crate) const SECONDS: u64 = 60;

fn run(args: &[String]) -> Result<(), String> {
    let seconds = match args {
        [] => SECONDS,
        [option, seconds] if option == "--seconds" => parse_seconds(seconds)?,
        _ => return Err("this takes `--seconds N` and nothing else".into()),
    };
    step(seconds).run()
}

pub(crate) fn step(seconds: u64) -> Step {
    let test = [
        "test",
        "--release",
        "-p",
        "tollgate-memory",
        "--test",
        "stress",
    ];
    let step = Step::cargo("stress", &test).args(["--", "--nocapture"]);
    step.runs_tests()
        .env("TOLLGATE_STRESS_SECONDS", seconds.to_string())
}
