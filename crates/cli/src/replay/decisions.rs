//! Where decisions are written: standard output, or a file that gets its name when it is complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::failure::{Failure, cannot, is_standard};
use crate::output_file::{self, OutputFile};

/// The output for decisions.
pub(crate) struct Decisions {
    out: Box<dyn Write>,
    /// The file; `None` for standard output.
    file: Option<OutputFile>,
}

// === impl Decisions ===

impl Decisions {
    /// Opens the output before anything is read, so that a path that cannot be written is reported
    /// at once. It is an error to overwrite an input, which would be truncated before it is read.
    pub(crate) fn create<'p>(
        path: &Path,
        inputs: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Result<Decisions, Failure> {
        if is_standard(path) {
            let out = Box::new(io::stdout().lock());
            return Ok(Decisions { out, file: None });
        }
        output_file::check("--decisions", path, inputs).map_err(Failure::Message)?;
        let file = OutputFile::at(path);
        let opened = File::create(file.path()).map_err(|error| cannot("write", path, &error))?;
        Ok(Decisions {
            out: Box::new(opened),
            file: Some(file),
        })
    }

    /// The path that is written until the file gets its name.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        let partial = self.file.as_ref().and_then(OutputFile::partial);
        partial.map(Path::to_owned)
    }

    /// Flushes the file and gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let Some(file) = self.file else {
            return Ok(());
        };
        let flushed = self.out.flush();
        flushed.map_err(|error| cannot("write", file.path(), &error))?;
        let name = file.target().unwrap_or(file.path());
        file.finish().map_err(|error| cannot("write", name, &error))
    }

    /// Ends an incomplete file: removes it if it has no decision, otherwise returns a message that
    /// says where it is.
    pub(crate) fn give_up(self, has_decided: bool) -> Option<String> {
        let file = self.file?;
        let (partial, target) = (file.partial()?, file.target()?);
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
