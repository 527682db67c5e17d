//! Escapes bytes chosen by clients, for logs and terminals.

use std::borrow::Cow;
use std::fmt::{self, Write};

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
/// no end of a line or a paragraph, no space without a width, no byte order mark, and none of the
/// code points that are no characters. Characters that join letters, such as those of emoji, are
/// safe.
pub fn is_printable(character: char) -> bool {
    let is_unsafe = matches!(
        character,
        '\u{061c}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{feff}'
    );
    // The last two of each plane: U+FFFE, U+FFFF, U+1FFFE, and so on.
    let is_last_of_plane = u32::from(character) & 0xfffe == 0xfffe;
    !character.is_control() && !is_unsafe && !is_last_of_plane
}

/// Bytes as text for a program: UTF-8 as it is, control characters too, every other byte as `\xff`.
/// For people, [`Escaped`] also escapes what could control a terminal.
pub fn to_text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("a text can be written to memory");
        }
    }
    Cow::Owned(text)
}

/// Writes the characters of a JSON document that are not [printable](is_printable) as `\u1234`,
/// except for ends of lines. The document stays the same, because they can only be in its strings.
pub fn escape_json(document: String) -> String {
    let is_kept = |character| character == '\n' || is_printable(character);
    if document.chars().all(is_kept) {
        return document;
    }
    let mut escaped = String::new();
    for character in document.chars() {
        if is_kept(character) {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(escaped, "\\u{unit:04x}").expect("a text can be written to memory");
        }
    }
    escaped
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

    #[test]
    fn what_is_invisible_or_turns_the_text_is_not_printable() {
        let unsafe_ones = "\0\n\u{1b}\u{7f}\u{9b}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\
                           \u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{206f}\u{fdd0}\u{fdef}\u{feff}\
                           \u{fffe}\u{ffff}\u{1fffe}\u{10ffff}";
        for one in unsafe_ones.chars() {
            assert!(!is_printable(one), "{one:?}");
            let escaped = Escaped(one.to_string().as_bytes()).to_string();
            assert!(escaped.is_ascii() && escaped.starts_with('\\'), "{escaped}");
        }
        // Letters are joined in several scripts, and emoji.
        for one in
            "aé日\u{61b}\u{61d}\u{200c}\u{200d}\u{2027}\u{fdcf}\u{fdf0}\u{fffd}\u{10000}".chars()
        {
            assert!(is_printable(one), "{one:?}");
        }
    }

    #[test]
    fn text_for_a_program_differs_if_the_values_do() {
        assert_eq!(to_text("a\u{202e}\n".as_bytes()), "a\u{202e}\n");
        assert_eq!(to_text("\u{202e}\u{1b}".as_bytes()), "\u{202e}\u{1b}");
        assert_eq!(to_text(b"a\xff\x1b\xc3"), "a\\xff\u{1b}\\xc3");
    }

    #[test]
    fn a_json_document_is_escaped_as_json() {
        let document = "{\n  \"a\u{202e}\": \"日\u{10ffff}\"\n}";
        let expected = "{\n  \"a\\u202e\": \"日\\udbff\\udfff\"\n}";
        assert_eq!(escape_json(document.to_owned()), expected);
        assert_eq!(escape_json(expected.to_owned()), expected);
    }
}
