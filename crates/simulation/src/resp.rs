//! The Redis protocol as a server speaks it: commands in, replies out.

use bytes::{Bytes, BytesMut};

/// One reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// Null.
    Nil,
    /// An integer.
    Integer(i64),
    /// A simple string.
    Simple(String),
    /// An error: its code and text.
    Error(String),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// An array.
    Array(Vec<Reply>),
}

/// Takes the first command out of `input`; `None` if it is not complete yet.
///
/// # Panics
///
/// If it is not an array of bulk strings, which is all that the client under test sends.
pub(crate) fn take(input: &mut BytesMut) -> Option<Vec<Bytes>> {
    let (count, mut at) = length(input, 0, b'*')?;
    let mut places = Vec::with_capacity(count);
    for _ in 0..count {
        let (bytes, from) = length(input, at, b'$')?;
        at = from + bytes + 2;
        if input.len() < at {
            return None;
        }
        places.push(from..from + bytes);
    }
    let whole = input.split_to(at).freeze();
    Some(places.into_iter().map(|place| whole.slice(place)).collect())
}

/// The number after `sign` at `from`, and where the next element begins.
fn length(input: &[u8], from: usize, sign: u8) -> Option<(usize, usize)> {
    let rest = input.get(from..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    assert_eq!(rest[0], sign, "a command is an array of bulk strings");
    let digits = std::str::from_utf8(&rest[1..end - 1]).expect("a length is text");
    let length = digits.parse().expect("a length is a number");
    Some((length, from + end + 1))
}

// === impl Reply ===

impl Reply {
    /// `OK`.
    pub(crate) fn ok() -> Reply {
        Reply::Simple("OK".to_owned())
    }

    pub(crate) fn error(text: impl Into<String>) -> Reply {
        Reply::Error(text.into())
    }

    pub(crate) fn bulk(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().to_vec())
    }

    pub(crate) fn count(count: usize) -> Reply {
        Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Writes the reply as it is sent.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
            Reply::Integer(number) => out.extend_from_slice(format!(":{number}\r\n").as_bytes()),
            Reply::Simple(text) => out.extend_from_slice(format!("+{text}\r\n").as_bytes()),
            Reply::Error(text) => out.extend_from_slice(format!("-{text}\r\n").as_bytes()),
            Reply::Bulk(bytes) => {
                out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Reply::Array(elements) => {
                out.extend_from_slice(format!("*{}\r\n", elements.len()).as_bytes());
                elements.iter().for_each(|element| element.put(out));
            }
        }
    }
}
