//! Unusual values.

use tokio::io::AsyncWriteExt;

use super::crowd::{Attacking, crowd};
use crate::frames::{PAYLOAD_BYTES_MAX, call, flag, frame, kind, message};
use crate::peer::{acknowledge, connect, connect_h2, read_frame, read_response, request, source};
use crate::target::Target;

/// Bytes that are not UTF-8.
const NO_TEXT: &[u8] = &[b'a', 0xff, 0xfe, 0, b'\n'];
/// Larger than any value that the service takes whole.
const LARGE: usize = 60_000;

/// Values that are not text, and the largest that can be sent, alternately over gRPC and HTTP.
pub(super) fn strange_values(target: Target) -> Attacking {
    crowd(8, move |number| async move {
        if number % 2 == 0 {
            return over_http(number, target).await;
        }
        let mut stream = connect_h2(source(number), target.grpc, 1 << 20).await?;
        for (id, turn) in (1..100_000).step_by(2).zip(0..) {
            let question = match turn % 3 {
                0 => message(NO_TEXT, 1),
                1 => message(&[b'v'; LARGE], 1),
                _ => message(&[0xff; LARGE], 1),
            };
            let mut out = Vec::new();
            frame(&mut out, kind::HEADERS, flag::END_HEADERS, id, &call(&[]));
            for part in question.chunks(PAYLOAD_BYTES_MAX) {
                frame(&mut out, kind::DATA, flag::NONE, id, part);
            }
            frame(&mut out, kind::DATA, flag::END_STREAM, id, &[]);
            // Enlarge the connection's window for responses, which nothing else does.
            frame(&mut out, kind::WINDOW_UPDATE, flag::NONE, 0, &[0, 0, 1, 0]);
            stream.write_all(&out).await?;
            loop {
                let (head, payload) = read_frame(&mut stream).await?;
                acknowledge(&mut stream, head, &payload).await?;
                if head.flags & flag::END_STREAM != 0 && head.kind == kind::HEADERS {
                    break;
                }
            }
        }
        Ok(())
    })
}

/// Sends values that are not UTF-8, too long or too many, as JSON.
async fn over_http(number: u32, target: Target) -> std::io::Result<()> {
    let mut stream = connect(source(number), target.http).await?;
    let of_value = |value: &str| {
        let entry = format!(r#"{{"entries":[{{"key":"k","value":"{value}"}}]}}"#);
        request(
            "POST",
            "/json",
            &format!(r#"{{"domain":"d","descriptors":[{entry}]}}"#),
        )
    };
    let mut no_text = of_value("????");
    for byte in no_text.iter_mut().filter(|byte| **byte == b'?') {
        *byte = 0xff;
    }
    let questions = [
        no_text,
        of_value(&"v".repeat(LARGE)),
        of_value(r"\ud800\u0000"),
    ];
    loop {
        for question in &questions {
            stream.write_all(question).await?;
            read_response(&mut stream).await?;
        }
    }
}
