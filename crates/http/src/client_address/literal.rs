//! An address as proxies write it: with a port, in brackets, with a zone.

use std::net::{IpAddr, Ipv6Addr};

/// The longest text that can be an address: IPv6 with an embedded IPv4 address, brackets, a zone
/// as long as an interface's name, and a port.
const ADDRESS_BYTES_MAX: usize = 45 + 2 + 17 + 6;

/// Reads an address; spaces round it, a port, brackets and a zone are dropped.
///
/// Strict otherwise: no octal or hexadecimal IPv4 address, no name, no obfuscated identifier. Two
/// texts of the same address give the same value, an IPv4 address never in an IPv6 one.
pub(super) fn parse(bytes: &[u8]) -> Option<IpAddr> {
    let bytes = bytes.trim_ascii();
    if bytes.len() > ADDRESS_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let address = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            if !port.is_empty() {
                check_port(port.strip_prefix(':')?)?;
            }
            IpAddr::V6(parse_ipv6(address)?)
        }
        None => match text.split_once(':') {
            Some((ipv4, port)) if !port.contains(':') => {
                check_port(port)?;
                IpAddr::V4(ipv4.parse().ok()?)
            }
            Some(_) => IpAddr::V6(parse_ipv6(text)?),
            None => IpAddr::V4(text.parse().ok()?),
        },
    };
    Some(address.to_canonical())
}

/// A zone names an interface of another host, so it says nothing here.
fn parse_ipv6(text: &str) -> Option<Ipv6Addr> {
    let (address, zone) = text.split_once('%').unwrap_or((text, "zone"));
    let is_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if zone.is_empty() || !zone.bytes().all(is_zone) {
        return None;
    }
    address.parse().ok()
}

/// `Forwarded` allows an obfuscated port: `_` and a token.
fn check_port(port: &str) -> Option<()> {
    let is_obfuscated = port.strip_prefix('_').is_some_and(|rest| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !rest.is_empty() && rest.bytes().all(is_token)
    });
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    (is_obfuscated || is_number).then_some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        let table = [
            ("192.0.2.7", "192.0.2.7"),
            (" \t192.0.2.7 ", "192.0.2.7"),
            ("192.0.2.7:65535", "192.0.2.7"),
            ("2001:DB8::1", "2001:db8::1"),
            ("[2001:db8:0:0::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[2001:db8::1]:_hidden", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25]:80", "fe80::1"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:c000:207", "192.0.2.7"),
            ("[::FFFF:192.0.2.7]:80", "192.0.2.7"),
        ];
        for (text, expected) in table {
            let expected: IpAddr = expected.parse().unwrap();
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn all_else_is_no_address() {
        let table: [&[u8]; 20] = [
            b"",
            b"unknown",
            b"_hidden",
            b"<script>",
            b"localhost",
            b"198.051.100.007",
            b"0x7f.1",
            b"127.1",
            b"2130706433",
            b"192.0.2.256",
            b"192.0.2.7:",
            b"192.0.2.7:65536",
            b"192.0.2.7:+80",
            b"[192.0.2.7]",
            b"[2001:db8::1",
            b"[2001:db8::1]443",
            b"2001:db8::1%",
            b"fe80::1%a b",
            b"\xff\xfe",
            b"192.0.2.7, 192.0.2.8",
        ];
        for bytes in table {
            assert_eq!(parse(bytes), None, "{}", tollgate_core::Escaped(bytes));
        }
        assert_eq!(parse(&[b'1'; 10_000]), None);
    }
}
