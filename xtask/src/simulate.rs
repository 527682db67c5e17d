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

fn run(args: &[String]) -> Result<(), String> {
    step().args(args).run()
}

fn run_instances(args: &[String]) -> Result<(), String> {
    let instances = step_of("simulated instances", "simulate-instances");
    instances.args(args).run()
}

pub(crate) fn step() -> Step {
    step_of("simulated faults", "simulate-faults")
}

/// A step that runs one of the simulation's programs.
fn step_of(name: &'static str, program: &str) -> Step {
    let profile = ["run", "--profile", "simulate"];
    let program = ["-p", "tollgate-simulation", "--bin", program, "--"];
    Step::cargo(name, &[&profile[..], &program].concat())
}
