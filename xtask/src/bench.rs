//! Comparisons with other limiters and other proxies; the shared store and the lists alone.

use crate::chore::Chore;
use crate::step::{Step, target};
use crate::tools;

pub(crate) const CHORE: Chore = Chore {
    name: "bench",
    about: "[redis | gateway | server | lists | constants | telemetry | dashboard] [--quick] ...: \
            comparisons, in release",
    run,
};

/// Runs the comparison that the first word names.
fn run(args: &[String]) -> Result<(), String> {
    let (first, rest) = match args {
        [first, rest @ ..] => (first.as_str(), rest),
        [] => ("", args),
    };
    match first {
        "redis" => run_redis(rest),
        "lists" => run_lists(rest),
        "gateway" => run_gateway(rest),
        "server" => run_server(rest),
        "constants" => run_constants(rest),
        "telemetry" => run_telemetry(rest),
        "dashboard" => run_dashboard(rest),
        _ => {
            let run = ["run", "--release", "-p", "tollgate-bench", "--"];
            Step::cargo("bench", &run).args(args).run()
        }
    }
}

/// Measures the shared store alone.
fn run_redis(args: &[String]) -> Result<(), String> {
    tools::ensure_debian("redis-server", "redis-server")?;
    let run = ["bench", "-p", "tollgate-redis", "--bench", "redis", "--"];
    Step::cargo("bench redis", &run).args(args).run()
}

/// Measures the lists alone.
fn run_lists(args: &[String]) -> Result<(), String> {
    let run = [
        "bench",
        "-p",
        "tollgate-http",
        "--bench",
        "access_list",
        "--",
    ];
    Step::cargo("bench lists", &run).args(args).run()
}

/// Builds the gateway, and compares it with the proxies that are there or can be installed.
fn run_gateway(args: &[String]) -> Result<(), String> {
    tools::ensure_debian("nginx", "nginx")?;
    tools::ensure_debian("nghttp2-client", "h2load")?;
    let envoy = tools::ensure_envoy()?;
    let step = build("bench gateway", "tollgate-bench-gateway")?;
    step.args(["--envoy".into(), envoy]).args(args).run()
}

/// Builds the service, and compares it with the servers that are there or can be installed. What
/// cannot be had is left out, and said.
fn run_server(args: &[String]) -> Result<(), String> {
    tools::ensure_debian("redis-server", "redis-server")?;
    if args.iter().any(|arg| arg == "--instructions") {
        tools::ensure_debian("valgrind", "valgrind")?;
    }
    let mut step = build("bench server", "tollgate-bench-server")?;
    let peers = [
        ("--redis-cell", tools::ensure_redis_cell()),
        ("--throttlecrab", tools::ensure_throttlecrab()),
    ];
    for (option, peer) in peers {
        match peer {
            Ok(path) => step = step.args([option.into(), path]),
            Err(problem) => println!("not measured: {problem}"),
        }
    }
    step.args(args).run()
}

/// Builds the service and the comparisons, and measures the constants of `tollgate plan`.
fn run_constants(args: &[String]) -> Result<(), String> {
    tools::ensure_debian("redis-server", "redis-server")?;
    tools::ensure_debian("nginx", "nginx")?;
    tools::ensure_debian("nghttp2-client", "h2load")?;
    build_release("tollgate-bench", "tollgate-bench-server")?;
    build_release("tollgate-bench", "tollgate-bench-gateway")?;
    let step = build("bench constants", "tollgate-bench-constants")?;
    let built = |name| target("release").join(name);
    let server = ["--server".into(), built("tollgate-bench-server")];
    let gateway = ["--gateway".into(), built("tollgate-bench-gateway")];
    step.args(server).args(gateway).args(args).run()
}

/// Builds the service, and measures what traces cost it.
fn run_telemetry(args: &[String]) -> Result<(), String> {
    tools::ensure_debian("valgrind", "valgrind")?;
    let step = build("bench telemetry", "tollgate-bench-telemetry")?;
    step.args(args).run()
}

/// Builds the service, and measures what an open page of the dashboard costs it.
fn run_dashboard(args: &[String]) -> Result<(), String> {
    let step = build("bench dashboard", "tollgate-bench-dashboard")?;
    step.args(args).run()
}

/// Builds the service and a comparison, and is ready to run the comparison with it. Each is built
/// alone, so that the service has no features that only the comparison needs.
fn build(name: &'static str, comparison: &str) -> Result<Step, String> {
    build_release("tollgate-cli", "tollgate")?;
    build_release("tollgate-bench", comparison)?;
    let built = target("release");
    let step = Step::new(name, built.join(comparison));
    Ok(step.args(["--tollgate".into(), built.join("tollgate")]))
}

fn build_release(package: &str, bin: &str) -> Result<(), String> {
    let build = ["build", "--release", "-p", package, "--bin", bin];
    Step::cargo("build", &build).run()
}
