//! The Redis protocol (RESP), version 2: commands out, replies in.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tollgate_core::StoreError;

/// The longest bulk string of a reply.
const BULK_BYTES_MAX: usize = 64 << 20;
/// The most elements of one array.
const ELEMENTS_MAX: usize = 1 << 20;
/// The most arrays within arrays.
const DEPTH_MAX: usize = 8;
/// The longest line; error replies are the longest.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The most bytes of a server's text in errors and logs.
const PRINTED_BYTES_MAX: usize = 200;

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Integer(i64),
    Simple(Bytes),
    Error(Bytes),
    Bulk(Bytes),
    Array(Vec<Reply>),
}

/// The bytes that were read are not a valid reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub(crate) &'static str);

/// Writes the header of a command of `words` words; [`word`] writes each of them.
pub(crate) fn command(out: &mut BytesMut, words: usize) {
    header(out, b'*', words);
}

/// Writes one word of a command.
pub(crate) fn word(out: &mut BytesMut, bytes: &[u8]) {
    word_of(out, &[bytes]);
}

/// Writes one word from pieces.
pub(crate) fn word_of(out: &mut BytesMut, pieces: &[&[u8]]) {
    header(out, b'$', pieces.iter().map(|piece| piece.len()).sum());
    for piece in pieces {
        out.put_slice(piece);
    }
    out.put_slice(b"\r\n");
}

/// Writes one word that is a number.
pub(crate) fn number(out: &mut BytesMut, number: u64) {
    let (digits, from) = decimal(number);
    word(out, &digits[from..]);
}

/// Takes the first reply out of `input`; `None` if it is incomplete.
pub(crate) fn take(input: &mut BytesMut) -> Result<Option<Reply>, Malformed> {
    if end_of(input, 0, 0)?.is_none() {
        return Ok(None);
    }
    Ok(Some(parse(input)?))
}

fn header(out: &mut BytesMut, kind: u8, count: usize) {
    let (digits, from) = decimal(u64::try_from(count).unwrap_or(u64::MAX));
    out.put_u8(kind);
    out.put_slice(&digits[from..]);
    out.put_slice(b"\r\n");
}

/// The digits of a number, and where they begin.
fn decimal(number: u64) -> ([u8; 20], usize) {
    let (mut digits, mut from, mut rest) = ([b'0'; 20], 20, number);
    loop {
        from -= 1;
        digits[from] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            return (digits, from);
        }
    }
}

/// The line that starts at `from`, and the start of the next one.
fn line(input: &[u8], from: usize) -> Result<Option<(&[u8], usize)>, Malformed> {
    let rest = &input[from..];
    match rest.iter().position(|byte| *byte == b'\n') {
        Some(at) if at > 0 && rest[at - 1] == b'\r' => Ok(Some((&rest[..at - 1], from + at + 1))),
        Some(_) => Err(Malformed("a line ends without a carriage return")),
        None if rest.len() > LINE_BYTES_MAX => Err(Malformed("a line has no end")),
        None => Ok(None),
    }
}

fn integer(digits: &[u8]) -> Result<i64, Malformed> {
    let text = std::str::from_utf8(digits).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or(Malformed("a number is invalid"))
}

/// A length, or `None` for "nil".
fn length(digits: &[u8], most: usize) -> Result<Option<usize>, Malformed> {
    let number = integer(digits)?;
    if number == -1 {
        return Ok(None);
    }
    let length = usize::try_from(number)
        .ok()
        .filter(|length| *length <= most);
    length
        .map(Some)
        .ok_or(Malformed("a length is out of bounds"))
}

/// The end of the reply that starts at `from`, if it is complete.
fn end_of(input: &[u8], from: usize, depth: usize) -> Result<Option<usize>, Malformed> {
    if depth > DEPTH_MAX {
        return Err(Malformed("arrays nest too deeply"));
    }
    if from >= input.len() {
        return Ok(None);
    }
    let Some((line, after)) = line(input, from)? else {
        return Ok(None);
    };
    match line.first() {
        Some(b'+' | b'-' | b':') => Ok(Some(after)),
        Some(b'$') => {
            let end = length(&line[1..], BULK_BYTES_MAX)?.map_or(after, |bytes| after + bytes + 2);
            Ok((end <= input.len()).then_some(end))
        }
        Some(b'*') => {
            let mut end = after;
            for _ in 0..length(&line[1..], ELEMENTS_MAX)?.unwrap_or(0) {
                match end_of(input, end, depth + 1)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Err(Malformed("a reply has an unknown type")),
    }
}

/// Parses a reply that is known to be complete.
fn parse(input: &mut BytesMut) -> Result<Reply, Malformed> {
    let incomplete = Malformed("a reply is shorter than it was");
    let (first, after) = line(input, 0)?.ok_or(incomplete)?;
    let (kind, content) = (first[0], 1..first.len());
    let text = input.split_to(after).freeze().slice(content);
    match kind {
        b'+' => Ok(Reply::Simple(text)),
        b'-' => Ok(Reply::Error(text)),
        b':' => integer(&text).map(Reply::Integer),
        b'$' => {
            let Some(bytes) = length(&text, BULK_BYTES_MAX)? else {
                return Ok(Reply::Nil);
            };
            let bulk = input.split_to(bytes).freeze();
            input.advance(2);
            Ok(Reply::Bulk(bulk))
        }
        _ => {
            let Some(count) = length(&text, ELEMENTS_MAX)? else {
                return Ok(Reply::Nil);
            };
            let elements = (0..count).map(|_| parse(input));
            elements.collect::<Result<_, _>>().map(Reply::Array)
        }
    }
}

/// The error for a malformed reply.
pub(crate) fn bad_reply(malformed: Malformed) -> StoreError {
    StoreError::BadReply {
        source: Box::new(malformed),
    }
}

/// The beginning of a server's text, its control characters escaped, for errors and logs. A log
/// escapes quotes itself.
pub(crate) fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let end = text.floor_char_boundary(PRINTED_BYTES_MAX);
    let mut shown = String::with_capacity(end);
    for c in text[..end].chars() {
        match c.is_control() {
            true => shown.extend(c.escape_debug()),
            false => shown.push(c),
        }
    }
    shown
}

// === impl Reply ===

impl Reply {
    /// The bytes of a simple or bulk string.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Simple(bytes) | Reply::Bulk(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text of a simple or bulk string.
    pub(crate) fn text(&self) -> Option<&str> {
        self.bytes()
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The elements of an array; empty for any other reply.
    pub(crate) fn elements(&self) -> &[Reply] {
        match self {
            Reply::Array(elements) => elements,
            _ => &[],
        }
    }
}

// === impl Malformed ===

impl std::error::Error for Malformed {}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests;
