//! Addresses as text.

use std::net::{IpAddr, Ipv4Addr};

/// The bytes of `255.255.255.255`.
const IPV4_BYTES_MAX: usize = 15;

/// An IPv4 address as text.
///
/// The formatting of the standard library takes ten times as long, and every request that is passed
/// on needs three.
pub(crate) struct Ipv4Text {
    bytes: [u8; IPV4_BYTES_MAX],
    length: usize,
}

/// An address as its `Display` writes it, such as `192.0.2.7` or `2001:db8::1`.
pub fn address_text(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => Ipv4Text::new(address).as_str().to_owned(),
        IpAddr::V6(address) => address.to_string(),
    }
}

// === impl Ipv4Text ===

impl Ipv4Text {
    pub(crate) fn new(address: Ipv4Addr) -> Ipv4Text {
        let mut text = Ipv4Text {
            bytes: [0; IPV4_BYTES_MAX],
            length: 0,
        };
        let [first, rest @ ..] = address.octets();
        text.push_number(first);
        for octet in rest {
            text.push(b'.');
            text.push_number(octet);
        }
        text
    }

    fn push_number(&mut self, number: u8) {
        if number >= 100 {
            self.push(b'0' + number / 100);
        }
        if number >= 10 {
            self.push(b'0' + number / 10 % 10);
        }
        self.push(b'0' + number % 10);
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("digits and points")
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn an_address_is_written_as_the_standard_library_does() {
        for bits in (0..=u32::MAX).step_by(65_537) {
            let address = IpAddr::V4(Ipv4Addr::from_bits(bits));
            assert_eq!(address_text(address), address.to_string());
        }
        for address in [Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(0xffff_0102_0304)] {
            assert_eq!(address_text(address.into()), address.to_string());
        }
    }
}
