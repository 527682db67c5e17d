//! Where decisions are written: standard output, or a file that gets its name when it is complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::failure::{Failure, cannot, is_standard};

/// The output for decisions.
pub(crate) struct Decisions {
    out: Box<dyn Write>,
    /// The path that is written, and the path that it will be renamed to.
    file: Option<(PathBuf, PathBuf)>,
}

// === impl Decisions ===

impl Decisions {
    /// Opens the output before anything is read, so that a path that cannot be written is reported
    /// at once. It is an error to overwrite an input, which would be truncated before it is read.
    pub(crate) fn create(path: &Path, inputs: &[PathBuf]) -> Result<Decisions, Failure> {
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
        // Write directly to a device or a pipe: a rename would replace it with a file.
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

    /// The path that is written until the file gets its name.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        self.file.as_ref().map(|(partial, _)| partial.clone())
    }

    /// Flushes the file and gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let Some((partial, target)) = self.file else {
            return Ok(());
        };
        self.out
            .flush()
            .map_err(|error| cannot("write", &partial, &error))?;
        fs::rename(&partial, &target).map_err(|error| cannot("write", &target, &error))
    }

    /// Ends an incomplete file: removes it if it has no decision, otherwise returns a message that
    /// says where it is.
    pub(crate) fn give_up(self, has_decided: bool) -> Option<String> {
        let (partial, target) = self.file?;
        if !has_decided {
            // It is empty. If it cannot be removed, an empty file does no harm.
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
