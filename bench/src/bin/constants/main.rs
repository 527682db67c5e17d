//! Measures the constants of `tollgate plan`: `cargo xtask bench constants`.
//!
//! Times are processor time, which other load on the machine changes much less than time by the
//! clock; the load is recorded beside them. Each is a median of rounds. Listeners are measured by
//! the comparisons of the service and of the gateway, which this program starts.

#![allow(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::as_conversions,
    reason = "waits for real processes and computes figures for people; nothing here decides"
)]

mod arguments;

mod constant;

mod library;

mod listeners;

mod origin;

mod redis_calls;

mod redis_memory;

mod resident;

use std::error::Error;
use std::io::{Write, stdout};
use std::process::{Command, ExitCode};

use tollgate_bench::command_line;

use arguments::{Arguments, USAGE};
use constant::Constants;
use origin::Origin;

fn main() -> ExitCode {
    command_line::run(Arguments::from_args, run)
}

/// Measures all constants, has the planner read them, and writes them.
fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    if arguments.help {
        return Ok(write!(stdout(), "{USAGE}")?);
    }
    let origin = Origin::now();
    let mut constants = Constants::default();
    library::measure(arguments.rounds, &mut constants);
    redis_memory::measure(&mut constants)?;
    redis_calls::measure(arguments.rounds, &mut constants)?;
    resident::measure(&arguments.tollgate, &mut constants)?;
    listeners::measure(arguments, &mut constants)?;
    let text = constants.json(&origin.json());
    let measured = arguments.write.with_extension("measured");
    std::fs::write(&measured, &text)?;
    let plan = Command::new(&arguments.tollgate)
        .args([
            "plan",
            "--users",
            "1M",
            "--rate",
            "10k/s",
            "--store",
            "redis",
            "--constants",
        ])
        .arg(&measured)
        .output()?;
    if !plan.status.success() {
        let why = String::from_utf8_lossy(&plan.stderr);
        return Err(format!("`tollgate plan` cannot use {}: {why}", measured.display()).into());
    }
    std::fs::rename(&measured, &arguments.write)?;
    stdout().write_all(&plan.stdout)?;
    writeln!(stdout(), "\nwritten to {}", arguments.write.display())?;
    Ok(())
}
