//! Comparisons with other limiters and other proxies; the shared store and the lists alone.

use crate::chore::Chore;
use crate::step::{Step, target};
use crate::tools;

pub(crate) const CHORE: Chore = Chore {
    name: "bench",
    about: "[redis | gateway | lists] [--quick] [--json PATH] ...: comparisons, in release",
    run,
};

/// Runs the comparison that the first word names.
fn run(args: &[String]) -> Result<(), String> {
    if let [first, rest @ ..] = args
        && first == "redis"
    {
        tools::ensure_debian("redis-server", "redis-server")?;
        let run = ["bench", "-p", "tollgate-redis", "--bench", "redis", "--"];
        return Step::cargo("bench redis", &run).args(rest).run();
    }
    if let [first, rest @ ..] = args
        && first == "lists"
    {
        let run = [
            "bench",
            "-p",
            "tollgate-http",
            "--bench",
            "access_list",
            "--",
        ];
        return Step::cargo("bench lists", &run).args(rest).run();
    }
    if let [first, rest @ ..] = args
        && first == "gateway"
    {
        return run_gateway(rest);
    }
    let run = ["run", "--release", "-p", "tollgate-bench", "--"];
    Step::cargo("bench", &run).args(args).run()
}

/// Builds the gateway, and compares it with the proxies that are there or can be installed.
fn run_gateway(args: &[String]) -> Result<(), String> {
    tools::ensure_debian("nginx", "nginx")?;
    tools::ensure_debian("nghttp2-client", "h2load")?;
    let envoy = tools::ensure_envoy()?;
    let bins = ["--bin", "tollgate", "--bin", "tollgate-bench-gateway"];
    let build = [
        "build",
        "--release",
        "-p",
        "tollgate-cli",
        "-p",
        "tollgate-bench",
    ];
    Step::cargo("build", &build).args(bins).run()?;
    let built = target("release");
    let step = Step::new("bench gateway", built.join("tollgate-bench-gateway"));
    let step = step.args(["--tollgate".into(), built.join("tollgate")]);
    step.args(["--envoy".into(), envoy]).args(args).run()
}
