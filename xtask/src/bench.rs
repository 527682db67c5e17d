//! The comparison with other limiters.

use crate::chore::Chore;
use crate::step::Step;

pub(crate) const CHORE: Chore = Chore {
    name: "bench",
    about: "[--quick] [--json PATH] ...: the comparison with other limiters, in release",
    run,
};

fn run(args: &[String]) -> Result<(), String> {
    let run = ["run", "--release", "-p", "tollgate-bench", "--"];
    Step::cargo("bench", &run).args(args).run()
}
