//! Guesses what an input is that is neither a log nor a trace.

use std::fmt;

use crate::layout::Preset;

/// How many of an input's first bytes are examined.
pub(crate) const HEAD_BYTES: usize = 8;
/// How many bytes of a line are examined.
const SAMPLE_BYTES_MAX: usize = 4096;

/// An unsupported archive or encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Foreign {
    /// A zip archive.
    Zip,
    /// Text in UTF-16.
    Utf16,
    /// Text in UTF-32.
    Utf32,
}

/// What the lines of an input seem to be, if none of them is an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guess {
    /// It is empty.
    Empty,
    /// Compressed, and cut or damaged before its first line ends.
    Cut,
    /// Columns between commas, semicolons or tabs.
    Csv,
    /// The files of docker's json-file driver.
    DockerJson,
    /// One JSON object per line.
    Json,
    /// The log of a program whose layout is known.
    Preset(Preset),
    /// Microsoft's and the W3C's extended log format.
    W3c,
    /// A page or document with tags.
    Markup,
    /// An access log, where a trace is expected.
    AccessLog,
    /// An access log in the common or the combined format, where another format is expected.
    Combined,
    /// An access log in the common or the combined format, whose times cannot be replayed.
    Times,
    /// Whole numbers.
    Counts,
    /// Whole numbers, as the user has said, which are larger than the requests of a second can be.
    LargeCounts,
    /// Requests per second, as the user has said, without any.
    NoCounts,
    /// The format that the user has named.
    Named,
    /// JSON objects, as the user has said, whose members have other names.
    NamedJson,
    /// Blank lines, or headings.
    NoLine,
    /// Lines that are too long.
    LongLines,
    /// No text at all.
    Binary,
    /// Any other text.
    Other,
}

// === impl Foreign ===

impl Foreign {
    /// Fails if an input with these first bytes cannot be read.
    pub(crate) fn reject(head: &[u8]) -> Result<(), Foreign> {
        // The longer marks first: UTF-16's is the beginning of one of UTF-32.
        const MAGIC: [(&[u8], Foreign); 5] = [
            (b"PK\x03\x04", Foreign::Zip),
            (b"\xff\xfe\x00\x00", Foreign::Utf32),
            (b"\x00\x00\xfe\xff", Foreign::Utf32),
            (b"\xff\xfe", Foreign::Utf16),
            (b"\xfe\xff", Foreign::Utf16),
        ];
        if let Some((_, found)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
            return Err(*found);
        }
        // Without a byte order mark, Latin text in UTF-16 has a zero in every other byte, and in
        // UTF-32 three after or before each byte.
        let zeros = |first: usize, step: usize| {
            head.len() >= 4 && head.iter().skip(first).step_by(step).all(|byte| *byte == 0)
        };
        let [low, high] = [0, 1].map(|byte| zeros(byte, 2));
        match (low, high) {
            (true, true) | (false, false) => Ok(()),
            _ if zeros(2, 4) && zeros(1, 4) => Err(Foreign::Utf32),
            _ => Err(Foreign::Utf16),
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Foreign::Zip => "a zip archive; unpack it first: `unzip -p FILE | tollgate replay … -`",
            Foreign::Utf16 => "text in UTF-16; convert it first: `iconv -f UTF-16 -t UTF-8 FILE`",
            Foreign::Utf32 => "text in UTF-32; convert it first: `iconv -f UTF-32 -t UTF-8 FILE`",
        })
    }
}

// === impl Guess ===

impl Guess {
    /// What a line that is not an event seems to belong to. `is_log` says whether another reader
    /// takes it for a line of an access log.
    pub(crate) fn of(line: &[u8], is_log: impl FnOnce(&[u8]) -> bool) -> Guess {
        if let Some(preset) = Preset::of_line(line) {
            return Guess::Preset(preset);
        }
        let line = &line[..line.len().min(SAMPLE_BYTES_MAX)];
        let text = line.trim_ascii_start();
        let separators = |separator: u8| memchr::memchr_iter(separator, text).count();
        let controls = text
            .iter()
            .filter(|byte| byte.is_ascii_control() && **byte != b'\t');
        if controls.count() > text.len() / 16 {
            return Guess::Binary;
        }
        match text.first() {
            Some(b'{') if memchr::memmem::find(text, b"\"log\":").is_some() => Guess::DockerJson,
            Some(b'{') => Guess::Json,
            Some(b'<') if !text[1..].first().is_some_and(u8::is_ascii_digit) => Guess::Markup,
            _ if text.starts_with(b"#Fields:") || text.starts_with(b"#Software:") => Guess::W3c,
            _ if is_log(line) => Guess::Combined,
            Some(_) if text.trim_ascii_end().iter().all(u8::is_ascii_digit) => Guess::Counts,
            _ if [b',', b';', b'\t']
                .map(separators)
                .into_iter()
                .any(|count| count >= 2) =>
            {
                Guess::Csv
            }
            _ => Guess::Other,
        }
    }

