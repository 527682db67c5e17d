//! One request to each listener, and its answer.

use std::io::{Error, Result};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::frames::{flag, kind, write_call};
use crate::peer::{acknowledge, read_frame, read_response};
use crate::stream::Stream;

/// The body of a check that is allowed.
pub(crate) const QUESTION: &str =
    r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"good"}]}]}"#;

/// Commands that are allowed, the lines of their replies, and how these begin.
pub(crate) const COMMANDS: [(&str, usize, &str); 2] = [
    ("CL.THROTTLE good 1000000 1000000 1\r\n", 6, "*5\r\n:0\r\n"),
    ("TG.CHECK d 1 k good\r\n", 9, "*7\r\n:0\r\n"),
];
/// The longest reply to them.
const REPLY_BYTES_MAX: usize = 200;

/// Sends one gRPC call and reads its answer.
pub(crate) async fn ask_grpc(stream: &mut Stream, id: u32) -> Result<()> {
    let mut out = Vec::new();
    write_call(&mut out, id, b"good", 1);
    stream.write_all(&out).await?;
    let mut has_message = false;
    loop {
        let (head, payload) = read_frame(stream).await?;
        acknowledge(stream, head, &payload).await?;
        let wrong = match head.kind {
            kind::RST_STREAM => "stream reset",
            kind::GOAWAY => "connection going away",
            kind::DATA => {
                has_message = true;
                continue;
            }
            kind::HEADERS if head.flags & flag::END_STREAM == 0 => continue,
            // Trailers without a message are an error.
            kind::HEADERS if has_message => return Ok(()),
            kind::HEADERS => "an error in place of an answer",
            _ => continue,
        };
        return Err(Error::other(wrong));
    }
}

/// Sends one command, and reads its reply of so many lines, which must begin as given.
pub(crate) async fn ask_command(
    stream: &mut Stream,
    command: &str,
    lines: usize,
    begin: &str,
) -> Result<()> {
    stream.write_all(command.as_bytes()).await?;
    let mut reply = Vec::new();
    let count = |reply: &[u8]| reply.iter().filter(|byte| **byte == b'\n').count();
    while count(&reply) < lines && (reply.is_empty() || reply[0] == b'*') {
        if reply.len() >= REPLY_BYTES_MAX || stream.read_buf(&mut reply).await? == 0 {
            break;
        }
    }
    match count(&reply) == lines && reply.starts_with(begin.as_bytes()) {
        true => Ok(()),
        false => Err(Error::other(reply.escape_ascii().to_string())),
    }
}

/// Sends one HTTP request, and reads its response, whose status must be 200.
pub(crate) async fn ask_http(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    question: &[u8],
) -> Result<()> {
    stream.write_all(question).await?;
    match read_response(stream).await? {
        200 => Ok(()),
        status => Err(Error::other(format!("status {status}"))),
    }
}
