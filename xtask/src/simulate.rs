//! Several instances over a simulated network and Redis, with all that goes wrong there.

use crate::chore::Chore;
use crate::step::Step;

pub(crate) const CHORE: Chore = Chore {
    name: "simulate-faults",
    about: "[--seeds 2000] [--from 0] [--threads N] [--failures 5] [--history]: instances over a \
            simulated network and Redis",
    run,
};

/// The same world, with given traffic, beside the real one.
pub(crate) const INSTANCES: Chore = Chore {
    name: "simulate",
    about: "--rules FILE --traffic WORDS [--instances 3] [--mode NAME] ...: what \
            `tollgate simulate --instances` predicts, and the same instances over a real Redis",
    run: run_instances,
};

fn run(args: &[String]) -> Result<(), String> {
    step().args(args).run()
}

fn run_instances(args: &[String]) -> Result<(), String> {
    let instances = step_of("simulated and real instances", "compare-instances");
    instances.args(args).run()
}

pub(crate) fn step() -> Step {
    step_of("simulated faults", "simulate-faults")
}

/// A step that runs one of the simulation's programs, which are examples: they use crates that are
/// not published.
fn step_of(name: &'static str, program: &str) -> Step {
    let profile = ["run", "--profile", "simulate"];
    let program = ["-p", "tollgate-simulation", "--example", program, "--"];
    Step::cargo(name, &[&profile[..], &program].concat())
}