    /// Whether another line of the input may tell more.
    pub(crate) const fn is_vague(self) -> bool {
        matches!(
            self,
            Guess::Json | Guess::NamedJson | Guess::Other | Guess::Named
        )
    }

    /// The description of an input, for the middle of a sentence.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Guess::Empty => "it is empty",
            Guess::Cut => "its compressed data are cut or damaged before the first line ends",
            Guess::Csv => "it looks like CSV; add --format csv",
            Guess::DockerJson => {
                "it looks like docker's JSON log files; unwrap its lines first: \
                 `jq -rj .log FILE | tollgate replay … -`"
            }
            Guess::Json => {
                "it looks like lines of JSON; add --format json, and --fields if its members \
                 have other names than usual, or the format of the program, such as caddy; or is \
                 it a trace (`--format jsonl`)?"
            }
            Guess::W3c => "it looks like the W3C's extended log format; add --format w3c",
            Guess::Markup => "it looks like HTML or XML",
            Guess::AccessLog => {
                "it looks like an access log; leave out `--format jsonl`, and add `--domain` and \
                 `--descriptor`"
            }
            Guess::Combined => {
                "it looks like the common or the combined format; leave out --format, --log-format \
                 and --fields"
            }
            Guess::Times => {
                "its lines are in the common or combined format, with times that cannot be read"
            }
            Guess::Counts => "it looks like requests per second; add --format counts",
            Guess::LargeCounts => {
                "its numbers are larger than 1000000000, the most requests that a second can have; \
                 does it have requests per minute or hour? write those of each second"
            }
            Guess::NoCounts => "no second of it has a request",
            Guess::Named => "no line of it can be read in the format that is named",
            Guess::NamedJson => {
                "no line of it can be read in the format that is named; say which members are the \
                 time and the client: --fields 'time=NAME,client=NAME'"
            }
            Guess::Preset(preset) => preset.description(),
            Guess::NoLine => "its lines are blank or headings",
            Guess::LongLines => {
                "its lines are too long; if it is one JSON document, write each record as a line \
                 of its own: `jq -c '.[]' FILE`"
            }
            Guess::Binary => "it is not text",
            Guess::Other => {
                "its lines are not in the common or combined format; describe them with \
                 --log-format as the server's configuration does, or name their format with \
                 --format"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_and_encoded_inputs_are_known_by_their_first_bytes() {
        let table: [(&[u8], Result<(), Foreign>); 8] = [
            (b"", Ok(())),
            (b"1.2.3.4 ", Ok(())),
            (b"\x1f\x8b\x08\0\0\0\0\0", Ok(())),
            (b"\xef\xbb\xbf{\"at", Ok(())),
            (b"PK\x03\x04\x14\0\0\0", Err(Foreign::Zip)),
            (b"\xff\xfe1\x00.\x002\x00", Err(Foreign::Utf16)),
            (b"1\x00.\x002\x00.\x00", Err(Foreign::Utf16)),
            (b"\x001\x00.\x002\x00.", Err(Foreign::Utf16)),
        ];
        for (head, expected) in table {
            assert_eq!(Foreign::reject(head), expected, "{head:?}");
        }
    }

    #[test]
    fn lines_tell_what_they_seem_to_be() {
        let table: [(&[u8], Guess); 12] = [
            (
                b"10.128.2.1,[29/Nov/2017:06:58:55,GET /login.php HTTP/1.1,200",
                Guess::Csv,
            ),
            (b"ip\tdate\ttime", Guess::Csv),
            (
                b"{\"log\":\"1.2.3.4 - -\",\"stream\":\"stdout\"}",
                Guess::DockerJson,
            ),
            (b"{\"remote_addr\":\"1.2.3.4\"}", Guess::Json),
            (b"<!DOCTYPE html>", Guess::Markup),
            (b"#Fields: date time c-ip", Guess::W3c),
            (b"a\0\x01\x02b", Guess::Binary),
            (b"120", Guess::Counts),
            (b"-120", Guess::Other),
            (b"  ", Guess::Other),
            (b"Listening on 0.0.0.0:80", Guess::Other),
            (b"<134>May 17 10:05:03 web1 nginx: up", Guess::Other),
        ];
        for (line, expected) in table {
            assert_eq!(Guess::of(line, |_| false), expected, "{line:?}");
        }
        assert_eq!(Guess::of(b"1.2.3.4", |_| true), Guess::Combined);
    }
}
