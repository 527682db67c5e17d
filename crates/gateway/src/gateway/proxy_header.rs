//! Which connections begin with a PROXY protocol header, for the gateway's listener.

use std::io::{Error, ErrorKind};

use tollgate_http::{InvalidProxyHeader, PROXY_HEADER_BYTES_MAX, Peer};
use tollgate_listen::{PeerAddress, ProxyHeader, ProxyHeaders};

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
