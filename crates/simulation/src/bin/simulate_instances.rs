//! Predicts what instances do with given traffic, and measures it over a real Redis.
#![expect(clippy::print_stdout, reason = "a program prints its results")]

use std::process::ExitCode;

use tollgate_core::{Limit, Mode, OnStoreError, Span};
use tollgate_replay::Workload;
use tollgate_simulation::{Fleet, INSTANCES_MAX, Incident, Totals};
use tollgate_testbed::Redis;

const USAGE: &str = "\
Usage: cargo xtask simulate --traffic WORDS [...]
  --traffic WORDS        as `tollgate simulate --traffic`, with retries; may be repeated
  --limit LIMIT          of each client (100/minute); such as `10/s sliding_log`
  --instances N          how many (3); each request goes to one at random
  --mode NAME            strict, leased or write_back (all of them)
  --on-store-error NAME  allow, deny, error or local (allow)
  --delay MS             longest delay of a message to or from Redis (1)
  --skew MS              how much further each wall clock is ahead than the one before (0)
  --sync MS              how often local counts are reported (100)
  --crash TIME           an instance ends, and starts again a second later
  --outage TIME,LENGTH   Redis does not answer for this long
  --failover TIME,LAG    the primary ends; a second later, its replica takes over, which has
                         missed this much
  --seed N               of all that is random (1)
  --measure              also in real time, over a real redis-server";

struct Arguments {
    fleet: Fleet,
    modes: Vec<Mode>,
    is_measured: bool,
}

/// Prints a row for each mode: what is predicted, and below it what is measured.
fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{:<10} {:<9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>7} {:>10} {:>10} {:>10} {:>7} {:>9}",
        "mode",
        "",
        "offered",
        "attempts",
        "exact",
        "allowed",
        "over",
        "under",
        "failed",
        "no Redis",
        "requests/s",
        "writes/s",
        "keys",
        "bytes"
    );
    for mode in arguments.modes {
        let fleet = Fleet {
            mode,
            ..arguments.fleet.clone()
        };
        print(mode, "predicted", &fleet.predict());
        if arguments.is_measured {
            let redis = Redis::start();
            print(mode, "measured", &fleet.measure(&redis));
        }
    }
    ExitCode::SUCCESS
}

fn print(mode: Mode, how: &str, totals: &Totals) {
    println!(
        "{:<10} {how:<9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>7} {:>10} {:>10} {:>10} \
         {:>7} {:>9}",
        mode.to_string(),
        totals.offered,
        totals.attempts,
        totals.exact,
        totals.allowed,
        totals.over,
        totals.under,
        totals.failed,
        totals.without_redis,
        totals.per_second(totals.to_redis),
        totals.per_second(totals.writes),
        totals.redis_keys,
        totals.redis_bytes,
    );
}

/// Parses the command line, which [`USAGE`] describes.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let limit = Limit::per_minute(100);
    let mut fleet = Fleet::new(3, Mode::Strict, limit, Vec::new());
    let mut modes = vec![Mode::Strict, Mode::Leased, Mode::WriteBack];
    let mut is_measured = false;
    while let Some(option) = words.next() {
        if option == "--measure" {
            is_measured = true;
            continue;
        }
        let value = words.next().ok_or(format!("{option} needs a value"))?;
        let wrong = |why: String| format!("{option} {value}: {why}");
        match option.as_str() {
            "--traffic" => {
                let workload: Workload = value.parse().map_err(|error| wrong(text(&error)))?;
                fleet.workloads.push(workload);
            }
            "--limit" => fleet.limit = value.parse().map_err(|error| wrong(text(&error)))?,
            "--mode" => modes = vec![mode(&value).map_err(wrong)?],
            "--on-store-error" => {
                fleet.on_store_error = on_store_error(&value).map_err(wrong)?;
            }
            "--instances" => {
                let count = number(&value, INSTANCES_MAX).map_err(wrong)?;
                fleet.instances = count.max(1);
            }
            "--delay" => fleet.delay_ms = number(&value, 60_000).map_err(wrong)?,
            "--skew" => fleet.skew_ms = number(&value, 3_600_000).map_err(wrong)?,
            "--sync" => fleet.sync_ms = number(&value, 10_000).map_err(wrong)?,
            "--seed" => fleet.seed = number(&value, u64::MAX).map_err(wrong)?,
            "--crash" => {
                let at = span(&value).map_err(wrong)?;
                fleet.incidents.push((at, Incident::Crash));
            }
            "--outage" | "--failover" => {
                let (at, length) = two_spans(&value).map_err(wrong)?;
                let incident = match option.as_str() {
                    "--outage" => Incident::Outage(length),
                    _ => Incident::Failover(length),
                };
                fleet.incidents.push((at, incident));
            }
            _ => return Err(format!("there is no option {option}")),
        }
    }
    if fleet.workloads.is_empty() {
        return Err("--traffic is missing, such as --traffic 'poisson 50/s keys 10'".to_owned());
    }
    let is_virtual = !fleet.incidents.is_empty() || fleet.skew_ms != 0;
    if is_measured && is_virtual {
        return Err(
            "--measure has the clocks of this machine and no incidents; leave out \
                    --skew, --crash, --outage and --failover"
                .to_owned(),
        );
    }
    Ok(Arguments {
        fleet,
        modes,
        is_measured,
    })
}

fn mode(text: &str) -> Result<Mode, String> {
    let modes = [Mode::Strict, Mode::Leased, Mode::WriteBack];
    let found = modes.into_iter().find(|mode| mode.to_string() == text);
    found.ok_or_else(|| "write strict, leased or write_back".to_owned())
}

fn on_store_error(text: &str) -> Result<OnStoreError, String> {
    let known = [
        OnStoreError::Allow,
        OnStoreError::Deny,
        OnStoreError::Error,
        OnStoreError::Local,
    ];
    let found = known.into_iter().find(|one| one.to_string() == text);
    found.ok_or_else(|| "write allow, deny, error or local".to_owned())
}

fn number<T>(value: &str, most: T) -> Result<T, String>
where
    T: std::str::FromStr<Err = std::num::ParseIntError> + PartialOrd + std::fmt::Display + Default,
{
    let number: T = value.parse().map_err(|error| text(&error))?;
    match number > most || number < T::default() {
        true => Err(format!("must be from 0 to {most}")),
        false => Ok(number),
    }
}

fn span(value: &str) -> Result<Span, String> {
    value.parse().map_err(|error| text(&error))
}

fn two_spans(value: &str) -> Result<(Span, Span), String> {
    let (first, second) = value
        .split_once(',')
        .ok_or("write two times such as 20s,5s")?;
    Ok((span(first)?, span(second)?))
}

/// An error and its causes.
fn text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes = causes.map(ToString::to_string).collect::<Vec<_>>();
    causes.join(": ")
}
