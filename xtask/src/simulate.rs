//! Several instances over a simulated network and Redis, with all that goes wrong there.

use crate::chore::Chore;
use crate::step::Step;

pub(crate) const CHORE: Chore = Chore {
    name: "simulate-faults",
    about: "[--seeds 2000] [--from 0] [--threads N] [--failures 5] [--history]: instances over a \
            simulated network and Redis",
    run,
};

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
        "--",
    ];
    Step::cargo("simulated faults", &simulate)
}
