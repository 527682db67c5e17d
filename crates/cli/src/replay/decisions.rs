//! Where decisions go: standard output, or a file that appears when it is whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Failure, cannot, is_standard};

/// Decisions on their way.
pub(super) struct Decisions {
    out: Box<dyn Write>,
    /// What is written, and what it will be called.
    file: Option<(PathBuf, PathBuf)>,
}

// === impl Decisions ===

impl Decisions {
    /// Begins at once, so that a path that cannot be written is told before anything is read; never
    /// over an input, which would be empty before it is read.
    pub(super) fn create(path: &Path, inputs: &[PathBuf]) -> Result<Decisions, Failure> {
        if is_standard(path) {
            let out = Box::new(io::stdout().lock());
            return Ok(Decisions { out, file: None });
        }
        let existing = path.canonicalize().ok();
        let is_same =
            |input: &&PathBuf| existing.is_some() && input.canonicalize().ok() == existing;
        if let Some(input) = inputs.iter().find(is_same) {
            return Err(Failure::Message(format!(
                "--decisions would overwrite the input {}; name another file",
                input.display()
            )));
        }
        let failed = |error| cannot("write", path, &error);
        // A device or a pipe is written as it is: what is put in its place would be a file.
        let is_special = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| !found.is_file());
        if existing.as_ref().is_some_and(is_special) {
            let out = Box::new(File::create(path).map_err(failed)?);
            return Ok(Decisions { out, file: None });
        }
        let target = existing.unwrap_or_else(|| path.to_owned());
        let mut partial = OsString::from(&target);
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let out = Box::new(File::create(&partial).map_err(failed)?);
        let file = Some((partial, target));
        Ok(Decisions { out, file })
    }

    /// What is written until the file gets its name.
    pub(super) fn partial(&self) -> Option<PathBuf> {
        self.file.as_ref().map(|(partial, _)| partial.clone())
    }

    /// Everything is written: the file gets its name.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let Some((partial, target)) = self.file else {
            return Ok(());
        };
        self.out
            .flush()
            .map_err(|error| cannot("write", &partial, &error))?;
        fs::rename(&partial, &target).map_err(|error| cannot("write", &target, &error))
    }

    /// Not everything is written; says what is left. What holds no decision is removed.
    pub(super) fn give_up(self, has_decided: bool) -> Option<String> {
        let (partial, target) = self.file?;
        if !has_decided {
            // It is empty, and of no use to anybody.
            let _ = fs::remove_file(partial);
            return None;
        }
        let (partial, target) = (partial.display(), target.display());
        Some(format!(
            "{target} is not written, the decisions so far are in {partial}"
        ))
    }
}

impl Write for Decisions {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
