//! Where a request came from.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use tollgate_http::{AddressSource, Client, ClientAddress, Peer};
use tollgate_listen::Connection;

use crate::forwarding::Sender;

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) connection: &'a Arc<Connection>,
    pub(crate) scheme: &'static str,
}

/// The other end of a connection as HTTP sees it: the client that a PROXY protocol header named, or
/// else the socket's peer.
pub(crate) fn http_peer(connection: &Connection) -> Option<IpAddr> {
    let named = connection.proxied_client().flatten();
    named.or_else(|| connection.peer().ip())
}

// === impl Arrival ===

impl Arrival<'_> {
    /// The other end of the connection, for a route that finds clients with `addresses`.
    ///
    /// A proxy that writes the PROXY protocol passes bytes on as they are. So for a route that
    /// trusts a header, the peer is the client that the proxy named: to trust the proxy's own
    /// address would be to trust what any client writes.
    pub(super) fn peer(self, addresses: &ClientAddress) -> Peer {
        match addresses.source() {
            AddressSource::ProxyProtocol => Peer {
                socket: self.connection.peer().ip(),
                proxied: self.connection.proxied_client().flatten(),
            },
            _ => Peer::from(http_peer(self.connection)),
        }
    }

    /// The client of a request with these headers.
    pub(super) fn client(self, addresses: &ClientAddress, headers: &HeaderMap) -> Client {
        match self.may_name_client(addresses) {
            true => addresses.resolve(self.peer(addresses), headers),
            false => addresses.resolve(self.peer(addresses), &HeaderMap::new()),
        }
    }

    /// Whether the headers of a request may say who its client is. Not if the proxy's header named
    /// no client: the peer is the proxy then, which has not read what the client wrote.
    fn may_name_client(self, addresses: &ClientAddress) -> bool {
        let is_unnamed = self.connection.proxied_client() == Some(None);
        addresses.source() != AddressSource::ProxyProtocol && !is_unnamed
    }

    /// Who sent the request, for the upstream. The words of `client` about itself are not passed
    /// on, also if a trusted proxy has written the PROXY protocol: it has not read them.
    pub(super) fn sender(self, addresses: &ClientAddress, client: Client) -> Sender {
        let is_proxied = addresses.source() == AddressSource::ProxyProtocol;
        let peer = self.peer(addresses);
        Sender {
            peer: match is_proxied {
                true => client.address,
                false => peer.socket.map(|peer| peer.to_canonical()),
            },
            is_trusted: self.may_name_client(addresses) && addresses.trusts(peer),
            client: client.address,
            scheme: self.scheme,
        }
    }
}
