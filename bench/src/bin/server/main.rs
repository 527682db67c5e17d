//! The service over sockets and its peers, measured side by side: `cargo xtask bench server`.
//!
//! Every contender is a process on one processor core that decides whether requests are allowed.
//! One load generator, on another core, sends the same requests to each, in the contender's
//! protocol. The contenders take turns, round after round, and the medians of the rounds count, so
//! that other load on the machine affects all of them alike.
//!
//! * The figure that survives a noisy machine is the processor time of a decision: what the
//!   kernel's scheduler counted for the contender's process, in user and kernel mode, for all
//!   threads, in this load.
//! * Before it is measured, each contender must allow exactly as many requests on one key as its
//!   limit says, and each of many keys twice if that is its limit. A single wrong answer under load
//!   ends the run, too.
//! * Limits are token buckets, the same for all. Keys have eight letters and digits, and each was
//!   requested before it is measured.
//! * A floor decides nothing: it is what a protocol alone costs with the libraries of Tollgate.

#![allow(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    reason = "waits for real processes and computes figures for people; nothing here decides"
)]

mod arguments;

mod budget;

mod configuration;

mod connection;

mod contender;

mod floor;

mod generator;

mod instructions;

mod measure;

mod protocol;

mod question;

mod report;

mod scenario;

mod target;

mod template;

use std::error::Error;
use std::io::{Write, stdout};
use std::process::ExitCode;

use tollgate_bench::machine::pin;
use tollgate_bench::{chart, command_line};

use arguments::{Arguments, USAGE};
use contender::Contender;
use measure::{Figures, Subject};
use report::Report;
use scenario::Scenario;

/// The core of the load generator.
const LOAD_CORE: usize = 0;
/// The part of a contender's highest rate at which its latencies are measured.
const PACED_PART: f64 = 0.5;

fn main() -> ExitCode {
    command_line::run(Arguments::from_args, run)
}

/// Does what the arguments say: prints a list, is a floor, or compares and writes the report.
fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    if arguments.help {
        return Ok(write!(stdout(), "{USAGE}")?);
    }
    if let Some((floor, port)) = arguments.floor {
        return floor.serve(port);
    }
    let contenders = arguments.select(arguments.contenders(), |one| one.name.clone());
    let scenarios = arguments.select(Scenario::all(arguments.quick), Scenario::name);
    if arguments.list {
        let names = contenders.iter().map(|one| one.name.clone());
        for name in names.chain(scenarios.iter().map(Scenario::name)) {
            writeln!(stdout(), "{name}")?;
        }
        return Ok(());
    }
    if arguments.instructions {
        return instructions::print(&contenders, &mut stdout());
    }
    let report = compare(arguments, &contenders, &scenarios)?;
    write!(stdout(), "{report}")?;
    if let Some(path) = &arguments.json {
        std::fs::write(path, report.json())?;
    }
    if let Some(path) = &arguments.svg {
        std::fs::write(path, chart::svg(&report.panels()))?;
    }
    Ok(())
}

/// Starts and checks all contenders, and measures them under every load.
fn compare(
    arguments: &Arguments,
    contenders: &[Contender],
    scenarios: &[Scenario],
) -> Result<Report, Box<dyn Error>> {
    let mut report = Report::default();
    for contender in contenders {
        report.note(format!(
            "{}: {}",
            contender.name,
            contender.launch.settings()
        ));
    }
    if arguments.redis_cell.is_none() {
        report.note("redis-cell is not here, and not measured".to_owned());
    }
    if arguments.throttlecrab.is_none() {
        report.note("throttlecrab-server is not here, and not measured".to_owned());
    }
    // After the processes have been started, which would inherit it.
    let subjects = contenders.iter().map(|one| one.start().map(Subject::new));
    let subjects = subjects.collect::<Result<Vec<_>, _>>()?;
    pin(LOAD_CORE);
    subjects.iter().try_for_each(Subject::check)?;
    for scenario in scenarios {
        measure_all(arguments, contenders, &subjects, scenario, &mut report)?;
    }
    Ok(report)
}

/// Measures all contenders in turns under one load, and at half of the rate that each reached.
fn measure_all(
    arguments: &Arguments,
    contenders: &[Contender],
    subjects: &[Subject],
    scenario: &Scenario,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let name = scenario.name();
    eprintln!("measuring {name}");
    let pairs = contenders.iter().zip(subjects);
    let able: Vec<_> = pairs.filter(|(_, subject)| subject.can(scenario)).collect();
    let seconds = arguments.seconds();
    let medians = in_turns(arguments, &able, |_, subject| {
        subject.measure(scenario, seconds)
    })?;
    for ((contender, _), figures) in able.iter().zip(&medians) {
        report.add(&name, &contender.name, false, *figures);
    }
    if *scenario == Scenario::UNPIPELINED {
        let paced = in_turns(arguments, &able, |index, subject| {
            let per_second = medians[index].per_second * PACED_PART;
            subject.measure_paced(scenario, per_second, seconds)
        })?;
        for ((contender, _), figures) in able.iter().zip(&paced) {
            report.add(&name, &contender.name, true, *figures);
        }
    }
    Ok(())
}

/// Measures contenders in turns, round after round; the medians of each.
fn in_turns(
    arguments: &Arguments,
    pairs: &[(&Contender, &Subject)],
    measure: impl Fn(usize, &Subject) -> Result<Figures, Box<dyn Error>>,
) -> Result<Vec<Figures>, Box<dyn Error>> {
    let mut rounds = vec![Vec::new(); pairs.len()];
    for _round in 0..arguments.rounds() {
        for (index, (_, subject)) in pairs.iter().enumerate() {
            rounds[index].push(measure(index, subject)?);
        }
    }
    Ok(rounds
        .iter()
        .map(|rounds| Figures::median(rounds))
        .collect())
}
