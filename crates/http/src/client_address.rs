//! Which address a request came from, when proxies stand between.
//!
//! Anybody can send `X-Forwarded-For`. What a header says is believed only as far as our own
//! proxies wrote it: exactly one source is configured, all other headers have no effect, and lists
//! are read from the right, where the nearest proxy wrote. Whatever cannot be read or trusted leads
//! to the peer's address: one key that already exists, never a key that the client chose.

use std::net::IpAddr;

use http::HeaderMap;

use crate::peer::Peer;
use crate::prefix::Prefix;
use crate::setting::InvalidSettings;

mod literal;

mod list;

mod settings;

mod trust;

pub use list::ENTRY_BYTES_MAX;
pub use settings::{AddressSource, ClientAddressSettings};
pub use trust::{HOPS_MAX, TRUSTED_PROXIES_MAX};

use list::Last;
use trust::Trust;

/// Finds the address of the client of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    source: AddressSource,
    trust: Trust,
    prefix: Prefix,
}

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address, an IPv4 address never written as an IPv6 one; `None` behind a Unix socket when
    /// no proxy named an address.
    pub address: Option<IpAddr>,
    /// Where the address is from.
    pub origin: Origin,
}

/// Where a client's address is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The socket: no proxy is trusted.
    Peer,
    /// A trusted proxy named it.
    Proxy,
    /// The socket, because the configured source could not be used. If that is common, the settings
    /// do not fit the proxies, and all their clients share a key.
    Fallback(Unusable),
}

/// Why the configured source of an address could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unusable {
    /// The peer is none of the trusted proxies.
    UntrustedPeer,
    /// The header is absent.
    Absent,
    /// The list has fewer entries than there are trusted hops.
    FewHops,
    /// More than [`HOPS_MAX`] entries are trusted proxies.
    ManyHops,
    /// The entry that a trusted proxy wrote is not an address.
    Unreadable,
    /// A header that has one value was sent more than once.
    Repeated,
}

// === impl Unusable ===

impl Unusable {
    /// Its name in reports: `untrusted_peer`, `absent`, `few_hops`, `many_hops`, `unreadable` or
    /// `repeated`.
    pub const fn name(self) -> &'static str {
        match self {
            Unusable::UntrustedPeer => "untrusted_peer",
            Unusable::Absent => "absent",
            Unusable::FewHops => "few_hops",
            Unusable::ManyHops => "many_hops",
            Unusable::Unreadable => "unreadable",
            Unusable::Repeated => "repeated",
        }
    }
}

// === impl ClientAddress ===

impl ClientAddress {
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub fn new(settings: &ClientAddressSettings) -> Result<ClientAddress, InvalidSettings> {
        let ClientAddressSettings {
            source,
            trusted_proxies,
            trusted_hops,
            ipv4_prefix,
            ipv6_prefix,
            nat64_prefixes,
        } = settings;
        let mut errors = InvalidSettings::default();
        let trust = errors.take(Trust::new(*source, trusted_proxies, *trusted_hops));
        let prefix = errors.take(Prefix::new(*ipv4_prefix, *ipv6_prefix, nat64_prefixes));
        match (trust, prefix) {
            (Some(trust), Some(prefix)) => Ok(ClientAddress {
                source: *source,
                trust,
                prefix,
            }),
            _ => Err(errors),
        }
    }

    /// What names the client.
    pub const fn source(&self) -> AddressSource {
        self.source
    }

    /// Whether the peer may name a client: it is one of `trusted_proxies`, or `trusted_hops` says
    /// that every peer is a proxy.
    pub fn trusts(&self, peer: Peer) -> bool {
        let socket = peer.socket.map(|address| address.to_canonical());
        !self.trust.is_nobody() && self.trust.has_peer(socket)
    }

    /// Whether `trusted_proxies` has the address. `trusted_hops` names none.
    pub fn lists_proxy(&self, address: IpAddr) -> bool {
        self.trust.contains(address.to_canonical())
    }

    /// How much of an address makes a key.
    pub const fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// The IPv4 address that an IPv6 address stands for (mapped, NAT64, 6to4), or else the address
    /// itself.
    pub fn unmap(&self, address: IpAddr) -> IpAddr {
        self.prefix.embedded_address(address)
    }

    /// The client of a request with these headers from this peer.
    pub fn resolve(&self, peer: Peer, headers: &HeaderMap) -> Client {
        let socket = peer.socket.map(|address| address.to_canonical());
        let (address, origin) = match self.address_from_proxies(socket, peer.proxied, headers) {
            None => (socket, Origin::Peer),
            Some(Ok(address)) => (Some(address), Origin::Proxy),
            Some(Err(unusable)) => (socket, Origin::Fallback(unusable)),
        };
        Client { address, origin }
    }

    /// The address that the trusted proxies named; `None` if none is trusted.
    fn address_from_proxies(
        &self,
        socket: Option<IpAddr>,
        proxied: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Option<Result<IpAddr, Unusable>> {
        if self.source == AddressSource::Peer || self.trust.is_nobody() {
            return None;
        }
        if !self.trust.has_peer(socket) {
            return Some(Err(Unusable::UntrustedPeer));
        }
        Some(match (self.source.header(), self.source.is_list()) {
            (None, _) => proxied
                .map(|address| address.to_canonical())
                .ok_or(Unusable::Absent),
            (Some(name), false) => {
                let mut values = headers.get_all(name).iter();
                match (values.next(), values.next()) {
                    (None, _) => Err(Unusable::Absent),
                    (Some(value), None) => {
                        literal::parse(value.as_bytes()).ok_or(Unusable::Unreadable)
                    }
                    (Some(_), Some(_)) => Err(Unusable::Repeated),
                }
            }
            (Some(name), true) => {
                // Lines are one list, in their order (RFC 9110, section 5.3).
                let lines = headers.get_all(name).iter().rev();
                let entries = lines.flat_map(|line| match self.source {
                    AddressSource::Forwarded => Last::elements(line.as_bytes()),
                    _ => Last::entries(line.as_bytes()),
                });
                self.trust.client(entries.map(|entry| match self.source {
                    AddressSource::Forwarded => list::parse_forwarded(entry?),
                    _ => literal::parse(entry?),
                }))
            }
        })
    }
}

impl Default for ClientAddress {
    fn default() -> ClientAddress {
        ClientAddress::new(&ClientAddressSettings::default()).expect("the defaults are valid")
    }
}

#[cfg(test)]
mod tests;
