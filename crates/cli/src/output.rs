//! Standard output, and its format: one option for all commands that report something.

use std::io::{self, ErrorKind, Write};

use clap::ValueEnum;

/// The format of a command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Human,
    /// For programs: one JSON document.
    Json,
}

/// Prints a report.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The error message if standard output cannot be written. The reader of a pipe may stop early, as
/// `head` does; that is not an error.
pub(crate) fn written(result: io::Result<()>) -> Result<(), String> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

// === impl Output ===

impl Output {
    /// JSON if the old flag `--json` is set, else this.
    pub(crate) fn or_json(self, json: bool) -> Output {
        if json { Output::Json } else { self }
    }
}
