//! The lines that diagnostics show.

use crate::source::Source;

/// The lines of the most recently used file.
#[derive(Default)]
pub(super) struct Lines<'s> {
    file: Option<usize>,
    lines: Vec<&'s [u8]>,
}

/// The most bytes of a line that a diagnostic carries.
const LINE_BYTES_MAX: usize = 4096;

impl<'s> Lines<'s> {
    /// One of a file's lines, from 1, shortened; empty if there is no such line.
    pub(super) fn line(&mut self, file: usize, source: &'s Source, line: usize) -> String {
        if self.file != Some(file) {
            self.lines = split_lines(&source.text);
            self.file = Some(file);
        }
        let line = self.lines.get(line.saturating_sub(1)).copied();
        let line = line.unwrap_or_default();
        let shown = &line[..line.len().min(LINE_BYTES_MAX)];
        let text = String::from_utf8_lossy(shown);
        text.trim_start_matches('\u{feff}').trim_end().to_owned()
    }
}

/// Lines as YAML has them: a lone carriage return ends one as well.
fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        lines.extend(line.split(|byte| *byte == b'\r'));
    }
    lines
}
