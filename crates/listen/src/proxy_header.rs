//! The header that a proxy writes before a connection's own bytes, and so before any handshake.

use std::fmt::Debug;
use std::io::{Error, ErrorKind};
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::address::PeerAddress;
use crate::handshake::{Failure, HandshakeError};

/// Says which connections begin with a header, and parses it: a listener knows no format.
pub trait ProxyHeaders: Debug + Send + Sync + 'static {
    /// Whether a connection of this peer that was just accepted begins with a header. If so and it
    /// does not, it is closed: the bytes of a client would be read as those of its proxy.
    fn expects(&self, peer: PeerAddress) -> bool;

    /// The most bytes of a header.
    fn bytes_max(&self) -> usize;

    /// Parses the header that `bytes` begin with; `None` if they end before it does.
    ///
    /// # Errors
    ///
    /// Why they are not a header.
    fn parse(&self, bytes: &[u8]) -> Result<Option<ProxyHeader>, Error>;
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client's address; `None` if it names none.
    pub client: Option<IpAddr>,
    /// How many bytes it has. The connection's own bytes follow.
    pub bytes: usize,
}

/// Reads the header of a connection: the client, and the connection's own bytes that were read with
/// the header.
///
/// # Errors
///
/// Without a header; the caller limits how long it takes.
pub(crate) async fn read_proxy_header(
    headers: &dyn ProxyHeaders,
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<(Option<IpAddr>, Vec<u8>), HandshakeError> {
    let mut bytes = vec![0; headers.bytes_max()];
    let mut length = 0;
    while length < bytes.len() {
        match stream.read(&mut bytes[length..]).await? {
            0 => return Err(Error::from(ErrorKind::UnexpectedEof).into()),
            read => length += read,
        }
        let read = &bytes[..length];
        if let Some(header) = headers.parse(read).map_err(invalid)? {
            return Ok((header.client, read[header.bytes..].to_vec()));
        }
    }
    let problem = format!("the proxy's header has more than {length} bytes");
    Err(invalid(Error::new(ErrorKind::InvalidData, problem)))
}

/// The failure of a connection that does not begin with a header.
const fn invalid(source: Error) -> HandshakeError {
    HandshakeError {
        failure: Failure::InvalidProxyHeader,
        source,
    }
}

#[cfg(test)]
mod tests;
