//! The gateway and its peers, measured side by side: `cargo xtask bench gateway`.
//!
//! Every contender is a reverse proxy with one limit in front of the same server: per address, but
//! for Envoy's local rate limit, which is one for all. It runs alone on one processor core; the
//! server behind it and the load generator (`h2load`) share another. The contenders take turns,
//! round after round, and the medians of the rounds count, so that other load on the machine
//! affects all of them alike.
//!
//! * The figure that survives a noisy machine is the processor time of a request: what the kernel's
//!   scheduler counted for the contender's process, in user and kernel mode, for all threads.
//! * Before it is measured, every contender must allow one request and deny the next, with a limit
//!   of one. Then its limit is larger than the load. A response that is not 2xx ends the run.

#![allow(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    reason = "waits for real processes and computes figures for people; nothing here decides"
)]

mod arguments;

mod configuration;

mod contender;

mod load;

mod layer;

mod report;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Write, stdout};
use std::process::ExitCode;

use tollgate_bench::command_line;

use arguments::{Arguments, USAGE};
use contender::{Contender, Running};
use load::{Figures, median};
use report::Report;

/// How many connections the load has, in each scenario.
const CONNECTIONS: [usize; 2] = [64, 8];

fn main() -> ExitCode {
    command_line::run(Arguments::from_args, run)
}

/// Checks and measures all contenders, and prints the report.
fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    if arguments.help {
        return Ok(write!(stdout(), "{USAGE}")?);
    }
    let mut report = Report::default();
    let contenders = Contender::all(arguments);
    for contender in &contenders {
        contender.check_limit()?;
    }
    let running: Vec<Running> = contenders
        .iter()
        .map(Contender::start)
        .collect::<Result<_, _>>()?;
    for connections in CONNECTIONS {
        let mut rounds: BTreeMap<usize, Vec<Figures>> = BTreeMap::new();
        for _round in 0..arguments.rounds {
            for (index, running) in running.iter().enumerate() {
                let figures = running.measure(connections, arguments.seconds)?;
                rounds.entry(index).or_default().push(figures);
            }
        }
        for (index, contender) in contenders.iter().enumerate() {
            report.add(connections, contender.name(), median(&rounds[&index]));
        }
    }
    report.set_layer(layer::measure(arguments.rounds));
    write!(stdout(), "{report}")?;
    if let Some(path) = &arguments.json {
        std::fs::write(path, report.json())?;
    }
    Ok(())
}
