//! A file that a command writes: never one that it reads, and under its name only when it is
//! complete.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tollgate_rules::rule_files;

use crate::replay::failure::is_standard;

/// A symbolic link to what standard input was opened as; a system without it has no such check.
const STANDARD_INPUT: &str = "/dev/stdin";

/// Where a file is written, and the name that it gets.
pub(crate) struct OutputFile {
    /// What is opened.
    path: PathBuf,
    /// The name of the complete file; `None` for a device or a pipe, which is written directly: a
    /// rename would replace it with a file.
    target: Option<PathBuf>,
}

/// Fails if `path`, the value of `option`, could not be written, or would overwrite one of
/// `others`, or a rules file in a directory among them; `-` is standard input. To be called before
/// anything is read: reading and deciding can take minutes.
pub(crate) fn check<'p>(
    option: &str,
    path: &Path,
    others: impl IntoIterator<Item = &'p PathBuf>,
) -> Result<(), String> {
    if is_standard(path) {
        return Err(format!(
            "{option} must name a file, because standard output has the report; write `./-` for a \
             file of the name `-`"
        ));
    }
    let parent = fs::metadata(parent(path)).map_err(|error| cannot_write(path, &error))?;
    if !parent.is_dir() {
        return Err(cannot_write(path, &io::ErrorKind::NotADirectory.into()));
    }
    if path.is_dir() {
        return Err(cannot_write(path, &io::ErrorKind::IsADirectory.into()));
    }
    let file = OutputFile::at(path);
    let written = [Some(file.path()), file.target.as_deref()];
    let written = written.map(|path| path.map(identity));
    let is_written = |other: &PathBuf| written.contains(&Some(identity(other)));
    // A directory that cannot be read is an error when its rules are read.
    let files_of = |path: &PathBuf| rule_files(path).unwrap_or_else(|_| vec![path.clone()]);
    let mut others = others.into_iter().flat_map(files_of);
    match others.find(is_written) {
        Some(other) => {
            let other = match is_standard(&other) {
                true => "the file on standard input".to_owned(),
                false => other.display().to_string(),
            };
            Err(format!(
                "{option} would overwrite {other}; name another file"
            ))
        }
        None => Ok(()),
    }
}

/// Writes a file, which gets its name when it is complete.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let file = OutputFile::at(path);
    let written = fs::write(file.path(), text).and_then(|()| file.finish());
    written.map_err(|error| {
        if let Some(partial) = file.partial() {
            // If it cannot be removed, an incomplete file has a name that says so.
            let _ = fs::remove_file(partial);
        }
        cannot_write(path, &error)
    })
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// The directory of a file.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// One path for all names of a file, whether or not it exists: `-`, which is read, is the file that
/// standard input comes from.
fn identity(path: &Path) -> PathBuf {
    let path = match is_standard(path) {
        true => Path::new(STANDARD_INPUT),
        false => path,
    };
    let existing = path.canonicalize().ok();
    let new = || Some(parent(path).canonicalize().ok()?.join(path.file_name()?));
    existing.or_else(new).unwrap_or_else(|| path.to_owned())
}

// === impl OutputFile ===

impl OutputFile {
    /// The file that `path` names, if need be through symbolic links. Nothing is written yet.
    pub(crate) fn at(path: &Path) -> OutputFile {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return OutputFile {
                path: path.to_owned(),
                target: None,
            };
        }
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut partial = OsString::from(&target);
        partial.push(".partial");
        OutputFile {
            path: PathBuf::from(partial),
            target: Some(target),
        }
    }

    /// The path to open.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path that has an incomplete file until it gets its name.
    pub(crate) fn partial(&self) -> Option<&Path> {
        self.target.as_ref().map(|_| self.path.as_path())
    }

    /// The name of the complete file.
    pub(crate) fn target(&self) -> Option<&Path> {
        self.target.as_deref()
    }

    /// Gives the file, which is complete, its name.
    pub(crate) fn finish(&self) -> io::Result<()> {
        match &self.target {
            Some(target) => fs::rename(&self.path, target),
            None => Ok(()),
        }
    }
}
