//! What is wrong with bytes that are not a command.

use std::fmt;

/// Why the bytes are not a command. The text is Redis's, where Redis has such an error. A
/// connection is closed after it, because nobody knows where the next command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A number of words that is not a number, or above [`crate::WORDS_MAX`].
    WordCount,
    /// A line with the number of words of more than [`crate::LINE_BYTES_MAX`].
    LongWordCount,
    /// No `$` before a word.
    NoBulkString(u8),
    /// A length that is not a number, negative, or above [`crate::WORD_BYTES_MAX`].
    WordLength,
    /// A line with the length of a word of more than [`crate::LINE_BYTES_MAX`].
    LongWordLength,
    /// A word that is longer than it says.
    NoEnd,
    /// A command of more than [`crate::COMMAND_BYTES_MAX`].
    LongCommand,
    /// An inline command of more than [`crate::LINE_BYTES_MAX`].
    LongLine,
    /// A quotation mark without the one that ends it, or something right behind that one.
    Quotes,
}

// === impl ProtocolError ===

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            ProtocolError::WordCount => f.write_str("invalid multibulk length"),
            ProtocolError::LongWordCount => f.write_str("too big mbulk count string"),
            ProtocolError::NoBulkString(found) => {
                write!(f, "expected '$', got '{}'", found.escape_ascii())
            }
            ProtocolError::WordLength => f.write_str("invalid bulk length"),
            ProtocolError::LongWordLength => f.write_str("too big bulk count string"),
            ProtocolError::NoEnd => f.write_str("no line end behind a bulk string"),
            ProtocolError::LongCommand => f.write_str("too big command"),
            ProtocolError::LongLine => f.write_str("too big inline request"),
            ProtocolError::Quotes => f.write_str("unbalanced quotes in request"),
        }
    }
}

impl std::error::Error for ProtocolError {}
