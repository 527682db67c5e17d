//! Why a replay has no report, or one that does not satisfy the command line.

use std::io;
use std::path::Path;

use super::interrupt;
use crate::message::print_error;

/// The exit status if a condition of `--fail-if` holds.
const CONDITION_HOLDS: u8 = 3;

/// Why the exit status is not 0.
pub(crate) enum Failure {
    /// The rules have errors, which were printed.
    Rules,
    /// Any other error, to be printed.
    Message(String),
    /// A condition of `--fail-if` holds; the message says which.
    Condition(String),
    /// Interrupted by Ctrl-C; the message says how far the replay got.
    Interrupted(String),
}

/// A file that cannot be read or written.
pub(crate) fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Message(format!("cannot {what} {}: {error}", path.display()))
}

/// Whether the path stands for standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

// === impl Failure ===

impl Failure {
    /// Prints why, unless that is done; the exit status.
    pub(crate) fn print(&self) -> u8 {
        let (message, status) = match self {
            Failure::Rules => return 1,
            Failure::Message(message) => (message, 2),
            Failure::Condition(message) => (message, CONDITION_HOLDS),
            Failure::Interrupted(message) => (message, interrupt::EXIT),
        };
        print_error(message);
        status
    }
}
