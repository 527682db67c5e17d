//! How much of an address makes a key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};

use crate::address_text::address_text;
use crate::setting::{InvalidSetting, InvalidSettings};

/// The most `nat64_prefixes`.
pub const NAT64_PREFIXES_MAX: usize = 8;

/// How many leading bits of a client's address make a key.
///
/// A household or a server has a whole IPv6 /64, so single addresses would be 2^64 budgets.
///
/// An IPv6 address that stands for an IPv4 address is treated as that IPv4 address: mapped
/// (`::ffff:0:0/96`), NAT64 (`64:ff9b::/96` and whatever else is set) and 6to4 (`2002::/16`).
/// Otherwise all IPv4 clients behind a NAT64 would share one key, and a 6to4 client would have the
/// 65 536 keys of its /48. Teredo addresses (`2001::/32`) are treated like any IPv6 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    ipv4: u8,
    ipv6: u8,
    nat64: Vec<Ipv6Net>,
}

// === impl Prefix ===

impl Prefix {
    /// The bits of an IPv4 address by default: all.
    pub const IPV4_DEFAULT: u8 = 32;
    /// The bits of an IPv6 address by default.
    pub const IPV6_DEFAULT: u8 = 64;
    /// The well-known prefix of NAT64 (RFC 6052).
    pub const NAT64_DEFAULT: &str = "64:ff9b::/96";

    /// A prefix of so many bits; `nat64` are networks of 96 bits.
    pub(crate) fn new(ipv4: u8, ipv6: u8, nat64: &[String]) -> Result<Prefix, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let length = |key: &str, bits: u8, most: u8| match (1..=most).contains(&bits) {
            true => Ok(bits),
            false => Err(InvalidSetting::new(
                key,
                format!("a prefix of {bits} bits"),
                format!("write 1 to {most}"),
            )),
        };
        let (at, count) = ("nat64_prefixes", nat64.len());
        InvalidSetting::check_at_most(at, count, "prefixes", NAT64_PREFIXES_MAX)?;
        let ipv4 = errors.take(length("ipv4_prefix", ipv4, 32));
        let ipv6 = errors.take(length("ipv6_prefix", ipv6, 128));
        let nat64 = errors.take_each(at, nat64, |text| {
            let network = text.parse::<Ipv6Net>().ok();
            let network = network.filter(|network| network.prefix_len() == 96);
            network.map(|network| network.trunc()).ok_or_else(|| {
                InvalidSetting::new(
                    "",
                    format!("\"{text}\" is not an IPv6 network of 96 bits"),
                    format!("write one such as {}", Prefix::NAT64_DEFAULT),
                )
            })
        });
        match (ipv4, ipv6) {
            (Some(ipv4), Some(ipv6)) if errors.is_empty() => Ok(Prefix { ipv4, ipv6, nat64 }),
            _ => Err(errors),
        }
    }

    /// The same with other lengths.
    pub(crate) fn with_lengths(
        &self,
        ipv4: Option<u8>,
        ipv6: Option<u8>,
    ) -> Result<Prefix, InvalidSettings> {
        let lengths = Prefix::new(ipv4.unwrap_or(self.ipv4), ipv6.unwrap_or(self.ipv6), &[])?;
        Ok(Prefix {
            nat64: self.nat64.clone(),
            ..lengths
        })
    }

    /// The network that an address belongs to.
    pub fn network(&self, address: IpAddr) -> IpNet {
        let (address, bits) = match self.embedded_address(address) {
            IpAddr::V4(address) => (IpAddr::V4(address), self.ipv4),
            IpAddr::V6(address) => (IpAddr::V6(address), self.ipv6),
        };
        IpNet::new_assert(address, bits).trunc()
    }

    /// The network as text: `192.0.2.7`, or `2001:db8::/64` if it is more than one address.
    pub fn key(&self, address: IpAddr) -> String {
        let network = self.network(address);
        match network.prefix_len() == network.max_prefix_len() {
            true => address_text(network.addr()),
            false => network.to_string(),
        }
    }

    /// The IPv4 address that an IPv6 address stands for, or else the address itself.
    pub(crate) fn embedded_address(&self, address: IpAddr) -> IpAddr {
        let IpAddr::V6(ipv6) = address.to_canonical() else {
            return address.to_canonical();
        };
        if self.nat64.iter().any(|network| network.contains(&ipv6)) {
            return ipv4_at(ipv6, 12);
        }
        match ipv6.segments()[0] {
            0x2002 => ipv4_at(ipv6, 2),
            _ => IpAddr::V6(ipv6),
        }
    }
}

impl Default for Prefix {
    fn default() -> Prefix {
        let nat64 = [Prefix::NAT64_DEFAULT.to_owned()];
        Prefix::new(Prefix::IPV4_DEFAULT, Prefix::IPV6_DEFAULT, &nat64)
            .expect("the defaults are within their bounds")
    }
}

/// The IPv4 address in four octets of an IPv6 address.
fn ipv4_at(address: Ipv6Addr, from: usize) -> IpAddr {
    let octets = address.octets();
    let ipv4: [u8; 4] = std::array::from_fn(|index| octets[from + index]);
    IpAddr::V4(Ipv4Addr::from(ipv4))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn key(prefix: &Prefix, address: &str) -> String {
        prefix.key(address.parse().unwrap())
    }

    #[test]
    fn an_address_is_cut_to_its_prefix() {
        let narrow = Prefix::new(24, 48, &[]).unwrap();
        let table = [
            ("192.0.2.7", "192.0.2.7", "192.0.2.0/24"),
            (
                "2001:db8:1:2:3:4:5:6",
                "2001:db8:1:2::/64",
                "2001:db8:1::/48",
            ),
            ("::ffff:192.0.2.7", "192.0.2.7", "192.0.2.0/24"),
            ("2001:db8::1.2.3.4", "2001:db8::/64", "2001:db8::/48"),
            ("2002:c000:207:1::1", "192.0.2.7", "192.0.2.0/24"),
            ("64:ff9b::c000:207", "192.0.2.7", "64:ff9b::/48"),
            ("2001:0:1:2:3:4:5:6", "2001:0:1:2::/64", "2001:0:1::/48"),
            ("::1.2.3.4", "::/64", "::/48"),
        ];
        for (address, default, cut) in table {
            assert_eq!(key(&Prefix::default(), address), default, "{address}");
            assert_eq!(key(&narrow, address), cut, "{address}");
        }
        let whole = Prefix::new(32, 128, &[]).unwrap();
        assert_eq!(key(&whole, "2001:DB8:0::1"), "2001:db8::1");
    }

    #[test]
    fn errors_say_where_and_what_instead() {
        let wrong = |ipv4, ipv6, nat64: &[&str]| {
            let nat64: Vec<String> = nat64.iter().map(|text| (*text).to_owned()).collect();
            Prefix::new(ipv4, ipv6, &nat64).unwrap_err().to_string()
        };
        assert_eq!(
            wrong(0, 64, &[]),
            "ipv4_prefix: a prefix of 0 bits; write 1 to 32"
        );
        assert_eq!(
            wrong(32, 129, &[]),
            "ipv6_prefix: a prefix of 129 bits; write 1 to 128"
        );
        assert_eq!(
            wrong(32, 64, &["64:ff9b:1::/48"]),
            "nat64_prefixes[0]: \"64:ff9b:1::/48\" is not an IPv6 network of 96 bits; \
             write one such as 64:ff9b::/96"
        );
        assert!(wrong(32, 64, &["::/96"; 9]).contains("8 is the most"));
    }
}
