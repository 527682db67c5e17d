//! `client_address` in a file of settings.

use http::HeaderName;
use http::header::FORWARDED;
use serde::Deserialize;

use crate::prefix::Prefix;

/// The section `client_address`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientAddressSettings {
    /// What names the client's address; all else has no effect. Default: `peer`.
    pub source: AddressSource,
    /// The networks of our proxies, such as `10.0.0.0/8`; `unix` for peers of a Unix socket. The
    /// client is the last address that is not among them. Default: empty.
    pub trusted_proxies: Vec<String>,
    /// How many proxies of ours a request comes through: the client is the entry with this number,
    /// counted from the right. For proxies whose addresses are not known; the listener must not be
    /// reachable except through them. Instead of `trusted_proxies`.
    pub trusted_hops: Option<usize>,
    /// How many bits of an IPv4 address make a key. Default: 32.
    pub ipv4_prefix: u8,
    /// How many bits of an IPv6 address make a key. Default: 64.
    pub ipv6_prefix: u8,
    /// IPv6 networks of 96 bits whose addresses stand for IPv4 addresses. Default: `64:ff9b::/96`.
    pub nat64_prefixes: Vec<String>,
}

/// What names the client's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum AddressSource {
    /// The socket: clients connect to us directly.
    #[default]
    #[serde(rename = "peer")]
    Peer,
    /// `X-Forwarded-For`: a list to which each proxy appends the address that it saw.
    #[serde(rename = "x-forwarded-for")]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): likewise, in `for` parameters.
    #[serde(rename = "forwarded")]
    Forwarded,
    /// `X-Real-IP`: one address, which the proxy overwrites.
    #[serde(rename = "x-real-ip")]
    XRealIp,
    /// `CF-Connecting-IP`: likewise, by Cloudflare.
    #[serde(rename = "cf-connecting-ip")]
    CfConnectingIp,
    /// The PROXY protocol header of the connection.
    #[serde(rename = "proxy-protocol")]
    ProxyProtocol,
}

// === impl ClientAddressSettings ===

impl Default for ClientAddressSettings {
    fn default() -> ClientAddressSettings {
        ClientAddressSettings {
            source: AddressSource::Peer,
            trusted_proxies: Vec::new(),
            trusted_hops: None,
            ipv4_prefix: Prefix::IPV4_DEFAULT,
            ipv6_prefix: Prefix::IPV6_DEFAULT,
            nat64_prefixes: vec![Prefix::NAT64_DEFAULT.to_owned()],
        }
    }
}

// === impl AddressSource ===

impl AddressSource {
    /// The header, if it is one.
    pub(super) const fn header(self) -> Option<HeaderName> {
        match self {
            Self::Peer | Self::ProxyProtocol => None,
            Self::XForwardedFor => Some(HeaderName::from_static("x-forwarded-for")),
            Self::Forwarded => Some(FORWARDED),
            Self::XRealIp => Some(HeaderName::from_static("x-real-ip")),
            Self::CfConnectingIp => Some(HeaderName::from_static("cf-connecting-ip")),
        }
    }

    /// Whether each proxy appends to it.
    pub(super) const fn is_list(self) -> bool {
        matches!(self, Self::XForwardedFor | Self::Forwarded)
    }
}
