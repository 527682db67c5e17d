//! What the programs of this crate do with their command lines.

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::process::ExitCode;

/// The largest number that an option takes.
const NUMBER_MAX: u32 = 1000;

/// Parses the arguments of this process and runs it. Fails with 2 if they are wrong, with 1 if it
/// cannot be done.
pub fn run<A, Wrong: Display, Failed: Display>(
    parse: impl FnOnce(std::iter::Skip<env::Args>) -> Result<A, Wrong>,
    run: impl FnOnce(&A) -> Result<(), Failed>,
) -> ExitCode {
    let (status, error) = match parse(env::args().skip(1)) {
        Ok(arguments) => match run(&arguments) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => (1, error.to_string()),
        },
        Err(error) => (2, error.to_string()),
    };
    eprintln!("error: {error}");
    ExitCode::from(status)
}

/// Reads options, one after the other. `take` has the name of an option, and what reads its value;
/// it returns whether it knows the option.
///
/// # Errors
///
/// Names an option that is not known or has no value, or is an error of `take`.
pub fn read_options(
    mut args: impl Iterator<Item = String>,
    mut take: impl FnMut(
        &str,
        &mut dyn FnMut() -> Result<String, String>,
    ) -> Result<bool, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    while let Some(option) = args.next() {
        let mut value = || {
            let value = args.next();
            value.ok_or_else(|| format!("`{option}` needs a value; see `--help`"))
        };
        if !take(&option, &mut value)? {
            return Err(format!("`{option}` is unknown; see `--help`").into());
        }
    }
    Ok(())
}

/// Parses the value of an option that is a number from 1 to 1000.
///
/// # Errors
///
/// Names the option, and says what it takes.
pub fn number(option: &str, text: &str) -> Result<u32, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=NUMBER_MAX).contains(number));
    number.ok_or_else(|| format!("`{option} {text}`: write a number from 1 to {NUMBER_MAX}"))
}
