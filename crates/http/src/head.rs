//! What is known of a request before its body.

use http::request::Parts;
use http::{HeaderMap, Method, Uri};

use crate::peer::Peer;

/// The head of a request, and who sent it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The other end of the connection.
    pub peer: Peer,
    /// The method.
    pub method: &'a Method,
    /// The request target.
    pub uri: &'a Uri,
    /// The headers; never the trailers, which come after the decision.
    pub headers: &'a HeaderMap,
}

// === impl Head ===

impl<'a> Head<'a> {
    /// The head of a request that came from `peer`.
    pub const fn of(parts: &'a Parts, peer: Peer) -> Head<'a> {
        Head {
            peer,
            method: &parts.method,
            uri: &parts.uri,
            headers: &parts.headers,
        }
    }
}
