//! Where a listener listens, and where its connections come from.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How the address of a Unix socket begins.
const UNIX_SCHEME: &str = "unix:";
/// The most bytes of the path of a Unix socket: the system's structure has 108, with a zero at the
/// end.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The permissions of a socket's file unless the settings say otherwise: its user and its group may
/// connect.
pub const SOCKET_MODE: u32 = 0o660;

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address with a port; port 0 is any free one.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(SocketPath),
}

/// The path of a Unix socket, and who may connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPath {
    /// At most [`SOCKET_PATH_BYTES_MAX`] bytes.
    pub path: PathBuf,
    /// The permissions of its file. Who may write to it may connect.
    pub mode: u32,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// Of a TCP connection.
    Tcp(SocketAddr),
    /// A process on this host, without an address.
    Unix,
}

/// Why a text is not an [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidAddress {
    /// It is neither an IP address with a port nor `unix:` with a path.
    Unknown,
    /// No path follows `unix:`.
    NoPath,
    /// An abstract Unix socket, which has no file and so no permissions.
    Abstract,
    /// The path has so many bytes, more than [`SOCKET_PATH_BYTES_MAX`].
    LongPath(usize),
    /// The path contains a zero byte.
    ZeroByte,
}

// === impl Address ===

impl Address {
    /// Reads an IP address with a port, or `unix:PATH` with a path relative to `directory`.
    ///
    /// # Errors
    ///
    /// [`InvalidAddress`].
    pub fn parse(text: &str, directory: &Path) -> Result<Address, InvalidAddress> {
        let Some(path) = text.strip_prefix(UNIX_SCHEME) else {
            let address = text.parse().map_err(|_| InvalidAddress::Unknown)?;
            return Ok(Address::Tcp(address));
        };
        match path.as_bytes() {
            [] => return Err(InvalidAddress::NoPath),
            [b'@', ..] => return Err(InvalidAddress::Abstract),
            bytes if bytes.contains(&0) => return Err(InvalidAddress::ZeroByte),
            _ => {}
        }
        let path = directory.join(path);
        let bytes = path.as_os_str().len();
        match bytes <= SOCKET_PATH_BYTES_MAX {
            true => Ok(Address::Unix(SocketPath {
                path,
                mode: SOCKET_MODE,
            })),
            false => Err(InvalidAddress::LongPath(bytes)),
        }
    }

    /// The address of a TCP listener.
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// Whether only processes on this host can connect.
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().is_loopback())
    }

    /// Whether more than this host and a private network may be able to connect: it is a public IP
    /// address, or all addresses of this host.
    pub fn is_exposed(&self) -> bool {
        let ip = self.tcp().map(|address| address.ip().to_canonical());
        ip.is_some_and(|ip| match ip {
            IpAddr::V4(ip) => !(ip.is_loopback() || ip.is_private() || ip.is_link_local()),
            IpAddr::V6(ip) => {
                !(ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local())
            }
        })
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Address, InvalidAddress> {
        Address::parse(text, Path::new(""))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Tcp(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(SocketPath { path, .. }) => {
                write!(f, "{UNIX_SCHEME}{}", path.display())
            }
        }
    }
}

// === impl PeerAddress ===

impl PeerAddress {
    /// Its IP address, if it has one.
    pub const fn ip(self) -> Option<IpAddr> {
        match self {
            PeerAddress::Tcp(address) => Some(address.ip()),
            PeerAddress::Unix => None,
        }
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> PeerAddress {
        PeerAddress::Tcp(address)
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Tcp(address) => address.fmt(f),
            PeerAddress::Unix => f.write_str("unix"),
        }
    }
}

// === impl InvalidAddress ===

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidAddress::Unknown => {
                f.write_str("is neither an IP address with a port nor `unix:` with a path")
            }
            InvalidAddress::NoPath => f.write_str("has no path"),
            InvalidAddress::Abstract => {
                f.write_str("is an abstract Unix socket, to which every process may connect")
            }
            InvalidAddress::LongPath(bytes) => write!(
                f,
                "is a path of {bytes} bytes with its directory, and a Unix socket can have \
                 {SOCKET_PATH_BYTES_MAX}"
            ),
            InvalidAddress::ZeroByte => f.write_str("contains a zero byte"),
        }
    }
}

impl Error for InvalidAddress {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_address_is_of_tcp_or_the_path_of_a_unix_socket() {
        let parse = |text: &str| Address::parse(text, Path::new("/etc/tollgate"));
        for (text, shown) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:0", "[::1]:0"),
            ("unix:/run/a b.sock", "unix:/run/a b.sock"),
            ("unix:///run/a.sock", "unix:///run/a.sock"),
            ("unix:a.sock", "unix:/etc/tollgate/a.sock"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown);
        }
        let is_local = |text: &str| parse(text).unwrap().is_local();
        assert!(is_local("unix:a") && is_local("[::1]:1") && !is_local("0.0.0.0:1"));
        let is_exposed = |text: &&str| parse(text).unwrap().is_exposed();
        let exposed = ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1"];
        assert!(exposed.iter().all(is_exposed));
        let private = [
            "unix:a",
            "127.0.0.1:1",
            "[::1]:1",
            "10.1.2.3:1",
            "[fd00::1]:1",
        ];
        assert!(!private.iter().any(is_exposed));
        for (text, wrong) in [
            ("localhost:80", InvalidAddress::Unknown),
            ("/run/a.sock", InvalidAddress::Unknown),
            ("unix:", InvalidAddress::NoPath),
            ("unix:@a", InvalidAddress::Abstract),
            ("unix:a\0b", InvalidAddress::ZeroByte),
        ] {
            assert_eq!(parse(text), Err(wrong), "{text}");
        }
    }

    #[test]
    fn the_longest_path_is_the_longest_that_the_system_takes() {
        let directory = "/tmp/";
        let longest = "x".repeat(SOCKET_PATH_BYTES_MAX - directory.len());
        let parse = |name: &str| Address::parse(&format!("unix:{name}"), Path::new(directory));
        let Ok(Address::Unix(SocketPath { path, .. })) = parse(&longest) else {
            panic!("the longest path is accepted");
        };
        std::os::unix::net::SocketAddr::from_pathname(path).unwrap();
        let bytes = SOCKET_PATH_BYTES_MAX + 1;
        let long = parse(&format!("{longest}x"));
        assert_eq!(long, Err(InvalidAddress::LongPath(bytes)));
        let long = std::os::unix::net::SocketAddr::from_pathname(format!("/tmp/{longest}x"));
        assert!(long.is_err());
    }
}
