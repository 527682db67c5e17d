//! Text from outside, made fit for a terminal.

use std::fmt;

/// The most characters that are shown at once.
const CHARS_MAX: usize = 120;

/// Text with its control characters escaped, cut where it is too long to be read.
pub(crate) struct Plain<'a>(pub(crate) &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        for char in chars.by_ref().take(CHARS_MAX) {
            if char.is_control() {
                write!(f, "{}", char.escape_default())?;
            } else {
                write!(f, "{char}")?;
            }
        }
        if chars.next().is_some() {
            f.write_str("…")?;
        }
        Ok(())
    }
}
