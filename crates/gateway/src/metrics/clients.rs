//! What is counted of clients that the settings do not find.
//!
//! The clients of a proxy that is not trusted, or is read in the wrong way, share the limits of its
//! address. That is safe, and looks like an attack of one client, so it has to be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, HeaderName};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tollgate_http::{Client, Origin, Unusable};
use tracing::warn;

use super::owners::Owner;

/// What proxies write, whatever else they write.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub(super) type ClientLabels = [(&'static str, String); 2];

/// Counts the requests of one route whose client is taken to be the connection's peer.
#[derive(Debug)]
pub(crate) struct ClientMetrics {
    route: Arc<str>,
    counters: Family<ClientLabels, Counter>,
    owner: Arc<Owner>,
    /// The log says so once, since clients can cause it at will.
    is_logged: AtomicBool,
}

// === impl ClientMetrics ===

impl ClientMetrics {
    pub(super) fn new(
        route: &str,
        counters: Family<ClientLabels, Counter>,
        owner: Arc<Owner>,
    ) -> ClientMetrics {
        ClientMetrics {
            route: route.into(),
            counters,
            owner,
            is_logged: AtomicBool::new(false),
        }
    }

    /// A request with these headers is taken to be of this client.
    pub(crate) fn record(&self, client: Client, headers: &HeaderMap) {
        let reason = match client.origin {
            Origin::Proxy => return,
            // Most clients connect directly, and say nothing of proxies.
            Origin::Peer if !headers.contains_key(FORWARDED_FOR) => return,
            Origin::Peer => "no_trusted_proxy",
            Origin::Fallback(unusable) => unusable.name(),
        };
        let labels = [
            ("route", self.route.as_ref().to_owned()),
            ("reason", reason.to_owned()),
        ];
        self.owner.count(&self.counters, &labels);
        // A proxy's own health checks have no such header.
        let is_usual = client.origin == Origin::Fallback(Unusable::Absent);
        if !is_usual && !self.is_logged.swap(true, Ordering::Relaxed) {
            let (route, peer) = (&self.route, client.address);
            let peer = peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
            warn!(
                %route,
                %peer,
                reason,
                "requests that a proxy has forwarded count as that proxy's: see `client_address` \
                 in the route's `identity`; `gateway_client_fallbacks` counts them"
            );
        }
    }
}
