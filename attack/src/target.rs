//! The addresses of the service.

use std::net::SocketAddr;

/// The addresses of its listeners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) redis: SocketAddr,
}

// === impl Target ===

impl Target {
    /// Parses four addresses, as [`Target::words`] writes them.
    pub(crate) fn parse(words: &[String]) -> Option<Target> {
        let [grpc, http, admin, redis] = words else {
            return None;
        };
        Some(Target {
            grpc: grpc.parse().ok()?,
            http: http.parse().ok()?,
            admin: admin.parse().ok()?,
            redis: redis.parse().ok()?,
        })
    }

    pub(crate) fn words(&self) -> [String; 4] {
        [self.grpc, self.http, self.admin, self.redis].map(|address| address.to_string())
    }
}
