//! Splits an input into lines, compressed or not, with at most one line in memory.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use crate::compression::{Compression, Cut, Found};
use crate::foreign::{Foreign, HEAD_BYTES};

/// The longest line that is read; longer ones are skipped.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How much is read at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// How much is unpacked at once. Less than is read, because a decoder that fails may lose what it
/// has unpacked for the same chunk.
const UNPACKED_CHUNK_BYTES: usize = 8 * 1024;

/// The lines of one input.
pub(crate) struct Lines<'i> {
    input: Box<dyn BufRead + 'i>,
    line: Vec<u8>,
    is_first: bool,
    compression: Option<Compression>,
    /// What is known of the end of its compressed data.
    end: Found,
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Its bytes.
    Text(&'a [u8]),
    /// More than [`LINE_BYTES_MAX`].
    TooLong,
    /// The beginning of one in which compressed data end early.
    Cut(&'a [u8]),
}

/// Why an input has no lines.
#[derive(Debug)]
pub(crate) enum NoLines {
    /// It cannot be read.
    Io(io::Error),
    /// It is compressed or encoded in an unsupported way.
    Foreign(Foreign),
}

// === impl Lines ===

impl<'i> Lines<'i> {
    /// The lines of `input`, unpacked if its first bytes are those of a [`Compression`].
    pub(crate) fn of(input: impl Read + 'i) -> Result<Lines<'i>, NoLines> {
        let (head, whole) = read_head(input)?;
        let compression = Compression::of(&head);
        let (input, end): (Box<dyn BufRead + 'i>, Found) = match compression {
            Some(compression) => {
                let (unpacked, end) = compression.unpack(whole);
                let (head, whole) = read_head(unpacked)?;
                Foreign::reject(&head).map_err(NoLines::Foreign)?;
                let whole = BufReader::with_capacity(UNPACKED_CHUNK_BYTES, whole);
                (Box::new(whole), end)
            }
            None => {
                Foreign::reject(&head).map_err(NoLines::Foreign)?;
                let whole = BufReader::with_capacity(CHUNK_BYTES, whole);
                (Box::new(whole), Found::default())
            }
        };
        Ok(Lines {
            input,
            line: Vec::new(),
            is_first: true,
            compression,
            end,
        })
    }

    /// Where the compressed data of the input ended early; known after the last line.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.end.cut()
    }

    /// How the input is compressed, if something that is ignored follows its data; known after the
    /// last line.
    pub(crate) fn find_trailing(&self) -> Option<Compression> {
        self.compression.filter(|_| self.end.has_trailing())
    }

    /// The next line; `None` after the last. A line ends with LF or CR LF, the last one may do so.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let line_max = u64::try_from(LINE_BYTES_MAX + 1).unwrap_or(u64::MAX);
        let read = self
            .input
            .by_ref()
            .take(line_max)
            .read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        if read > LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
            self.input.skip_until(b'\n')?;
            return Ok(Some(Line::TooLong));
        }
        if self.line.last() != Some(&b'\n') && self.end.is_cut() {
            return Ok(Some(Line::Cut(&self.line)));
        }
        let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let is_first = std::mem::replace(&mut self.is_first, false);
        let marked = is_first
            .then(|| text.strip_prefix(BYTE_ORDER_MARK))
            .flatten();
        Ok(Some(Line::Text(marked.unwrap_or(text))))
    }
}

/// The first bytes of an input, and all of it.
fn read_head<R: Read>(mut input: R) -> Result<(Vec<u8>, impl Read), NoLines> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let first = u64::try_from(HEAD_BYTES).unwrap_or(u64::MAX);
    let read = input.by_ref().take(first).read_to_end(&mut head);
    read.map_err(NoLines::Io)?;
    let whole = Cursor::new(head.clone()).chain(input);
    Ok((head, whole))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;

    use super::*;

    fn lines(input: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::of(input).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(match line {
                Line::Text(text) => Some(text.to_vec()),
                Line::TooLong | Line::Cut(_) => None,
            });
        }
        all
    }

    fn texts(texts: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        texts.iter().map(|text| Some(text.to_vec())).collect()
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn lines_end_with_lf_or_cr_lf_and_the_last_with_nothing() {
        assert_eq!(lines(b""), texts(&[]));
        assert_eq!(lines(b"\n"), texts(&[b""]));
        assert_eq!(lines(b"a\r\n\nb"), texts(&[b"a", b"", b"b"]));
        assert_eq!(
            lines(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"),
            texts(&[b"a", b"\xef\xbb\xbfb"])
        );
    }

    #[test]
    fn gzip_is_known_by_its_first_bytes_and_may_come_in_several_pieces() {
        let both = [packed(b"a\nb"), packed(b"c\n")].concat();
        assert_eq!(lines(&both), texts(&[b"a", b"bc"]));
    }

    #[test]
    fn a_gzip_file_cut_short_ends_with_the_line_in_which_it_is_cut() {
        let whole = packed(b"a\nb\nc");
        assert_eq!(lines(&whole), texts(&[b"a", b"b", b"c"]));
        let cut = [texts(&[b"a", b"b"]), vec![None]].concat();
        assert_eq!(lines(&whole[..whole.len() - 4]), cut);
    }

    #[test]
    fn an_input_that_fails_is_an_error_and_no_cut() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let whole = packed(&b"a\n".repeat(1_000_000));
        let half = &whole[..whole.len() / 2];
        let mut lines = Lines::of(half.chain(Fails)).unwrap();
        let why = loop {
            match lines.next() {
                Ok(line) => assert!(line.is_some()),
                Err(why) => break why,
            }
        };
        assert_eq!(why.to_string(), "the disk is gone");
        assert_eq!(lines.cut(), None);
    }

    #[test]
    fn a_line_too_long_is_skipped_and_the_next_one_read() {
        let longest = vec![b'x'; LINE_BYTES_MAX];
        let mut input = longest.clone();
        input.extend(b"\n");
        input.extend(vec![b'y'; LINE_BYTES_MAX + 1]);
        input.extend(b"\nz\n");
        assert_eq!(lines(&input), [Some(longest), None, Some(b"z".to_vec())]);
    }
}
