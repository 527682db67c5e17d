//! Where decisions are written: standard output, or a file that gets its name when it is complete.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::failure::{Failure, cannot, is_standard};
use super::report_args::ReportArgs;
use crate::output_file::{self, OutputFile};

/// The output for decisions.
pub(crate) struct Decisions {
    out: Box<dyn Write>,
    /// The file; `None` for standard output.
    file: Option<OutputFile>,
    /// The same file, if an earlier run left it: its decisions are kept until there are new ones.
    earlier: Option<File>,
    /// Whether the decisions serve more than their reader: conditions, or a page.
    has_other_use: bool,
    /// Whether any decision was to be written.
    is_begun: bool,
    /// Whether the reader of a pipe has closed it, and what is written is dropped.
    is_closed: bool,
}

// === impl Decisions ===

impl Decisions {
    /// Opens the output, if one is named, before anything is read, so that a path that cannot be
    /// written is reported at once. It is an error to overwrite an input, which would be truncated
    /// before it is read.
    pub(crate) fn create<'p>(
        args: &ReportArgs,
        inputs: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Result<Option<Decisions>, Failure> {
        let Some(path) = &args.decisions else {
            return Ok(None);
        };
        let mut decisions = Decisions {
            out: Box::new(io::sink()),
            file: None,
            earlier: None,
            has_other_use: args.report.is_some() || !args.fail_if.is_empty(),
            is_begun: false,
            is_closed: false,
        };
        if is_standard(path) {
            decisions.out = Box::new(io::stdout().lock());
            return Ok(Some(decisions));
        }
        output_file::check("--decisions", path, inputs).map_err(Failure::Message)?;
        let file = OutputFile::at(path);
        let opened = open(file.path());
        let (opened, earlier) = opened.map_err(|error| cannot("write", path, &error))?;
        decisions.out = Box::new(opened);
        decisions.earlier = earlier;
        decisions.file = Some(file);
        Ok(Some(decisions))
    }

    /// The path of an incomplete file that is to be removed if nothing is decided.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        let file = self.file.as_ref().filter(|_| self.earlier.is_none());
        file.and_then(OutputFile::partial).map(Path::to_owned)
    }

    /// Flushes the file and gives it its name, which is returned.
    pub(crate) fn finish(mut self) -> Result<Option<PathBuf>, Failure> {
        let flushed = self.begin().and_then(|()| self.out.flush());
        let Some(file) = self.file else {
            return Ok(None);
        };
        flushed.map_err(|error| cannot("write", file.path(), &error))?;
        let name = file.target().unwrap_or(file.path());
        let named = file.finish();
        named.map_err(|error| cannot("write", name, &error))?;
        Ok(Some(name.to_owned()))
    }

    /// Ends an incomplete file: removes it if nothing was written to it, otherwise returns a
    /// message that says where it is.
    pub(crate) fn give_up(self) -> Option<String> {
        if !self.is_begun {
            // It is empty. If it cannot be removed, an empty file does no harm.
            let _ = self.partial().map(fs::remove_file);
            return None;
        }
        let file = self.file?;
        let (partial, target) = (file.partial()?, file.target()?);
        let (partial, target) = (partial.display(), target.display());
        Some(format!(
            "{target} is not written, the decisions so far are in {partial}"
        ))
    }

    /// Makes room for the first decision.
    fn begin(&mut self) -> io::Result<()> {
        self.is_begun = true;
        match self.earlier.take() {
            Some(earlier) => earlier.set_len(0),
            None => Ok(()),
        }
    }

    /// That the reader has closed the pipe is no error if there is more to do than to write to it:
    /// a condition that was not judged would look like one that does not hold.
    fn go_on<T>(&mut self, written: io::Result<T>, unread: T) -> io::Result<T> {
        match written {
            Err(error) if self.has_other_use && error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(unread)
            }
            written => written,
        }
    }
}

impl Write for Decisions {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(bytes.len());
        }
        self.begin()?;
        let written = self.out.write(bytes);
        self.go_on(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let flushed = self.out.flush();
        self.go_on(flushed, ())
    }
}

/// Opens an incomplete file, and a second time if an earlier run left it, which is not emptied yet.
fn open(path: &Path) -> io::Result<(File, Option<File>)> {
    match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        created => return Ok((created?, None)),
    }
    let mut options = File::options();
    let opened = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    // Pipes and devices have nothing to be kept.
    let earlier = match opened.metadata()?.is_file() {
        true => Some(opened.try_clone()?),
        false => None,
    };
    Ok((opened, earlier))
}
