//! A line of a file, made fit for a terminal, with carets below what is meant.

use tollgate_core::is_printable;

use super::Diagnostic;

/// The most characters of a line that are shown.
const SHOWN_MAX: usize = 100;
/// How many characters before the position stay visible when a line is cut.
const BEFORE_MAX: usize = 30;
/// How many columns a tab is shown as.
const TAB: &str = "    ";

/// What is shown of a line, and the carets below it.
pub(super) struct Excerpt {
    pub(super) text: String,
    pub(super) carets: String,
}

// === impl Excerpt ===

impl Excerpt {
    /// The part of the line around the diagnostic, at most [`SHOWN_MAX`] characters.
    pub(super) fn of(diagnostic: &Diagnostic) -> Excerpt {
        let start = index(diagnostic.column).saturating_sub(1);
        let length = index(diagnostic.length).max(1);
        let cut = if diagnostic.text.chars().count() > SHOWN_MAX {
            start.saturating_sub(BEFORE_MAX)
        } else {
            0
        };
        let mut excerpt = Excerpt {
            text: String::new(),
            carets: String::new(),
        };
        if cut > 0 {
            excerpt.push("…", " ");
        }
        let mut rest = diagnostic.text.chars().enumerate().skip(cut);
        for (at, character) in rest.by_ref().take(SHOWN_MAX) {
            let mark = if (start..start + length).contains(&at) {
                "^"
            } else {
                " "
            };
            excerpt.push(&escape_char(character), mark);
        }
        if rest.next().is_some() {
            excerpt.push("…", " ");
        }
        // An error at the end of a line, where there is no character.
        while excerpt.carets.trim_end().is_empty() {
            excerpt.push(" ", "^");
        }
        excerpt.text.truncate(excerpt.text.trim_end().len());
        excerpt.carets.truncate(excerpt.carets.trim_end().len());
        excerpt
    }

    fn push(&mut self, text: &str, mark: &str) {
        self.text.push_str(text);
        for _ in text.chars() {
            self.carets.push_str(mark);
        }
    }
}

/// A file's own words made fit for a terminal: control characters and those that change the
/// direction of text are written out, and a tab is four blanks.
pub fn escape(text: &str) -> String {
    text.chars().map(escape_char).collect()
}

fn escape_char(character: char) -> String {
    match character {
        '\t' => TAB.to_owned(),
        character if !is_printable(character) => character.escape_unicode().to_string(),
        character => character.to_string(),
    }
}

fn index(column: u32) -> usize {
    usize::try_from(column).unwrap_or(usize::MAX)
}
