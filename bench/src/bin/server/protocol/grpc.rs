//! gRPC: HTTP/2 with one message in each direction.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::Reply;
use crate::question::{Outcome, Question};
use crate::template::Template;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
/// What a peer may send on all streams before a window update, and after which another is sent.
const WINDOW: u32 = 1 << 30;
const WINDOW_REFILL: u32 = WINDOW / 2;
/// What may be sent before the peer's first window update.
const PEER_WINDOW: i64 = 65_535;
/// Frames that are read while a connection is opened.
const OPENING_FRAMES_MAX: usize = 8;
/// The largest frame that a peer may send.
const PAYLOAD_BYTES_MAX: usize = 16 * 1024;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// One connection.
#[derive(Debug)]
pub(crate) struct GrpcSession {
    path: &'static str,
    /// The stream of the next request.
    next: u32,
    /// What may still be sent on all streams.
    window: i64,
    /// Bytes of data that were received since the last window update.
    received: u32,
    /// Streams whose message has come, and their trailers not yet.
    answered: Vec<(u32, Outcome)>,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

/// A message as gRPC sends it: not compressed, and with its length.
pub(crate) fn message(bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![0];
    message.extend_from_slice(&number(bytes.len()).to_be_bytes());
    message.extend_from_slice(bytes);
    message
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    frame_head(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

fn frame_head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&number(length).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// The fields of a call. The first call of a connection adds them to the dynamic table, and the
/// following ones refer to it, as clients do.
fn fields(path: &str, is_first: bool, out: &mut Vec<u8>) {
    // `:method: POST` and `:scheme: http`.
    out.extend_from_slice(&[0x83, 0x86]);
    if !is_first {
        out.extend_from_slice(&[0xc1, 0xc0, 0xbf, 0xbe]);
        return;
    }
    let mut literal = |name: &[u8], value: &str| {
        out.extend_from_slice(name);
        // All are shorter than the 127 bytes that need a second byte.
        out.push(u8::try_from(value.len()).unwrap_or(0));
        out.extend_from_slice(value.as_bytes());
    };
    literal(&[0x44], path);
    literal(&[0x41], "localhost");
    literal(&[0x5f], "application/grpc");
    literal(b"\x40\x02te", "trailers");
}

// === impl GrpcSession ===

impl GrpcSession {
    /// Exchanges the settings.
    pub(super) fn open(path: &'static str, stream: &mut TcpStream) -> io::Result<GrpcSession> {
        let mut out = PREFACE.to_vec();
        frame(&mut out, SETTINGS, 0, 0, &[]);
        let window = WINDOW.to_be_bytes();
        frame(&mut out, WINDOW_UPDATE, 0, 0, &window);
        stream.write_all(&out)?;
        let mut session = GrpcSession {
            path,
            next: 1,
            window: PEER_WINDOW,
            received: 0,
            answered: Vec::new(),
        };
        for _ in 0..OPENING_FRAMES_MAX {
            let mut head = [0; HEAD_BYTES];
            stream.read_exact(&mut head)?;
            let Head { length, kind, .. } = Head::parse(&head);
            let mut payload = vec![0; length.min(PAYLOAD_BYTES_MAX)];
            stream.read_exact(&mut payload)?;
            let (mut replies, mut answer) = (Vec::new(), Vec::new());
            let bytes = [&head[..], &payload].concat();
            let read = session.read(Question::ThrottleGrpc, &bytes, &mut replies, &mut answer);
            read.map_err(io::Error::other)?;
            stream.write_all(&answer)?;
            // Acknowledgements have no payload; the peer's own settings always have some here.
            if kind == SETTINGS && Head::parse(&head).flags & ACK == 0 {
                return Ok(session);
            }
        }
        Err(io::Error::other("no settings"))
    }

    /// Appends a call.
    pub(super) fn write(
        &mut self,
        template: &Template,
        key: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.window -= i64::try_from(template.len()).unwrap_or(i64::MAX);
        if self.window < 0 {
            return Err("the peer's window is closed".to_owned());
        }
        let start = out.len();
        frame_head(out, 0, HEADERS, END_HEADERS, self.next);
        fields(self.path, self.next == 1, out);
        let length = number(out.len() - start - HEAD_BYTES);
        out[start..start + 3].copy_from_slice(&length.to_be_bytes()[1..]);
        frame_head(out, template.len(), DATA, END_STREAM, self.next);
        template.write(key, out);
        self.next += 2;
        Ok(())
    }

    /// Reads all complete frames, and returns the number of their bytes.
    pub(super) fn read(
        &mut self,
        question: Question,
        input: &[u8],
        replies: &mut Vec<Reply>,
        out: &mut Vec<u8>,
    ) -> Result<usize, String> {
        let mut consumed = 0;
        while let Some((bytes, rest)) = input[consumed..].split_first_chunk() {
            let head = Head::parse(bytes);
            let Some(payload) = rest.get(..head.length) else {
                break;
            };
            consumed += HEAD_BYTES + head.length;
            self.take(question, head, payload, replies, out)?;
        }
        Ok(consumed)
    }

    /// Takes one frame.
    fn take(
        &mut self,
        question: Question,
        head: Head,
        payload: &[u8],
        replies: &mut Vec<Reply>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match head.kind {
            DATA | HEADERS if head.flags & PADDED != 0 => {
                return Err("a padded frame, which is not read here".to_owned());
            }
            DATA if head.length > 0 => self.take_message(question, head.stream, payload, out)?,
            RST_STREAM => return Err(format!("stream {} was reset", head.stream)),
            GOAWAY => return Err("the connection is closed by the peer".to_owned()),
            WINDOW_UPDATE if head.stream == 0 => {
                let increment = payload.first_chunk().copied().unwrap_or_default();
                self.window += i64::from(u32::from_be_bytes(increment));
            }
            SETTINGS | PING if head.flags & ACK == 0 => {
                let payload = if head.kind == PING { payload } else { &[] };
                frame(out, head.kind, ACK, 0, payload);
            }
            _ => {}
        }
        if matches!(head.kind, DATA | HEADERS) && head.flags & END_STREAM != 0 {
            let mut answered = self.answered.iter();
            let index = answered.position(|(stream, _)| *stream == head.stream);
            let index = index.ok_or_else(|| "an error in place of a message".to_owned())?;
            let (stream, outcome) = self.answered.swap_remove(index);
            replies.push(Reply {
                request: u64::from(stream / 2),
                outcome,
                number: 0,
            });
        }
        Ok(())
    }

    fn take_message(
        &mut self,
        question: Question,
        stream: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let message = payload.get(5..).unwrap_or_default();
        let outcome = question.judge_message(message);
        let outcome = outcome.ok_or_else(|| format!("the message {message:x?}"))?;
        self.answered.push((stream, outcome));
        self.received += number(payload.len());
        if self.received >= WINDOW_REFILL {
            let received = self.received.to_be_bytes();
            frame(out, WINDOW_UPDATE, 0, 0, &received);
            self.received = 0;
        }
        Ok(())
    }
}

// === impl Head ===

impl Head {
    fn parse(bytes: &[u8; HEAD_BYTES]) -> Head {
        let [a, b, c, kind, flags, d, e, f, g] = *bytes;
        let length = u32::from_be_bytes([0, a, b, c]);
        Head {
            length: usize::try_from(length).unwrap_or(usize::MAX),
            kind,
            flags,
            stream: u32::from_be_bytes([d, e, f, g]) & (u32::MAX >> 1),
        }
    }
}
