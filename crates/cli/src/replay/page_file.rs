//! The file of `--report`, which gets its name when it is complete.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::failure::{Failure, cannot};

/// Fails if the page could not be written, or would overwrite an input or the decisions: reading
/// and deciding can take minutes.
pub(crate) fn check(path: &Path, others: &[&PathBuf]) -> Result<(), Failure> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let found = fs::metadata(parent).map_err(|error| cannot("write", path, &error))?;
    if !found.is_dir() {
        let error = io::Error::from(io::ErrorKind::NotADirectory);
        return Err(cannot("write", path, &error));
    }
    if path.is_dir() {
        let error = io::Error::from(io::ErrorKind::IsADirectory);
        return Err(cannot("write", path, &error));
    }
    let existing = path.canonicalize().ok();
    let is_same = |other: &&&PathBuf| {
        **other == path || (existing.is_some() && other.canonicalize().ok() == existing)
    };
    match others.iter().find(is_same) {
        Some(other) => Err(Failure::Message(format!(
            "--report would overwrite {}; name another file",
            other.display()
        ))),
        None => Ok(()),
    }
}

/// Writes the page, and gives it its name when it is complete.
pub(crate) fn write(path: &Path, page: &str) -> Result<(), Failure> {
    let mut partial = OsString::from(path);
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = fs::write(&partial, page).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        // If it cannot be removed, an incomplete file has a name that says so.
        let _ = fs::remove_file(&partial);
        cannot("write", path, &error)
    })
}
