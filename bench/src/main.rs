//! Tollgate and its peers, measured side by side: `cargo xtask bench`.
//!
//! Each scenario runs in a process of its own, this program started once more, so that no scenario
//! inherits another's memory. In it the contenders take turns, round after round, and the median of
//! the rounds counts, so that other load on the machine affects all of them alike.
//!
//! * Keys are drawn in advance and the same for all; u64 keys are numbers, strings have 17
//!   characters, of four addresses one is IPv6. A thread walks through its own sequence.
//! * Threads are pinned to cores in turn. Every contender is warm: each key was requested before.
//! * Latencies are of one decision in eight, between two readings of the processor's counter; the
//!   readings are in every figure, the floor's too. The seven between are not timed, so caches and
//!   contention are nearly as without measurement.
//! * Memory is the growth of what is resident in a fresh process, everything included.

#![allow(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    reason = "reads real clocks and computes figures for people; nothing here decides"
)]

mod arguments;

mod scenario;

mod load;

mod lineup;

mod instructions;

mod resident;

mod flood;

mod in_turn;

mod contender;
mod contenders;

mod keys;

mod entrant;

mod record;

mod table;

mod figure;

mod picture;

use std::error::Error;
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};

use arguments::{Arguments, RUN_ONE, USAGE};
use instructions::Counter;
use load::Effort;
use record::{Measured, Record};
use scenario::Scenario;
use table::Table;
use tollgate_bench::chart;

fn main() -> ExitCode {
    let result =
        Arguments::from_args(std::env::args().skip(1)).and_then(|arguments| run(&arguments));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let out = &mut io::stdout();
    if arguments.help {
        return Ok(out.write_all(USAGE.as_bytes())?);
    }
    match (&arguments.run_one, &arguments.count_one) {
        (Some(name), _) => run_one(out, name),
        (None, Some((name, contender))) => Ok(Scenario::count(name, contender)?),
        (None, None) => run_all(out, arguments),
    }
}

/// Measures one scenario in this process, and writes the result for the parent process.
fn run_one(out: &mut impl Write, name: &str) -> Result<(), Box<dyn Error>> {
    let all = Scenario::all();
    let scenario = all.iter().find(|scenario| scenario.name() == name);
    let scenario = scenario.ok_or_else(|| format!("there is no scenario `{name}`"))?;
    serde_json::to_writer(out, &scenario.measure(&Effort::USUAL))?;
    Ok(())
}

/// Runs the selected scenarios, each in a process of its own, and prints their results.
fn run_all(out: &mut impl Write, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let scenarios = arguments.scenarios();
    if scenarios.is_empty() {
        return Err("no scenario has that in its name; see `--list`".into());
    }
    if arguments.list {
        for scenario in scenarios {
            writeln!(out, "{}", scenario.name())?;
        }
        return Ok(());
    }
    let (mut measured, mut failed) = (Vec::<Measured>::new(), Vec::new());
    let mut counter = arguments.instructions.then(Counter::default);
    for (number, scenario) in (1..).zip(&scenarios) {
        eprintln!(
            "measuring {number} of {}: {}",
            scenarios.len(),
            scenario.name()
        );
        match in_own_process(&scenario.name()) {
            Ok(mut of_one) => {
                if let (Some(counter), Scenario::Load(_)) = (&mut counter, scenario) {
                    count_instructions(counter, &mut of_one);
                }
                measured.extend(of_one);
            }
            // The others are reported all the same.
            Err(error) => failed.push(error),
        }
    }
    // Of some scenarios each contender has a process of its own.
    measured.sort_by_key(|one| place_of(&one.record.scenario, &scenarios));
    for of_one in measured.chunk_by(|one, next| one.record.scenario == next.record.scenario) {
        write!(out, "{}", Table(of_one))?;
    }
    writeln!(out, "\nFigures to reach")?;
    for figure in figure::figures(&measured) {
        writeln!(out, "  {figure}")?;
    }
    if let Some(path) = &arguments.json {
        let records: Vec<&Record> = measured.iter().map(|one| &one.record).collect();
        std::fs::write(path, serde_json::to_string_pretty(&records)? + "\n")?;
    }
    if let Some(path) = &arguments.svg {
        std::fs::write(path, chart::svg(&picture::panels(&measured)))?;
    }
    failed.into_iter().next().map_or(Ok(()), Err)
}

/// Adds the instructions of a decision to every contender that was measured.
fn count_instructions(counter: &mut Counter, measured: &mut [Measured]) {
    let able = measured.iter_mut().map(|one| &mut one.record);
    for record in able.filter(|record| record.ops_per_second.is_some()) {
        record.instructions = counter.count(&record.scenario, &record.contender);
    }
}

/// Where a scenario's table stands: with the first process that measures a part of it.
fn place_of(scenario: &str, scenarios: &[Scenario]) -> Option<usize> {
    let is_part = |name: String| name.split('/').next() == Some(scenario);
    scenarios.iter().position(|one| is_part(one.name()))
}

fn in_own_process(name: &str) -> Result<Vec<Measured>, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command
        .args([RUN_ONE, name])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("scenario `{name}` ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
