//! From received bytes to commands.

use memchr::memchr;

use crate::command::{Command, Place};
use crate::inline;
use crate::protocol_error::ProtocolError;

/// The longest word of a command: longer than the longest value that Envoy accepts.
pub const WORD_BYTES_MAX: usize = 64 * 1024;
/// The most words of a command.
pub const WORDS_MAX: usize = 1024;
/// The longest command.
pub const COMMAND_BYTES_MAX: usize = 128 * 1024;
/// The longest inline command, and the longest line with a number.
pub const LINE_BYTES_MAX: usize = 16 * 1024;
/// For so many words there is always memory.
const PLACES_KEPT: usize = 128;
/// For so many bytes of words in quotation marks, too.
const UNQUOTED_KEPT: usize = 1024;

/// Finds commands in the bytes of one connection, however they arrive.
///
/// # Example
///
/// ```
/// use tollgate_resp::Parser;
///
/// let mut parser = Parser::default();
/// assert!(parser.next(b"*2\r\n$4\r\nECHO\r\n$2\r\nh").unwrap().is_none());
/// let input = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n";
/// let command = parser.next(input).unwrap().unwrap();
/// assert_eq!(command.word(1), Some(&b"hi"[..]));
/// let rest = &input[command.length()..];
/// assert_eq!(parser.next(rest).unwrap().unwrap().name(), b"PING");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// The words that were found so far.
    places: Vec<Place>,
    /// The words of an inline command with quotation marks, which its bytes are not.
    unquoted: Vec<u8>,
    progress: Progress,
}

/// How far the first command of the input was read.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Where to go on.
    at: usize,
    /// Up to where there is no end of the line that begins at `at`.
    searched: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing of the command is known.
    #[default]
    Start,
    /// The length of one of so many words comes next.
    Length { left: usize },
    /// One of so many words comes next, of this length.
    Word { left: usize, length: usize },
}

// === impl Parser ===

impl Parser {
    /// The command with which `input` begins; `None` if it has not arrived completely. Call it
    /// again with more input behind the same beginning, or with what follows the command.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`], after which nothing more can be read.
    #[inline]
    pub fn next<'b>(&'b mut self, input: &'b [u8]) -> Result<Option<Command<'b>>, ProtocolError> {
        if self.progress.state == State::Start {
            self.places.clear();
            match input.first() {
                None => {
                    self.shrink();
                    return Ok(None);
                }
                Some(b'*') => {}
                Some(_) => return self.inline(input),
            }
            let Some((count, at)) = self.number(input, ProtocolError::LongWordCount)? else {
                return Ok(None);
            };
            let left = word_count(count)?;
            self.advance(at, State::Length { left });
        }
        self.array(input)
    }

    /// Returns the memory of large commands: nothing follows them, and the connection may be idle
    /// for long.
    #[inline]
    fn shrink(&mut self) {
        if self.places.capacity() > PLACES_KEPT {
            self.places.shrink_to(PLACES_KEPT);
        }
        if self.unquoted.capacity() > UNQUOTED_KEPT {
            self.unquoted.clear();
            self.unquoted.shrink_to(UNQUOTED_KEPT);
        }
    }

    /// The rest of an array of bulk strings.
    #[inline]
    fn array<'b>(&'b mut self, input: &'b [u8]) -> Result<Option<Command<'b>>, ProtocolError> {
        loop {
            match self.progress.state {
                State::Start | State::Length { left: 0 } => {
                    let length = self.progress.at;
                    self.progress = Progress::default();
                    return Ok(Some(Command::new(&input[..length], &self.places)));
                }
                State::Length { left } => {
                    match input.get(self.progress.at) {
                        None => return Ok(None),
                        Some(b'$') => {}
                        Some(found) => return Err(ProtocolError::NoBulkString(*found)),
                    }
                    let Some((length, at)) = self.number(input, ProtocolError::LongWordLength)?
                    else {
                        return Ok(None);
                    };
                    let length = word_length(length)?;
                    // With the end of its line.
                    if at + length + 2 > COMMAND_BYTES_MAX {
                        return Err(ProtocolError::LongCommand);
                    }
                    self.advance(at, State::Word { left, length });
                }
                State::Word { left, length } => {
                    let from = self.progress.at;
                    let to = from + length;
                    match input.get(to..to + 2) {
                        None => return Ok(None),
                        Some(b"\r\n") => {}
                        Some(_) => return Err(ProtocolError::NoEnd),
                    }
                    self.places.push((narrow(from), narrow(to)));
                    let left = left - 1;
                    self.advance(to + 2, State::Length { left });
                }
            }
        }
    }

