//! The addresses of the service.

use std::net::SocketAddr;

/// The names of the listeners, in the order of their addresses.
pub(crate) const LISTENERS: [&str; 5] = ["grpc", "http", "admin", "redis", "gateway"];
/// In place of the address of a listener that the service does not have.
pub(crate) const ABSENT: &str = "0.0.0.0:0";
/// In place of the authority of a service without TLS.
const PLAIN: &str = "-";

/// The addresses of its listeners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) redis: SocketAddr,
    pub(crate) gateway: SocketAddr,
    /// If `http` and `gateway` have TLS: the file with the authority of their certificate.
    pub(crate) authority: Option<&'static str>,
}

/// The address of a listener, if the service has it.
pub(crate) fn present(address: SocketAddr) -> Option<SocketAddr> {
    (address.port() != 0).then_some(address)
}

// === impl Target ===

impl Target {
    /// Parses the addresses of [`LISTENERS`].
    pub(crate) fn new(addresses: &[String], authority: Option<String>) -> Option<Target> {
        let [grpc, http, admin, redis, gateway] = addresses else {
            return None;
        };
        Some(Target {
            grpc: grpc.parse().ok()?,
            http: http.parse().ok()?,
            admin: admin.parse().ok()?,
            redis: redis.parse().ok()?,
            gateway: gateway.parse().ok()?,
            // One for each attack: few, and needed until the process ends.
            authority: authority.map(|path| &*path.leak()),
        })
    }

    /// Parses what [`Target::words`] writes.
    pub(crate) fn parse(words: &[String]) -> Option<Target> {
        let (authority, addresses) = words.split_last()?;
        Target::new(addresses, (authority != PLAIN).then(|| authority.clone()))
    }

    pub(crate) fn words(&self) -> [String; 6] {
        let address = |address: SocketAddr| address.to_string();
        [
            address(self.grpc),
            address(self.http),
            address(self.admin),
            address(self.redis),
            address(self.gateway),
            self.authority.unwrap_or(PLAIN).to_owned(),
        ]
    }
}
