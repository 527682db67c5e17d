//! The segments of a path, while it is read.

use std::fmt::Write;

use super::{EncodedSlash, InvalidPath, PathParameters, PathSettings, TrailingSlash};

/// Characters that a segment may have besides letters and digits (RFC 3986, `pchar`).
const MARKS: &[u8] = b"-._~!$&'()*+,;=:@";
const SPACE: &str = "%20";

/// The segments so far, and the one that is being read.
#[derive(Debug)]
pub(super) struct Segments {
    settings: PathSettings,
    done: Vec<String>,
    current: String,
    /// Behind the `;` of the current segment, when parameters are removed.
    is_in_parameters: bool,
    /// Whether the last segment names a directory: it is empty, `.` or `..`.
    ends_with_slash: bool,
    had_empty: bool,
    had_encoded_slash: bool,
    had_parent: bool,
}

// === impl Segments ===

impl Segments {
    pub(super) const fn new(settings: PathSettings) -> Segments {
        Segments {
            settings,
            done: Vec::new(),
            current: String::new(),
            is_in_parameters: false,
            ends_with_slash: false,
            had_empty: false,
            had_encoded_slash: false,
            had_parent: false,
        }
    }

    /// Adds a byte that was written as `%` and two digits, or a backslash.
    pub(super) fn push_decoded(&mut self, byte: u8) -> Result<(), InvalidPath> {
        match (byte, self.settings.encoded_slash) {
            (b'/' | b'\\', EncodedSlash::Reject) => Err(InvalidPath::EncodedSlash),
            // Servlet containers remove parameters before they decode, so it is a part of them.
            (b'/' | b'\\', EncodedSlash::Decode) if self.is_in_parameters => {
                Err(InvalidPath::Ambiguous)
            }
            (b'/' | b'\\', EncodedSlash::Decode) => {
                self.had_encoded_slash = true;
                self.end()
            }
            _ => self.push(byte),
        }
    }

    /// Adds a byte to the current segment.
    pub(super) fn push(&mut self, byte: u8) -> Result<(), InvalidPath> {
        if byte.is_ascii_control() {
            return Err(InvalidPath::ControlCharacter);
        }
        if byte == b';' && self.settings.path_parameters == PathParameters::Strip {
            self.is_in_parameters = true;
        }
        if self.is_in_parameters {
            return Ok(());
        }
        if byte.is_ascii_alphanumeric() || MARKS.contains(&byte) {
            let folded = match self.settings.fold_case {
                true => byte.to_ascii_lowercase(),
                false => byte,
            };
            self.current.push(char::from(folded));
        } else {
            write!(self.current, "%{byte:02X}").expect("a String takes everything");
        }
        Ok(())
    }

    /// Ends the current segment, at a slash.
    pub(super) fn end(&mut self) -> Result<(), InvalidPath> {
        self.end_segment()?;
        // A doubled slash. At the root, `..` cannot remove it.
        if self.ends_with_slash && self.current.is_empty() && !self.done.is_empty() {
            self.had_empty = true;
        }
        self.current.clear();
        Ok(())
    }

    /// The path.
    pub(super) fn finish(mut self) -> Result<String, InvalidPath> {
        self.end_segment()?;
        if self.had_encoded_slash && self.had_parent {
            return Err(InvalidPath::Ambiguous);
        }
        let mut path = String::new();
        for segment in &self.done {
            path.push('/');
            path.push_str(segment);
        }
        let keeps_slash = self.settings.trailing_slash == TrailingSlash::Keep;
        if path.is_empty() || (keeps_slash && self.ends_with_slash) {
            path.push('/');
        }
        Ok(path)
    }

    /// Takes the current segment over; leaves it in `current` if it is empty or made of dots.
    fn end_segment(&mut self) -> Result<(), InvalidPath> {
        let trimmed = trim(&self.current);
        let is_changed = trimmed.len() != self.current.len() || self.is_in_parameters;
        self.current = trimmed.to_owned();
        self.is_in_parameters = false;
        self.ends_with_slash = matches!(self.current.as_str(), "" | "." | "..");
        match self.current.as_str() {
            "." | ".." if is_changed => return Err(InvalidPath::Ambiguous),
            ".." if self.had_empty => return Err(InvalidPath::Ambiguous),
            ".." => {
                self.had_parent = true;
                self.done.pop();
            }
            "" | "." => {}
            _ => self.done.push(std::mem::take(&mut self.current)),
        }
        Ok(())
    }
}

/// A segment without encoded spaces round it, which some servers ignore.
fn trim(segment: &str) -> &str {
    segment.trim_start_matches(SPACE).trim_end_matches(SPACE)
}
