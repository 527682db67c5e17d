//! Rules beside those that are read: Envoy's service reads every file below a directory.

use std::fs::{DirEntry, File, read_dir};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::is_rules;

/// How many entries of directories are looked at.
const ENTRIES_MAX: usize = 1_000;
/// How far below a directory its files are looked at.
const DEPTH_MAX: usize = 8;
/// How much of a file is searched for a domain.
const BYTES_MAX: u64 = 64 * 1024;

/// A warning for each file and each subdirectory with rules that [`read_paths`] does not read in
/// the directories of these paths: their names do not end in `.yaml` or `.yml`, or they are not
/// directly in the directory.
///
/// Names that begin with a dot are passed over, as are entries that cannot be read, and entries
/// beyond 1 000.
///
/// [`read_paths`]: crate::read_paths
pub fn warn_of_unread(paths: &[PathBuf]) -> Vec<Diagnostic> {
    let mut search = Search::new(paths);
    let mut warnings = Vec::new();
    for directory in paths.iter().filter(|path| path.is_dir()) {
        for path in search.entries(directory) {
            if path.is_dir() && search.has_rules(&path, DEPTH_MAX) {
                warnings.push(warning(
                    &path,
                    "subdirectories are not read, and this one has rules",
                    "name this directory beside the other",
                ));
            } else if is_unread_file(&path) && has_domain(&path) {
                warnings.push(warning(
                    &path,
                    "a file whose name does not end in `.yaml` or `.yml` is not read, and this one \
                     has rules",
                    "rename it, or name it beside the directory",
                ));
            }
        }
    }
    warnings
}

/// What is left to look at.
struct Search {
    /// Entries of directories.
    left: usize,
    /// What is read because it is named itself.
    named: Vec<PathBuf>,
}

impl Search {
    fn new(paths: &[PathBuf]) -> Search {
        let named = paths.iter().filter_map(|path| path.canonicalize().ok());
        Search {
            left: ENTRIES_MAX,
            named: named.collect(),
        }
    }

    /// The entries of a directory that are not named themselves, and whose names do not begin with
    /// a dot, sorted.
    fn entries(&mut self, directory: &Path) -> Vec<PathBuf> {
        let Ok(entries) = read_dir(directory) else {
            return Vec::new();
        };
        let entries = entries.filter_map(Result::ok).take(self.left);
        let is_shown = |entry: &DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
        let shown = entries.filter(is_shown).map(|entry| entry.path());
        let mut shown: Vec<PathBuf> = shown.collect();
        self.left -= shown.len();
        let is_named =
            |path: &PathBuf| path.canonicalize().is_ok_and(|it| self.named.contains(&it));
        shown.retain(|path| !is_named(path));
        shown.sort();
        shown
    }

    /// Whether a file below the directory has rules and is no copy.
    fn has_rules(&mut self, directory: &Path, depth: usize) -> bool {
        let mut entries = self.entries(directory).into_iter();
        entries.any(|path| match path.is_dir() {
            true => depth > 0 && self.has_rules(&path, depth - 1),
            false => path.is_file() && !is_copy(&path) && has_domain(&path),
        })
    }
}

/// Whether it is a file that is not read, and not a copy of one that was.
fn is_unread_file(path: &Path) -> bool {
    path.is_file() && !is_rules(path).unwrap_or(true) && !is_copy(path)
}

/// Whether it is called as the copy of a file that is read: `a.yaml.bak`, `a.yml~`.
fn is_copy(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    let is_of = |extension: &str| {
        let found = name.find(extension);
        found.is_some_and(|at| at + extension.len() < name.len())
    };
    [".yaml", ".yml"].into_iter().any(is_of)
}

/// Whether a line of the file begins as that which names a domain.
fn has_domain(path: &Path) -> bool {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text));
    let mut lines = text.split(|byte| *byte == b'\n');
    read.is_ok() && lines.any(|line| line.starts_with(b"domain:"))
}

fn warning(path: &Path, message: &str, help: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        code: "not-read",
        message: message.to_owned(),
        help: Some(help.to_owned()),
        file: path.to_string_lossy().into_owned(),
        line: 1,
        column: 1,
        length: 1,
        text: String::new(),
        domain: None,
    }
}
