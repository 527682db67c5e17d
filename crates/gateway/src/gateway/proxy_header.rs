//! For the gateway's listener: which connections begin with a PROXY protocol header, and which
//! peers are proxies that name the client of each request.

use std::io::{Error, ErrorKind};
use std::net::IpAddr;

use tollgate_http::{InvalidProxyHeader, PROXY_HEADER_BYTES_MAX, Peer};
use tollgate_listen::{PeerAddress, Proxies, ProxyHeader, ProxyHeaders};

use super::Gateway;

impl ProxyHeaders for Gateway {
    /// Those of proxies that the settings in effect trust.
    fn expects(&self, peer: PeerAddress) -> bool {
        let active = self.active.load();
        let proxies = active.proxies.as_ref();
        proxies.is_some_and(|proxies| proxies.trusts(Peer::from(peer.ip())))
    }

    fn bytes_max(&self) -> usize {
        PROXY_HEADER_BYTES_MAX
    }

    fn parse(&self, bytes: &[u8]) -> Result<Option<ProxyHeader>, Error> {
        match tollgate_http::ProxyHeader::parse(bytes) {
            Ok(header) => Ok(Some(ProxyHeader {
                client: header.client,
                bytes: header.bytes,
            })),
            Err(InvalidProxyHeader::Incomplete) => Ok(None),
            Err(invalid) => Err(Error::new(ErrorKind::InvalidData, invalid)),
        }
    }
}

impl Proxies for Gateway {
    /// Not where any route takes the address for that of a client: such a client would have more
    /// connections than others. Nor with the PROXY protocol: each connection is of one client then,
    /// and without a share, one client could take all of them.
    fn is_trusted(&self, address: IpAddr) -> bool {
        let active = self.active.load();
        active.proxies.is_none() && active.routes.lists_proxy(address)
    }
}
