//! What an open page of the dashboard costs the service: `cargo xtask bench dashboard`.
//!
//! A service decides requests of `/v1/check` at a constant rate, each with two limits, over keys
//! that are all equally frequent: the most work for the sketches of the hottest keys, because
//! nearly every key takes the counter of another one. A page is opened and closed in turns, and the
//! processor time of the service is read for each turn, as the kernel's scheduler counted it. A
//! pair of turns beside each other, with and without a page, is one ratio, and their median is the
//! result: other load on the machine changes both.

#![allow(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::as_conversions,
    reason = "waits for real processes and computes figures for people; nothing here decides"
)]

mod load;

mod service;

use std::error::Error;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use tollgate_bench::command_line::{self, number, read_options};
use tollgate_bench::latency::median;
use tollgate_bench::server_process::cpu_time;

use load::{Load, RATE};
use service::{Page, Service};

const USAGE: &str = "\
Measures what an open page of the dashboard costs the service.

Usage: cargo xtask bench dashboard [options]

  --pairs N      how many turns with a page, each beside one without (60)
  --tollgate P   another program than the one that the chore builds
  --help         print this help
";
/// How long a turn is measured, and what passes before: a page that was opened has its first
/// snapshot by then, and all counters are in use.
const TURN: Duration = Duration::from_secs(2);
const BEFORE: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct Arguments {
    help: bool,
    pairs: u32,
    tollgate: PathBuf,
}

/// The processor time of the service for a request, in nanoseconds.
struct Turn(f64);

fn main() -> ExitCode {
    command_line::run(arguments, run)
}

fn arguments(args: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn Error>> {
    let mut arguments = Arguments {
        help: false,
        pairs: 60,
        tollgate: PathBuf::from("target/release/tollgate"),
    };
    read_options(args, |option, value| {
        match option {
            "--help" => arguments.help = true,
            "--pairs" => arguments.pairs = number(option, &value()?)?,
            "--tollgate" => arguments.tollgate = value()?.into(),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(arguments)
}

/// Measures all turns, and prints the result.
fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut out = stdout();
    if arguments.help {
        return Ok(write!(out, "{USAGE}")?);
    }
    let service = Service::start(&arguments.tollgate)?;
    let load = Load::start(service.http)?;
    let (mut without, mut with, mut snapshots) = (Vec::new(), Vec::new(), 0);
    for pair in 0..arguments.pairs {
        // The one that comes first changes, so that a slow change of the machine cancels out.
        for has_page in [pair % 2 == 0, pair % 2 == 1] {
            let page = has_page.then(|| Page::open(service.admin)).transpose()?;
            let turn = measure(&service, &load)?;
            match page {
                None => without.push(turn.0),
                Some(page) => {
                    with.push(turn.0);
                    snapshots += page.close()?;
                }
            }
        }
    }
    load.stop()?;
    let ratios = with
        .iter()
        .zip(&without)
        .map(|(with, without)| with / without);
    let mut sorted: Vec<f64> = ratios.collect();
    sorted.sort_by(f64::total_cmp);
    let quartile = |part: usize| (sorted[sorted.len() * part / 4] - 1.0) * 100.0;
    let (without, with) = (median(without.into_iter()), median(with.into_iter()));
    writeln!(
        out,
        "{RATE} requests a second, two limits each; {} pairs of turns",
        arguments.pairs
    )?;
    writeln!(
        out,
        "without a page  {without:>8.0} ns of processor time a request"
    )?;
    writeln!(out, "with a page     {with:>8.0} ns, {snapshots} snapshots")?;
    writeln!(
        out,
        "the page costs  {:>+8.1} % (median of the pairs; half of them {:+.1} to {:+.1} %)",
        quartile(2),
        quartile(1),
        quartile(3)
    )?;
    Ok(())
}

/// The processor time of one turn.
fn measure(service: &Service, load: &Load) -> Result<Turn, Box<dyn Error>> {
    sleep(BEFORE);
    let (before, answered) = (cpu_time(&service.process)?, load.count_answered());
    sleep(TURN);
    let took = cpu_time(&service.process)?.saturating_sub(before);
    let answered = load.count_answered() - answered;
    if answered == 0 {
        return Err("the service answers nothing".into());
    }
    Ok(Turn(took.as_secs_f64() * 1e9 / answered as f64))
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
        let all = parse("--pairs 2 --tollgate b --help").expect("all are known");
        assert_eq!((all.pairs, all.help), (2, true));
        assert_eq!(all.tollgate, PathBuf::from("b"));
        let error = parse("--fast").expect_err("it is invalid");
        assert!(error.contains("`--fast` is unknown"), "{error}");
    }
}
