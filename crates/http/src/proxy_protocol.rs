//! The header that a proxy writes before a connection's own bytes: PROXY protocol 1 and 2.

use std::fmt;
use std::net::IpAddr;

use proxy_header::{ParseConfig, ProxyHeader as Parsed};

/// The longest header that is read: the 16 fixed bytes of version 2, addresses, and extensions.
/// Version 1 has at most 107 bytes.
pub const PROXY_HEADER_BYTES_MAX: usize = 2048;

/// What a header of version 2 with the command `LOCAL` begins with. A byte with the family follows,
/// and two with the length of the rest.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20";

/// A PROXY protocol header at the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client's address; `None` if the proxy speaks for itself (`LOCAL`, a health check) or
    /// does not know (`UNKNOWN`, a Unix socket).
    pub client: Option<IpAddr>,
    /// How many bytes it has. The connection's own bytes follow.
    pub bytes: usize,
}

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidProxyHeader {
    /// The bytes begin like a header and end before it does: read more.
    Incomplete,
    /// The bytes are not a header. The connection must be closed: its bytes would be read as a
    /// request of the proxy itself.
    Malformed,
    /// The header is longer than [`PROXY_HEADER_BYTES_MAX`].
    TooLong,
}

// === impl ProxyHeader ===

impl ProxyHeader {
    /// Reads the header that `bytes` begin with, version 1 or 2.
    ///
    /// # Errors
    ///
    /// [`InvalidProxyHeader`]. After [`InvalidProxyHeader::Incomplete`], call again with more
    /// bytes: it is never returned for [`PROXY_HEADER_BYTES_MAX`] bytes.
    pub fn parse(bytes: &[u8]) -> Result<ProxyHeader, InvalidProxyHeader> {
        let head = &bytes[..bytes.len().min(PROXY_HEADER_BYTES_MAX)];
        if head.starts_with(LOCAL) {
            return ProxyHeader::parse_local(head);
        }
        let config = ParseConfig {
            include_tlvs: false,
            ..ParseConfig::default()
        };
        match Parsed::parse(head, config) {
            Ok((header, bytes)) => Ok(ProxyHeader {
                client: header
                    .proxied_address()
                    .map(|address| address.source.ip().to_canonical()),
                bytes,
            }),
            Err(proxy_header::Error::BufferTooShort) if head.len() < PROXY_HEADER_BYTES_MAX => {
                Err(InvalidProxyHeader::Incomplete)
            }
            Err(proxy_header::Error::BufferTooShort) => Err(InvalidProxyHeader::TooLong),
            Err(_) => Err(InvalidProxyHeader::Malformed),
        }
    }

    /// Reads a header of which all but its length is ignored: its family may be any, and there need
    /// be no addresses of it (section 2.2 of the specification).
    fn parse_local(head: &[u8]) -> Result<ProxyHeader, InvalidProxyHeader> {
        let length = head.get(14..16).ok_or(InvalidProxyHeader::Incomplete)?;
        let bytes = 16 + usize::from(u16::from_be_bytes([length[0], length[1]]));
        if bytes > PROXY_HEADER_BYTES_MAX {
            return Err(InvalidProxyHeader::TooLong);
        }
        match bytes > head.len() {
            true => Err(InvalidProxyHeader::Incomplete),
            false => Ok(ProxyHeader {
                client: None,
                bytes,
            }),
        }
    }
}

// === impl InvalidProxyHeader ===

impl std::error::Error for InvalidProxyHeader {}

