//! Tollgate and its peers, measured side by side: `cargo xtask bench`.

#![allow(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    reason = "reads real clocks and computes figures for people; nothing here decides"
)]

mod machine;

mod keys;

mod contender;

mod latency;

mod entrant;

mod record;

mod load;

mod scenario;

use std::io::Write;
use std::process::{Command, ExitCode};

use load::Effort;
use record::Measured;
use scenario::Scenario;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let quick = args.iter().any(|a| a == "--quick");
    let effort = if quick { Effort::QUICK } else { Effort::FULL };
    if let Some(pos) = args.iter().position(|a| a == "--run-one") {
        let name = &args[pos + 1];
        let s = Scenario::all()
            .into_iter()
            .find(|s| s.name() == *name)
            .expect("scenario");
        let out = serde_json::to_string(&s.measure(&effort)).expect("serialises");
        writeln!(std::io::stdout(), "{out}").expect("stdout");
        return ExitCode::SUCCESS;
    }
    let filter = args
        .iter()
        .position(|a| a == "--scenario")
        .map(|p| args[p + 1].clone());
    let list = if quick {
        Scenario::quick()
    } else {
        Scenario::all()
    };
    let mut out = std::io::stdout();
    for s in list {
        let name = s.name();
        if filter.as_ref().is_some_and(|f| !name.contains(f.as_str())) {
            continue;
        }
        let mut c = Command::new(std::env::current_exe().expect("exe"));
        c.arg("--run-one").arg(&name);
        if quick {
            c.arg("--quick");
        }
        let o = c.output().expect("run");
        let measured: Vec<Measured> = serde_json::from_slice(&o.stdout).expect("json");
        writeln!(out, "{name}").expect("stdout");
        let get = |n: &str| {
            measured
                .iter()
                .find(|m| m.record.contender == n)
                .and_then(|m| m.record.ops_per_second)
        };
        for m in &measured {
            let r = &m.record;
            let ratio = |n: &str| match (r.ops_per_second, get(n)) {
                (Some(a), Some(b)) => format!("{:.2}", a / b),
                _ => "-".into(),
            };
            writeln!(out, "  {:16} {:>9.2} M/s  p50 {:>5} p99 {:>6} p99.99 {:>7}  x governor {:>5} x quota {:>5} x floor {:>5} admitted {:.3} {}", r.contender,
                r.ops_per_second.unwrap_or(0.0) / 1e6, r.p50_ns.unwrap_or(0), r.p99_ns.unwrap_or(0), r.p9999_ns.unwrap_or(0), ratio("governor"), ratio("quota"), ratio("floor"), m.admitted_share.unwrap_or(0.0), m.note).expect("stdout");
        }
    }
    ExitCode::SUCCESS
}
