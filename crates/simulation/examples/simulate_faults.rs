//! Runs seeds, and prints the history of those that broke a promise.
#![expect(clippy::print_stdout, reason = "a program prints its results")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tollgate_simulation::{Draws, FaultCounts, FaultKind, Report, fingerprint, run_with};

/// After how many failed seeds the rest is not run, by default.
const FAILURES: u64 = 5;
/// In a run of so many seeds, every kind of fault must have had an effect.
const LONG: u64 = 500;
const USAGE: &str = "Usage: simulate-faults [--seeds N] [--from SEED] [--threads N] [--failures N] \
                     [--draws NAME] [--history]";

/// What to run.
struct Arguments {
    seeds: u64,
    from: u64,
    threads: usize,
    /// After so many failed seeds, the rest is not run.
    failures: u64,
    /// Which draws make up the plans.
    draws: Draws,
    /// Print the history even if nothing failed.
    history: bool,
}

/// Runs the seeds on all threads, and prints the history of each that fails, in their order.
fn main() -> ExitCode {
    let wanted = match parse_arguments(std::env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let start = Instant::now();
    let (next, is_enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let failures: Mutex<Vec<Report>> = Mutex::default();
    let (decisions, judged) = (AtomicU64::new(0), AtomicU64::new(0));
    let faults = Mutex::<FaultCounts>::default();
    std::thread::scope(|scope| {
        for _ in 0..wanted.threads {
            scope.spawn(|| {
                while !is_enough.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= wanted.seeds {
                        return;
                    }
                    let report = run_with(wanted.from + number, wanted.draws);
                    decisions.fetch_add(report.decisions, Ordering::Relaxed);
                    judged.fetch_add(report.judged, Ordering::Relaxed);
                    faults
                        .lock()
                        .expect("nobody panics with it")
                        .add(&report.faults);
                    if wanted.history && report.broken.is_empty() {
                        report.history.iter().for_each(|line| println!("{line}"));
                    }
                    if !report.broken.is_empty() {
                        let mut failures = failures.lock().expect("nobody panics with it");
                        failures.push(report);
                        let count = u64::try_from(failures.len()).unwrap_or(u64::MAX);
                        is_enough.store(count >= wanted.failures, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("nobody panicked with it");
    failures.sort_by_key(|report| report.seed);
    failures
        .iter()
        .for_each(|report| print(report, wanted.draws));
    let run = next.load(Ordering::Relaxed).min(wanted.seeds);
    let (decisions, judged) = (decisions.into_inner(), judged.into_inner());
    let seconds = start.elapsed().as_secs_f64();
    let faults = faults.into_inner().expect("nobody panicked with it");
    print_faults(&faults);
    println!(
        "{run} seeds, {decisions} decisions, {judged} of which Redis had to make, {} failed, \
         {seconds:.1} s",
        failures.len()
    );
    let problems = find_problems(run, judged, &faults);
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    match failures.is_empty() && problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Why the run shows nothing, whether or not a seed has failed.
fn find_problems(seeds: u64, judged: u64, faults: &FaultCounts) -> Vec<String> {
    let mut problems = Vec::new();
    if judged == 0 {
        problems.push("there was no decision that Redis had to make".to_owned());
    }
    if seeds >= LONG {
        let missing = faults.find_missing().into_iter();
        problems.extend(missing.map(|kind| match faults.of(kind).inflicted {
            0 => format!("{kind} was never inflicted"),
            _ => format!("{kind} had no effect: {}", kind.effect()),
        }));
    }
    problems
}

fn print_faults(faults: &FaultCounts) {
    println!("{:13} {:>9} {:>9}", "fault", "inflicted", "effects");
    for kind in FaultKind::ALL {
        let count = faults.of(kind);
        let (inflicted, effects) = (count.inflicted, count.effects);
        println!("{kind:13} {inflicted:9} {effects:9}  {}", kind.effect());
    }
}

fn print(report: &Report, draws: Draws) {
    let seed = report.seed;
    println!("=== seed {seed} ===");
    report.history.iter().for_each(|line| println!("{line}"));
    println!("--- seed {seed} broke:");
    report.broken.iter().for_each(|line| println!("{line}"));
    println!("again: cargo xtask simulate-faults --seeds 1 --from {seed} --draws {draws}");
    let plan = fingerprint(seed, draws);
    println!("for found.txt: {seed} {draws} {plan:016x} found WHAT\n");
}

/// Parses the command line, which [`USAGE`] describes.
fn parse_arguments(mut args: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut wanted = Arguments {
        seeds: 2_000,
        from: 0,
        threads,
        failures: FAILURES,
        draws: Draws::All,
        history: false,
    };
    while let Some(arg) = args.next() {
        let mut number = || {
            let word = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            word.parse::<u64>()
                .map_err(|error| format!("{arg} {word}: {error}"))
        };
        match arg.as_str() {
            "--seeds" => wanted.seeds = number()?,
            "--from" => wanted.from = number()?,
            "--threads" => wanted.threads = usize::try_from(number()?).unwrap_or(1).max(1),
            "--failures" => wanted.failures = number()?,
            "--draws" => {
                let name = args.next().ok_or("--draws needs a name")?;
                wanted.draws = name.parse()?;
            }
            "--history" => wanted.history = true,
            _ => return Err(format!("there is no option {arg}")),
        }
    }
    Ok(wanted)
}
