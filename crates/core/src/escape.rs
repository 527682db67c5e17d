//! Escapes bytes chosen by clients, for logs and terminals.

use std::fmt;

/// Displays bytes as text: UTF-8 as it is, every other byte as `\xff`.
///
/// Characters that could control a terminal or forge a log line (see [`is_printable`]) are escaped
/// as `\u{1b}`. A backslash is not escaped, so the text is for reading only: two different values
/// may look the same.
///
/// # Example
///
/// ```
/// use tollgate_core::Escaped;
///
/// assert_eq!(Escaped(b"caf\xc3\xa9 \xe9\n").to_string(), "caf\u{e9} \\xe9\\n");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<'a>(pub &'a [u8]);

/// Whether a character is safe to display: no control character, no change of the text's direction,
/// no byte order mark.
pub fn is_printable(character: char) -> bool {
    let turns = matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    !character.is_control() && !turns && character != '\u{feff}'
}

// === impl Escaped ===

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            let mut rest = chunk.valid();
            while let Some(at) = rest.find(|character| !is_printable(character)) {
                let (plain, from) = rest.split_at(at);
                f.write_str(plain)?;
                let mut characters = from.chars();
                if let Some(character) = characters.next() {
                    write!(f, "{}", character.escape_default())?;
                }
                rest = characters.as_str();
            }
            f.write_str(rest)?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_and_everything_else_is_written_out() {
        let table: [(&[u8], &str); 7] = [
            (b"", ""),
            (b"plain/path?x=1", "plain/path?x=1"),
            ("日本 é".as_bytes(), "日本 é"),
            (b"\xff", "\\xff"),
            (b"a\xe9b\xc3", "a\\xe9b\\xc3"),
            (b"one\ntwo\x1b[2J", "one\\ntwo\\u{1b}[2J"),
            ("a\u{202e}b".as_bytes(), "a\\u{202e}b"),
        ];
        for (bytes, expected) in table {
            assert_eq!(Escaped(bytes).to_string(), expected, "{bytes:?}");
        }
    }
}
