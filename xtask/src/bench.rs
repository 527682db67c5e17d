//! The comparison with other limiters, and the shared store alone.

use crate::chore::Chore;
use crate::step::Step;
use crate::tools;

pub(crate) const CHORE: Chore = Chore {
    name: "bench",
    about: "[redis] [--quick] [--json PATH] ...: the comparison with other limiters, in release",
    run,
};

fn run(args: &[String]) -> Result<(), String> {
    if let [first, rest @ ..] = args
        && first == "redis"
    {
        tools::ensure_debian("redis-server", "redis-server")?;
        let run = ["bench", "-p", "tollgate-redis", "--bench", "redis", "--"];
        return Step::cargo("bench redis", &run).args(rest).run();
    }
    let run = ["run", "--release", "-p", "tollgate-bench", "--"];
    Step::cargo("bench", &run).args(args).run()
}
