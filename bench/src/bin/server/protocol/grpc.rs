//! gRPC: HTTP/2 with one message in each direction, or with one call for all messages.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::Reply;
use crate::question::{Outcome, Outcomes, Question};
use crate::template::Template;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
/// What a peer may send on all streams before a window update, and after which another is sent.
const WINDOW: u32 = 1 << 30;
/// The setting with which a peer may send that much on each stream.
const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
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
    /// The call that has all messages, if there is one.
    call: Option<Call>,
}

/// One call for all messages.
#[derive(Debug)]
struct Call {
    /// What may still be sent on its stream.
    window: i64,
    /// Bytes of data that were received since the last window update of the stream.
    received: u32,
    /// The beginning of a message.
    partial: Vec<u8>,
    /// The outcomes of the present list, and how many lists are complete.
    outcomes: Outcomes,
    lists: u64,
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
    pub(super) fn open(question: Question, stream: &mut TcpStream) -> io::Result<GrpcSession> {
        let mut out = PREFACE.to_vec();
        let window = WINDOW.to_be_bytes();
        let settings = [&INITIAL_WINDOW_SIZE[..], &window].concat();
        frame(&mut out, SETTINGS, 0, 0, &settings);
        frame(&mut out, WINDOW_UPDATE, 0, 0, &window);
        stream.write_all(&out)?;
        let mut session = GrpcSession {
            path: question.path(),
            next: 1,
            window: PEER_WINDOW,
            received: 0,
            answered: Vec::new(),
            call: question.is_list().then(Call::new),
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
        next_key: &mut dyn FnMut() -> u32,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let bytes = i64::try_from(template.len()).unwrap_or(i64::MAX);
        self.window -= bytes;
        let mut is_closed = self.window < 0;
        let mut is_open = false;
        if let Some(call) = &mut self.call {
            call.window -= bytes;
            is_closed |= call.window < 0;
            is_open = self.next > 1;
        }
        if is_closed {
            return Err("the peer's window is closed".to_owned());
        }
        if !is_open {
            self.write_fields(out);
        }
        let (end, stream) = match self.call {
            Some(_) => (0, 1),
            None => (END_STREAM, self.next - 2),
        };
        frame_head(out, template.len(), DATA, end, stream);
        template.write(next_key, out);
        Ok(())
    }

    /// Begins the next call.
    fn write_fields(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        frame_head(out, 0, HEADERS, END_HEADERS, self.next);
        fields(self.path, self.next == 1, out);
        let length = number(out.len() - start - HEAD_BYTES);
        out[start..start + 3].copy_from_slice(&length.to_be_bytes()[1..]);
        self.next += 2;
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
            DATA if self.call.is_some() => self.take_answers(payload, replies, out)?,
            DATA if head.length > 0 => self.take_message(question, head.stream, payload, out)?,
            RST_STREAM => return Err(format!("stream {} was reset", head.stream)),
            GOAWAY => return Err("the connection is closed by the peer".to_owned()),
            WINDOW_UPDATE => {
                let increment = payload.first_chunk().copied().unwrap_or_default();
                let increment = i64::from(u32::from_be_bytes(increment));
                match (head.stream, &mut self.call) {
                    (0, _) => self.window += increment,
                    (_, Some(call)) => call.window += increment,
                    (_, None) => {}
                }
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
                outcomes: outcome.into(),
                number: 0,
            });
        }
        Ok(())
    }

    /// Takes a part of the answers on the call that has all of them.
    fn take_answers(
        &mut self,
        payload: &[u8],
        replies: &mut Vec<Reply>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.count_received(payload.len(), out);
        let Some(call) = &mut self.call else {
            return Ok(());
        };
        call.received += number(payload.len());
        if call.received >= WINDOW_REFILL {
            frame(out, WINDOW_UPDATE, 0, 1, &call.received.to_be_bytes());
            call.received = 0;
        }
        call.partial.extend_from_slice(payload);
        let mut consumed = 0;
        while let Some((message, bytes)) = first_message(&call.partial[consumed..]) {
            let id = call.outcomes.allowed + call.outcomes.denied + 1;
            let outcome = Question::judge_answer(id, message);
            let outcome = outcome.ok_or_else(|| format!("answer {id}: {message:x?}"))?;
            call.outcomes.add(outcome.into());
            consumed += bytes;
            if call.outcomes.is_list() {
                replies.push(Reply {
                    request: call.lists,
                    outcomes: std::mem::take(&mut call.outcomes),
                    number: 0,
                });
                call.lists += 1;
            }
        }
        call.partial.drain(..consumed);
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
        self.count_received(payload.len(), out);
        Ok(())
    }

    /// Opens the window for further data.
    fn count_received(&mut self, bytes: usize, out: &mut Vec<u8>) {
        self.received += number(bytes);
        if self.received >= WINDOW_REFILL {
            let received = self.received.to_be_bytes();
            frame(out, WINDOW_UPDATE, 0, 0, &received);
            self.received = 0;
        }
    }
}

// === impl Call ===

impl Call {
    const fn new() -> Call {
        Call {
            window: PEER_WINDOW,
            received: 0,
            partial: Vec::new(),
            outcomes: Outcomes {
                allowed: 0,
                denied: 0,
            },
            lists: 0,
        }
    }
}

/// The first message of a call, and its bytes with those before it; `None` if it is not complete.
fn first_message(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let ([_, a, b, c, d], rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).ok()?;
    Some((rest.get(..length)?, 5 + length))
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
