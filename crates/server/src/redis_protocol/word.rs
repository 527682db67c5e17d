//! Words of commands: as numbers, and as errors repeat them.

/// How much of a word an error repeats.
pub(super) const SHOWN_BYTES_MAX: usize = 128;

/// A word, or its beginning, for an error.
pub(super) fn shown(word: &[u8]) -> String {
    let word = &word[..word.len().min(SHOWN_BYTES_MAX)];
    word.escape_ascii().to_string()
}

/// Whether a word is a number that fits 64 bits.
pub(super) fn is_integer(word: &[u8]) -> bool {
    str::from_utf8(word).is_ok_and(|word| word.parse::<i64>().is_ok())
}
