//! TCP connections to servers that settings name: the lookup of a name, the first of its IP
//! addresses that accepts, and a bound on what it sends unasked.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

mod bounded_reads;
mod lookup;
mod race;

pub use bounded_reads::{BoundedReads, ReadBound, TooMuchRead};
pub use lookup::LOOKUPS_MAX;
pub use race::{NEXT_AFTER, TRIED_MAX};

/// Whether the host of `host:port` is a name, which is looked up. An IP address needs no lookup.
pub fn is_name(address: &str) -> bool {
    address.parse::<SocketAddr>().is_err()
}

/// Connects to `host:port`: to the first of its IP addresses that accepts the connection. At most
/// [`LOOKUPS_MAX`] names are looked up at once. Takes as long as the system does; the caller says
/// how long it waits.
///
/// # Errors
///
/// Why the lookup has failed, or that of the last IP address that failed, if all have.
///
/// # Panics
///
/// Outside a Tokio runtime.
pub async fn dial(address: &str) -> io::Result<TcpStream> {
    race::connect(&lookup::find(address).await?).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn names_and_addresses_are_dialled() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for (host, is_looked_up) in [("127.0.0.1", false), ("localhost", true)] {
            let address = format!("{host}:{port}");
            assert_eq!(is_name(&address), is_looked_up);
            let stream = dial(&address).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
        }
        let error = dial("host.invalid:80").await.unwrap_err();
        assert!(error.to_string().contains("lookup"), "{error}");
    }
}
