//! What traces cost the service: `cargo xtask bench telemetry`.
//!
//! A service decides the same requests without `telemetry` and with some shares of traces recorded
//! and sent to a collector, which is a thread of this program. Instructions are counted by
//! `valgrind`, in user mode, from runs of different lengths, so that the start does not count:
//! other load does not change them. Processor time is what the kernel's scheduler counted, a
//! median of rounds; other load on the machine changes it. Both have all threads of the service,
//! and thereby the encoding and the sending of spans.

#![allow(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::as_conversions,
    reason = "waits for real processes and computes figures for people; nothing here decides"
)]

mod client;

mod service;

use std::error::Error;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_bench::command_line::{self, number, read_options};
use tollgate_bench::latency::median;
use tollgate_bench::server_process::cpu_time;

use client::Load;
use service::{Mode, Service};

const USAGE: &str = "\
Measures what traces cost the service.

Usage: cargo xtask bench telemetry [options]

  --rounds N     how many rounds of processor time, of which medians count (5)
  --tollgate P   another program than the one that the chore builds
  --help         print this help
";
/// Decisions before processor time is measured, and decisions that are measured.
const WARM: u32 = 3200;
const DECISIONS: u32 = 48_000;
/// Decisions of the shorter and of the longer run whose instructions are counted.
const COUNTED: (u32, u32) = (3200, 12_800);

#[derive(Debug)]
struct Arguments {
    help: bool,
    rounds: u32,
    tollgate: PathBuf,
}

/// What a decision costs.
struct Cost {
    instructions: f64,
    nanos: f64,
    /// Spans that the collector got in the round with the most.
    spans: usize,
}

fn main() -> ExitCode {
    command_line::run(arguments, run)
}

fn arguments(args: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn Error>> {
    let mut arguments = Arguments {
        help: false,
        rounds: 5,
        tollgate: PathBuf::from("target/release/tollgate"),
    };
    read_options(args, |option, value| {
        match option {
            "--help" => arguments.help = true,
            "--rounds" => arguments.rounds = number(option, &value()?)?,
            "--tollgate" => arguments.tollgate = value()?.into(),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(arguments)
}

/// Measures every load in every mode, and prints a table of each.
fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut out = stdout();
    if arguments.help {
        return Ok(write!(out, "{USAGE}")?);
    }
    for load in Load::ALL {
        writeln!(out, "{}", load.name())?;
        writeln!(
            out,
            "{:<16} {:>14} {:>14} {:>16} {:>14}",
            "traces", "instructions", "beside off", "processor time", "spans"
        )?;
        let mut off = None;
        for mode in Mode::ALL {
            let cost = measure(arguments, load, mode)?;
            let without = *off.get_or_insert(cost.instructions);
            let name = match mode {
                Mode::Off => "off".to_owned(),
                Mode::Sampled(percent) => format!("{percent}%"),
            };
            writeln!(
                out,
                "{name:<16} {:>14.0} {:>+14.0} {:>13.0} ns {:>14}",
                cost.instructions,
                cost.instructions - without,
                cost.nanos,
                cost.spans
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What a decision costs under this load.
fn measure(arguments: &Arguments, load: Load, mode: Mode) -> Result<Cost, Box<dyn Error>> {
    let shorter = count(arguments, load, mode, COUNTED.0)?;
    let longer = count(arguments, load, mode, COUNTED.1)?;
    let more = longer
        .checked_sub(shorter)
        .ok_or("the longer run is shorter")?;
    let (mut rounds, mut spans) = (Vec::new(), 0);
    for _round in 0..arguments.rounds {
        let service = Service::start(&arguments.tollgate, mode, false)?;
        let mut client = service.connect(load)?;
        client.decide(WARM)?;
        let before = cpu_time(&service.process)?;
        client.decide(DECISIONS)?;
        let took = cpu_time(&service.process)?.saturating_sub(before);
        rounds.push(took.as_secs_f64() * 1e9 / f64::from(DECISIONS));
        drop(client);
        spans = spans.max(service.end()?);
    }
    Ok(Cost {
        instructions: more as f64 / f64::from(COUNTED.1 - COUNTED.0),
        nanos: median(rounds.into_iter()),
        spans,
    })
}

/// The instructions of a run with so many decisions.
fn count(
    arguments: &Arguments,
    load: Load,
    mode: Mode,
    decisions: u32,
) -> Result<u64, Box<dyn Error>> {
    let service = Service::start(&arguments.tollgate, mode, true)?;
    let mut client = service.connect(load)?;
    client.decide(decisions)?;
    drop(client);
    service.end()?;
    service.instructions()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let args = line.split_whitespace().map(str::to_owned);
        arguments(args).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_parsed() {
        let all = parse("--rounds 2 --tollgate b --help").expect("all are known");
        assert_eq!((all.rounds, all.help), (2, true));
        assert_eq!(all.tollgate, PathBuf::from("b"));
        let error = parse("--fast").expect_err("it is invalid");
        assert!(error.contains("`--fast` is unknown"), "{error}");
    }
}
