//! What connections are counted under, so that no client takes all of them.

use std::net::{IpAddr, Ipv6Addr};

use crate::address::PeerAddress;

/// What a connection is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// An IPv4 address, or an IPv6 /64: one host usually has a whole /64. An IPv4 address that is
    /// mapped into IPv6 counts as IPv4.
    Network(IpAddr),
    /// Any process on this host.
    Unix,
}

// === impl Source ===

impl Source {
    pub(crate) fn of(peer: PeerAddress) -> Source {
        match peer.ip().map(|address| address.to_canonical()) {
            None => Source::Unix,
            Some(IpAddr::V4(address)) => Source::Network(address.into()),
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                Source::Network(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
        }
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
}
