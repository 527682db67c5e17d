//! Text from elsewhere that cannot control a terminal.

use std::fmt::{self, Display};
use std::ops::Deref;

use serde::{Deserialize, Deserializer};
use tollgate_core::{Escaped, escape_json};

/// A text without control characters and changes of direction: those are escaped when it is made.
/// What a service sends is read into this type, so nothing of it reaches the terminal unescaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Printable(String);

// === impl Printable ===

impl Printable {
    /// Several lines, each of which is escaped.
    pub(crate) fn of_lines(text: &str) -> Printable {
        let lines: Vec<String> = text.lines().map(|line| Printable::from(line).0).collect();
        Printable(lines.join("\n"))
    }
}

impl From<&str> for Printable {
    fn from(text: &str) -> Printable {
        Printable(Escaped(text.as_bytes()).to_string())
    }
}

impl<'de> Deserialize<'de> for Printable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Printable, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Printable::from(&*text))
    }
}

impl Deref for Printable {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Display for Printable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A JSON document as whole lines, in which characters that could control a terminal are written as
/// `\u1234`. It is the same document: such characters occur only in its strings.
pub(crate) fn json_lines(document: &serde_json::Value) -> String {
    escape_json(format!("{document:#}\n"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;
    use tollgate_core::is_printable;

    use super::*;

    /// Clears the screen in two ways, and turns the direction of the text.
    const HOSTILE: &str = "a\u{1b}[2J\u{9b}2J\u{202e}\n\u{7f}";

    #[test]
    fn what_could_control_a_terminal_is_escaped_when_it_is_read() {
        let text = serde_json::to_string(HOSTILE).unwrap();
        let read: Printable = serde_json::from_str(&text).unwrap();
        assert_eq!(&*read, "a\\u{1b}[2J\\u{9b}2J\\u{202e}\\n\\u{7f}");
        let lines = Printable::of_lines(HOSTILE);
        assert_eq!(lines.lines().count(), 2);
        assert!(lines.lines().all(|line| line.chars().all(is_printable)));
    }

    #[test]
    fn a_document_is_the_same_without_such_characters() {
        let document = json!({ HOSTILE: [HOSTILE, "日本"] });
        let text = json_lines(&document);
        assert!(text.chars().all(|one| one == '\n' || is_printable(one)));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            document
        );
    }
}
