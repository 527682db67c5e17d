//! Why a replay has no report, or one that does not satisfy the command line.

use std::io;
use std::path::Path;

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
