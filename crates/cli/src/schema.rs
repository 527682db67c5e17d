//! `tollgate schema`.

use std::process::ExitCode;

use crate::message::print_error;
use crate::output;

/// Print the JSON Schema of rules files, for editors.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Exits with 0, or with 2 if standard output cannot be written.
pub(crate) fn run(Args {}: &Args) -> ExitCode {
    match output::print(&format!("{:#}\n", tollgate_rules::schema())) {
        Err(message) => {
            print_error(&message);
            ExitCode::from(2)
        }
        Ok(()) => ExitCode::SUCCESS,
    }
}
