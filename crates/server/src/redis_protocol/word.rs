//! Words of commands: as numbers, and as errors repeat them.

/// How much of a word, or of several, an error repeats.
const SHOWN_BYTES_MAX: usize = 128;

/// A word, or its beginning, for an error.
pub(super) fn shown(word: &[u8]) -> String {
    escape_beginning(word, SHOWN_BYTES_MAX)
}

/// So many bytes of a word, for an error.
fn escape_beginning(word: &[u8], bytes: usize) -> String {
    let word = &word[..word.len().min(bytes)];
    word.escape_ascii().to_string()
}

/// The first words, each in quotation marks, for an error. Redis counts these and the spaces as
/// well.
pub(super) fn quote_words<'w>(words: impl Iterator<Item = &'w [u8]>) -> String {
    let (mut text, mut left) = (String::new(), SHOWN_BYTES_MAX);
    for word in words {
        if left == 0 {
            break;
        }
        text.push_str(&format!("'{}' ", escape_beginning(word, left)));
        left = left.saturating_sub(word.len() + "'' ".len());
    }
    text
}

/// The number that a word is, as Redis reads it: no `+`, no leading zeros, nothing around it.
pub(super) fn integer(word: &[u8]) -> Option<i64> {
    let number: i64 = str::from_utf8(word).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == word).then_some(number)
}