impl fmt::Display for InvalidProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete => f.write_str("the PROXY protocol header is incomplete"),
            Self::Malformed => f.write_str(
                "the connection does not begin with a PROXY protocol header; \
                 enable it in the proxy, or do not trust it here",
            ),
            Self::TooLong => write!(
                f,
                "the PROXY protocol header is longer than {PROXY_HEADER_BYTES_MAX} bytes"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_behaviour::check;

    use super::*;

    const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

    fn client(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn v2(rest: &[u8]) -> Vec<u8> {
        [V2, rest].concat()
    }

    #[test]
    fn both_versions_name_the_client() {
        let v4 = b"\x21\x11\x00\x0c\xc0\x00\x02\x01\x0a\x00\x00\x01\x12\x34\x00\x50";
        let mapped = b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n";
        let table: [(&[u8], Option<IpAddr>); 9] = [
            (
                b"PROXY TCP4 192.0.2.1 10.0.0.1 4660 80\r\n",
                client("192.0.2.1"),
            ),
            (
                b"PROXY TCP6 2001:db8::1 ::1 4660 80\r\n",
                client("2001:db8::1"),
            ),
            (mapped, client("192.0.2.1")),
            (b"PROXY UNKNOWN\r\n", None),
            (&v2(b"\x20\x00\x00\x00"), None),
            // `LOCAL`, whatever the family says.
            (&v2(b"\x20\x11\x00\x00"), None),
            (&v2(b"\x20\x01\x00\x00"), None),
            (&v2(b"\x20\x31\x00\x00"), None),
            (&v2(b"\x20\xff\x00\x04abcd"), None),
        ];
        for (header, expected) in table {
            let bytes = [header, b"GET / HTTP/1.1\r\n"].concat();
            let parsed = ProxyHeader::parse(&bytes).unwrap();
            assert_eq!((parsed.client, parsed.bytes), (expected, header.len()));
            for end in 0..header.len() {
                let cut = ProxyHeader::parse(&header[..end]);
                assert_eq!(
                    cut,
                    Err(InvalidProxyHeader::Incomplete),
                    "{end} of {header:?}"
                );
            }
        }
        let parsed = ProxyHeader::parse(&v2(v4)).unwrap();
        assert_eq!(parsed.client, client("192.0.2.1"));
    }

    #[test]
    fn what_is_no_header_is_an_error() {
        use InvalidProxyHeader::{Incomplete, Malformed, TooLong};
        let huge = [v2(b"\x21\x11\xff\xff"), vec![0; 70_000]].concat();
        let table: [(&[u8], InvalidProxyHeader); 8] = [
            (b"", Incomplete),
            (b"PROXY TCP4 192.0.2.1", Incomplete),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed),
            (b"PROXY TCP4 192.0.2.256 10.0.0.1 4660 80\r\n", Malformed),
            (b"PROXY TCP4 0300.0.2.1 10.0.0.1 4660 80\r\n", Malformed),
            (b"PROXY TCP4 ::1 ::1 4660 80\r\n", Malformed),
            (&huge, TooLong),
            (&v2(b"\x20\x11\xff\xff"), TooLong),
        ];
        for (bytes, error) in table {
            let shown = tollgate_core::Escaped(&bytes[..bytes.len().min(40)]).to_string();
            assert_eq!(ProxyHeader::parse(bytes), Err(error), "{shown}");
        }
    }

    #[test]
    fn random_bytes_never_panic_and_never_take_more_than_there_is() {
        check("proxy_header", 20_000, |random| {
            let mut bytes = match random.between(0, 2) {
                0 => Vec::new(),
                1 => b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec(),
                _ => v2(b"\x21\x11\x00\x0c\xc0\x00\x02\x01\x0a\x00\x00\x01\x12\x34\x00\x50"),
            };
            for _ in 0..random.between(0, 6) {
                let byte = random.word().to_le_bytes()[0];
                let at = usize::try_from(random.word()).unwrap() % (bytes.len() + 1);
                match bytes.get_mut(at) {
                    Some(old) => *old = byte,
                    None => bytes.push(byte),
                }
            }
            let end = usize::try_from(random.word()).unwrap() % (bytes.len() + 1);
            if let Ok(header) = ProxyHeader::parse(&bytes[..end]) {
                assert!(header.bytes <= end);
            }
        });
    }
}
