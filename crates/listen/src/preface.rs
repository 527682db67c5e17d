//! The preface that every HTTP/2 connection begins with.

use std::io::{ErrorKind, Result};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The first bytes of every HTTP/2 connection.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads the first bytes and says whether they are [`PREFACE`]; an error if the peer closes.
///
/// The bytes are consumed: [`crate::socket::Socket`] replays the preface to the HTTP/2 library.
pub(crate) async fn read_preface(stream: &mut (impl AsyncRead + Unpin)) -> Result<bool> {
    let mut first = [0; PREFACE.len()];
    let mut length = 0;
    while length < PREFACE.len() {
        match stream.read(&mut first[length..]).await? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => length += read,
        }
        if !PREFACE.starts_with(&first[..length]) {
            return Ok(false);
        }
    }
    Ok(true)
}
