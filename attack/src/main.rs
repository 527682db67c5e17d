//! Attacks on a running Tollgate: `cargo xtask attack`.
//!
//! Each attack has its own `tollgate serve` and a well-behaved client in another process, whose
//! requests must all be answered. The settings bound what the service may use; whether it stays
//! within these bounds is read from the system, not from the service.

mod arguments;

mod attacks;

mod client;

mod course;

mod exchange;

mod frames;

mod metrics;

mod peer;

mod record;

mod report;

mod row;

mod service;

mod stream;

mod target;

mod tls;

mod upstream;

use std::process::ExitCode;
use std::sync::Arc;

use arguments::{Arguments, CLIENT, USAGE};
use attacks::{ATTACKS, Attack};
use row::Row;
use service::Surroundings;
use target::Target;
use tollgate_testbed::Certificates;

/// Files that this program has open beside idle connections.
const OTHER_FILES: u64 = 256;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.split_first() {
        Some((first, addresses)) if first == CLIENT => run_client(addresses),
        _ => Arguments::parse(&words).and_then(|arguments| run(&arguments)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("tollgate-attack: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// The well-behaved client, in the process that [`row`] started for it; prints its report.
#[expect(clippy::print_stdout, reason = "the attacking process reads it")]
fn run_client(addresses: &[String]) -> Result<(), String> {
    let target = Target::parse(addresses).ok_or("five addresses and an authority are needed")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    println!("{}", runtime.block_on(client::run(target)));
    Ok(())
}

/// Runs the attacks that the arguments select and prints a row for each.
#[expect(clippy::print_stdout, reason = "the report is for people")]
fn run(arguments: &Arguments) -> Result<(), String> {
    if arguments.help {
        print!("{USAGE}");
        return Ok(());
    }
    if let Some(problem) = raise_open_files() {
        eprintln!("tollgate-attack: {problem}");
    }
    let started =
        |address: std::io::Result<_>| address.map_err(|error| format!("no upstream: {error}"));
    let certificates = Certificates::new();
    let restarts = Arc::default();
    let restarting = upstream::start_restarting(arguments.lasts, Arc::clone(&restarts));
    let surroundings = Surroundings {
        upstream: started(upstream::start())?,
        large: started(upstream::start())?,
        restarting: started(restarting)?,
        restarts,
        certificates: &certificates,
    };
    let chosen: Vec<&Attack> = ATTACKS
        .iter()
        .filter(|attack| arguments.chooses(attack.name))
        .collect();
    if chosen.is_empty() {
        return Err("no attack has that in its name".to_owned());
    }
    let mut faults = 0;
    println!("{}", Row::HEADINGS);
    for space in &arguments.address_spaces {
        for attack in &chosen {
            let row = row::measure(attack, arguments, *space, &surroundings)
                .map_err(|error| format!("{}: {error}", attack.name))?;
            println!("{row}");
            // Beside its row: a long run may be ended before its last one.
            for fault in row.faults() {
                println!("  fault: {fault}");
                faults += 1;
            }
        }
    }
    match faults {
        0 => Ok(()),
        count => Err(format!("{count} faults")),
    }
}

/// Attacks need thousands of sockets. Returns why there may be too few.
fn raise_open_files() -> Option<String> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let raised = setrlimit(Resource::Nofile, limit).err();
    let files = getrlimit(Resource::Nofile).current;
    let needed = u64::from(service::IDLE_CONNECTIONS) + OTHER_FILES;
    match (raised, files) {
        (Some(error), _) => Some(format!("the limit of open files cannot be raised: {error}")),
        (None, Some(files)) if files < needed => Some(format!(
            "{files} files can be open, and up to {needed} are needed: raise the hard limit"
        )),
        _ => None,
    }
}
