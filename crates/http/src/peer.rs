//! The other end of a connection.

use std::net::IpAddr;

/// The other end of the connection that a request came by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The address that the socket has; `None` for a Unix socket.
    pub socket: Option<IpAddr>,
    /// The address that a PROXY protocol header named; `None` without a header, and for one that
    /// names none (`LOCAL`, `UNKNOWN`).
    pub proxied: Option<IpAddr>,
}

// === impl Peer ===

impl From<IpAddr> for Peer {
    fn from(socket: IpAddr) -> Peer {
        Peer {
            socket: Some(socket),
            proxied: None,
        }
    }
}

impl From<Option<IpAddr>> for Peer {
    /// `None` is a Unix socket.
    fn from(socket: Option<IpAddr>) -> Peer {
        Peer {
            socket,
            proxied: None,
        }
    }
}
