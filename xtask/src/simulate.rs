//! Several instances over a simulated network and Redis, with all that goes wrong there.

use crate::chore::Chore;
use crate::step::Step;

pub(crate) const CHORE: Chore = Chore {
    name: "simulate-faults",
    about: "[--seeds 2000] [--from 0] [--threads N] [--failures 5] [--history]: instances over a \
            simulated network and Redis",
    run,
};

/// The same world, with given traffic: what instances do in each mode.
pub(crate) const INSTANCES: Chore = Chore {
    name: "simulate",
    about: "--traffic WORDS [--limit 100/minute] [--instances 3] [--mode NAME] [--measure] ...: \
            instances over a simulated Redis, and beside them over a real one",
    run: run_instances,
};

fn run_instances(args: &[String]) -> Result<(), String> {
    let simulate = [
        "run",
        "--profile",
        "simulate",
        "-p",
        "tollgate-simulation",
        "--bin",
        "simulate-instances",
        "--",
    ];
    Step::cargo("simulated instances", &simulate)
        .args(args)
        .run()
}

fn run(args: &[String]) -> Result<(), String> {
    step().args(args).run()
}

pub(crate) fn step() -> Step {
    let simulate = [
        "run",
        "--profile",
        "simulate",
        "-p",
        "tollgate-simulation",
        "--bin",
        "simulate-faults",
        "--",
    ];
    Step::cargo("simulated faults", &simulate)
}