    /// An inline command.
    #[cold]
    fn inline<'b>(&'b mut self, input: &'b [u8]) -> Result<Option<Command<'b>>, ProtocolError> {
        let Some(end) = memchr(b'\n', &input[self.progress.searched..]) else {
            self.progress.searched = input.len();
            return match input.len() > LINE_BYTES_MAX {
                true => Err(ProtocolError::LongLine),
                false => Ok(None),
            };
        };
        let end = self.progress.searched + end;
        if end > LINE_BYTES_MAX {
            return Err(ProtocolError::LongLine);
        }
        self.progress = Progress::default();
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let whole = &input[..=end];
        match inline::split(line, &mut self.places, &mut self.unquoted)? {
            inline::Bytes::OfLine => Ok(Some(Command::new(whole, &self.places))),
            inline::Bytes::Unquoted => Ok(Some(Command::with_words(
                whole,
                &self.unquoted,
                &self.places,
            ))),
        }
    }

    const fn advance(&mut self, at: usize, state: State) {
        self.progress = Progress {
            at,
            searched: at,
            state,
        };
    }

    /// The number behind the mark at which the parser is, and where its line ends; `None` if it has
    /// not arrived completely. A number that is none is `None` in it.
    #[inline]
    fn number(
        &mut self,
        input: &[u8],
        too_long: ProtocolError,
    ) -> Result<Option<(Option<i64>, usize)>, ProtocolError> {
        let begin = self.progress.at + 1;
        // Nearly every number has one or two digits.
        match input.get(begin..begin + 4) {
            Some([digit @ b'0'..=b'9', b'\r', b'\n', _]) => {
                return Ok(Some((Some(i64::from(digit - b'0')), begin + 3)));
            }
            Some([tens @ b'1'..=b'9', digit @ b'0'..=b'9', b'\r', b'\n']) => {
                let number = i64::from(tens - b'0') * 10 + i64::from(digit - b'0');
                return Ok(Some((Some(number), begin + 4)));
            }
            _ => {}
        }
        self.long_number(input, begin, too_long)
    }

    /// As [`Parser::number`], for a number of any length.
    fn long_number(
        &mut self,
        input: &[u8],
        begin: usize,
        too_long: ProtocolError,
    ) -> Result<Option<(Option<i64>, usize)>, ProtocolError> {
        let from = self.progress.searched.max(begin).min(input.len());
        let Some(end) = memchr(b'\r', &input[from..]) else {
            self.progress.searched = input.len();
            return match input.len() - begin.min(input.len()) > LINE_BYTES_MAX {
                true => Err(too_long),
                false => Ok(None),
            };
        };
        let end = from + end;
        if end - begin > LINE_BYTES_MAX {
            return Err(too_long);
        }
        self.progress.searched = end;
        match input.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some((decimal(&input[begin..end]), end + 2))),
            // A carriage return in the middle of a number.
            Some(_) => Ok(Some((None, end + 2))),
        }
    }
}

/// Redis ignores an array without words, also one with a negative number of them.
fn word_count(number: Option<i64>) -> Result<usize, ProtocolError> {
    let number = number.ok_or(ProtocolError::WordCount)?;
    match usize::try_from(number) {
        Ok(words) if words > WORDS_MAX => Err(ProtocolError::WordCount),
        Ok(words) => Ok(words),
        Err(_) => Ok(0),
    }
}

fn word_length(number: Option<i64>) -> Result<usize, ProtocolError> {
    let number = number.and_then(|number| usize::try_from(number).ok());
    number
        .filter(|length| *length <= WORD_BYTES_MAX)
        .ok_or(ProtocolError::WordLength)
}

/// A decimal number as Redis reads it: no `+`, no leading zeros, nothing around it.
fn decimal(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = matches!(digits, [b'0'] if digits.len() == text.len())
        || matches!(digits, [b'1'..=b'9', ..]);
    let is_number = is_canonical && digits.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(text).ok().filter(|_| is_number)?;
    text.parse().ok()
}

/// Places are within [`COMMAND_BYTES_MAX`].
pub(crate) fn narrow(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
