//! Everything that must hold, in one run.

use std::time::Instant;

use crate::chore::{Chore, no_arguments};
use crate::step::{Outcome, Step};
use crate::test_results::TestResults;
use crate::{asan, attack, deny, feature_sets, loom, package, simulate, stress, tools};

pub(crate) const CHORE: Chore = Chore {
    name: "ci",
    about: "everything that must hold: format, lints, tests, docs, dependencies, proofs",
    run,
};

/// What a run in a fresh clone writes below `target`, and how little room is too little.
const ROOM_GB: u64 = 9;
const FULL_GB: u64 = 1;
/// A run builds everything once: what makes the next build shorter would be 4 GB of it.
const NO_INCREMENTAL: (&str, &str) = ("CARGO_INCREMENTAL", "0");

/// Runs every step, whatever fails, and reports on all of them.
fn run(args: &[String]) -> Result<(), String> {
    no_arguments(args)?;
    let start = Instant::now();
    tools::ensure_debian("redis-server", "redis-server")?;
    tools::ensure_debian("openssl", "openssl")?;
    // For the commands of the documents.
    tools::ensure_debian("curl", "curl")?;
    tools::ensure_debian("chromium", "chromium")?;
    tools::ensure_debian("nginx-light", "nginx")?;
    // For servers whose clock is wrong.
    tools::ensure_debian("faketime", "faketime")?;
    // The load on two gateways.
    tools::ensure_debian("nghttp2-client", "h2load")?;
    // For the alerts and the dashboard of `deploy/`.
    tools::ensure_debian("prometheus", "promtool")?;
    tools::ensure_cargo(deny::PROGRAM, deny::VERSION)?;
    let envoy = tools::ensure_envoy()?;
    let caddy = tools::ensure_caddy()?;
    let traefik = tools::ensure_traefik()?;
    // Clients of the Redis protocol.
    let redis_py = tools::ensure_redis_py()?;
    let node_redis = tools::ensure_node_redis()?;
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    let clippy_fuzz = ["clippy", "-p", "tollgate-fuzz", "--all-targets"];
    let libfuzzer = ["--features", "libfuzzer", "--", "-D", "warnings"];
    let tokens = ["-p", "tollgate-http", "--features", "jwt"];
    let doc = ["doc", "--workspace", "--no-deps"];
    let steps = [
        Step::cargo("format", &["fmt", "--all", "--check"]),
        Step::cargo("lints", &clippy),
        Step::cargo("lints of the fuzz targets", &clippy_fuzz).args(libfuzzer),
        // Dependency rules, budgets and doc examples are among these tests.
        Step::cargo("tests", &["test", "--workspace", "--no-fail-fast"])
            .runs_tests()
            .env("TOLLGATE_ENVOY", envoy)
            .env("TOLLGATE_CADDY", caddy)
            .env("TOLLGATE_TRAEFIK", traefik)
            .env("TOLLGATE_REDIS_PY", redis_py)
            .env("TOLLGATE_NODE_REDIS", node_redis),
        Step::cargo("lints of tokens", &["clippy", "--all-targets"])
            .args(tokens)
            .args(["--", "-D", "warnings"]),
        Step::cargo("tests of tokens", &["test"])
            .args(tokens)
            .runs_tests(),
        Step::cargo("documentation", &doc).env("RUSTDOCFLAGS", "-D warnings"),
        package::step(),
        deny::step(),
        loom::step(),
        asan::step(),
        stress::step(stress::SECONDS),
        simulate::step(),
    ];
    // All of them, whatever fails: one run shows everything that is wrong.
    let (name, value) = NO_INCREMENTAL;
    let steps = steps.into_iter().chain(feature_sets::steps());
    let steps = steps.map(|step| step.env(name, value));
    let mut outcomes: Vec<Outcome> = steps.map(Step::outcome).collect();
    outcomes.push(attack::outcome(NO_INCREMENTAL));
    report(outcomes, start)
}

/// Prints what came of each step; says how many failed.
fn report(outcomes: Vec<Outcome>, start: Instant) -> Result<(), String> {
    println!();
    let steps = outcomes.len();
    let mut tests = TestResults::default();
    let mut problems = 0;
    for outcome in outcomes {
        let verdict = outcome.problem.as_deref().unwrap_or("ok");
        let seconds = outcome.took.as_secs_f64();
        println!("{seconds:7.1} s  {:<26} {verdict}", outcome.name);
        problems += usize::from(outcome.problem.is_some());
        tests.add(outcome.tests);
    }
    println!("{:7.1} s  in all", start.elapsed().as_secs_f64());
    for line in tests.failures() {
        println!("{line}");
    }
    println!("\n{} passed, {} failed", tests.passed, tests.failed);
    if problems > 0
        && let Some(free) = tools::free_gigabytes().filter(|free| *free < FULL_GB)
    {
        println!(
            "the disk is full ({free} GB are free): a run in a fresh clone takes {ROOM_GB} GB"
        );
    }
    match problems {
        0 => Ok(()),
        count => Err(format!("{count} of {steps} steps failed")),
    }
}
