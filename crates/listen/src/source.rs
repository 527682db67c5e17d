//! What connections are counted under, so that no client takes all of them.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv6Addr};

use crate::address::PeerAddress;

/// Says which peers are proxies that name their clients: the address of such a peer stands for many
/// clients, and has no share of the connections.
pub trait Proxies: Debug + Send + Sync + 'static {
    /// Whether the address is that of a trusted proxy now. Connections that are open stay counted
    /// as they were when they were accepted.
    fn is_trusted(&self, address: IpAddr) -> bool;
}

/// What a connection is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// An IPv4 address, or an IPv6 /64: one host usually has a whole /64. An IPv4 address that is
    /// mapped into IPv6 counts as IPv4.
    Network(IpAddr),
    /// A proxy, alone: others in its IPv6 /64 may be clients.
    TrustedProxy(IpAddr),
    /// Any process on this host.
    Unix,
}

// === impl Source ===

impl Source {
    /// That of a peer which is no trusted proxy.
    pub(crate) fn of(peer: PeerAddress) -> Source {
        Source::with_proxies(peer, None)
    }

    /// That of a peer, which may be one of the trusted proxies.
    pub(crate) fn with_proxies(peer: PeerAddress, proxies: Option<&dyn Proxies>) -> Source {
        let Some(address) = peer.ip().map(|address| address.to_canonical()) else {
            return Source::Unix;
        };
        if proxies.is_some_and(|proxies| proxies.is_trusted(address)) {
            return Source::TrustedProxy(address);
        }
        Source::Network(match address {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
        })
    }

    /// Whether it may have a share of the connections only.
    pub(crate) const fn has_share(self) -> bool {
        matches!(self, Source::Network(_))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_network_of_one_client_is_one_source() {
        let source = |address: &str| {
            let address: IpAddr = address.parse().unwrap();
            Source::of(PeerAddress::Tcp((address, 1).into()))
        };
        assert_eq!(source("2001:db8:0:1::1"), source("2001:db8:0:1:ffff::2"));
        assert_ne!(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_ne!(source("::ffff:10.0.0.1"), source("::ffff:10.0.0.2"));
    }
    /// Trusts one address.
    #[derive(Debug)]
    struct One(IpAddr);

    impl Proxies for One {
        fn is_trusted(&self, address: IpAddr) -> bool {
            address == self.0
        }
    }

    #[test]
    fn a_trusted_proxy_is_one_address_without_a_share() {
        for (proxy, peer, other) in [
            ("10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
        ] {
            let proxies = One(proxy.parse().unwrap());
            let source = |address: &str| {
                let address: IpAddr = address.parse().unwrap();
                Source::with_proxies(PeerAddress::Tcp((address, 1).into()), Some(&proxies))
            };
            assert_eq!(source(peer), Source::TrustedProxy(proxies.0));
            assert!(!source(peer).has_share());
            assert!(matches!(source(other), Source::Network(_)) && source(other).has_share());
        }
        assert!(!Source::with_proxies(PeerAddress::Unix, None).has_share());
    }
}
