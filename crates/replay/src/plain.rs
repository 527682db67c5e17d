//! Escapes and shortens untrusted text for a terminal.

use std::fmt;

use tollgate_core::Escaped;

/// The most characters that are shown at once.
const CHARS_MAX: usize = 120;

/// Escaped text, cut where it is too long to be read.
pub(crate) struct Plain<'a>(pub(crate) &'a str);

/// Escaped text, of which at most so many characters are shown.
pub(crate) struct Cut<'a>(pub(crate) &'a str, pub(crate) usize);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Cut(self.0, CHARS_MAX).fmt(f)
    }
}

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(self.1).map(|(at, _)| at);
        let shown = &self.0[..end.unwrap_or(self.0.len())];
        let cut = if end.is_some() { "…" } else { "" };
        write!(f, "{}{cut}", Escaped(shown.as_bytes()))
    }
}
