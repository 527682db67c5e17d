//! Inline commands: words in a line, as people type them.
//!
//! Words are separated by white space. In double quotes, `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH`
//! stand for the bytes that they stand for in C, and a backslash before anything else for that; in
//! single quotes, only `\'` stands for something.

use crate::command::Place;
use crate::parser::{WORDS_MAX, narrow};
use crate::protocol_error::ProtocolError;

/// What the places of the words refer to.
pub(crate) enum Bytes {
    /// The line itself.
    OfLine,
    /// The words without their quotation marks.
    Unquoted,
}

/// Finds the words of a line: as many as an array may have.
pub(crate) fn split(
    line: &[u8],
    places: &mut Vec<Place>,
    unquoted: &mut Vec<u8>,
) -> Result<Bytes, ProtocolError> {
    if line.contains(&b'"') || line.contains(&b'\'') {
        unquoted.clear();
        let mut rest = line;
        while let Some(from) = rest.iter().position(|byte| !is_space(*byte)) {
            let begin = unquoted.len();
            rest = unquote(&rest[from..], unquoted)?;
            add(places, begin, unquoted.len())?;
        }
        return Ok(Bytes::Unquoted);
    }
    let mut at = 0;
    for word in line.split(|byte| ends_word(*byte)) {
        let end = at + word.len();
        let skipped = word.iter().take_while(|byte| is_space(**byte)).count();
        if skipped < word.len() {
            add(places, at + skipped, end)?;
        }
        at = end + 1;
    }
    Ok(Bytes::OfLine)
}

/// Adds the place of another word.
fn add(places: &mut Vec<Place>, begin: usize, end: usize) -> Result<(), ProtocolError> {
    if places.len() == WORDS_MAX {
        return Err(ProtocolError::WordCount);
    }
    places.push((narrow(begin), narrow(end)));
    Ok(())
}

/// What is skipped before a word: as C's `isspace`, and a NUL, at which C ends the line.
const fn is_space(byte: u8) -> bool {
    ends_word(byte) || matches!(byte, 0x0b | 0x0c)
}

/// What ends a word without quotation marks: in Redis, vertical tabs and form feeds do not.
const fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0)
}

/// Appends the word with which `rest` begins, and returns what follows it.
fn unquote<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        match rest {
            [] => return Ok(rest),
            [space, ..] if ends_word(*space) => return Ok(rest),
            [quote @ (b'"' | b'\''), quoted @ ..] => {
                let behind = unquote_quoted(quoted, *quote, out)?;
                return match behind.first() {
                    Some(next) if !is_space(*next) => Err(ProtocolError::Quotes),
                    _ => Ok(behind),
                };
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

/// Appends what is in quotation marks, and returns what follows the last one.
fn unquote_quoted<'l>(
    mut rest: &'l [u8],
    quote: u8,
    out: &mut Vec<u8>,
) -> Result<&'l [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [] => return Err(ProtocolError::Quotes),
            [end, tail @ ..] if *end == quote => return Ok(tail),
            [b'\\', b'\'', tail @ ..] if quote == b'\'' => (b'\'', tail),
            [b'\\', b'x', high, low, tail @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hexadecimal(*high) << 4 | hexadecimal(*low), tail)
            }
            [b'\\', escaped, tail @ ..] if quote == b'"' => (unescape(*escaped), tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        out.push(byte);
        rest = tail;
    }
}

const fn unescape(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// The value of a digit that was checked.
const fn hexadecimal(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
