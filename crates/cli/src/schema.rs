//! `tollgate schema`.

use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;

/// Print the JSON Schema of rules files, for editors.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Exits with 0, or with 2 if standard output cannot be written.
pub(crate) fn run(Args {}: &Args) -> ExitCode {
    match writeln!(stdout().lock(), "{:#}", tollgate_rules::schema()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    }
}
