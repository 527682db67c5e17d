//! What a reload of the settings replaces: routes, upstreams, and what applies to them.

use tollgate_http::{ClientAddress, InvalidSettings, Responder};

use crate::metrics::Metrics;
use crate::route::RouteTable;
use crate::settings::GatewaySettings;

/// The routes in effect. A request keeps those under which it came.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) routes: RouteTable,
    /// Answers requests that match no route.
    pub(crate) responder: Responder,
    /// The proxies whose connections begin with a PROXY protocol header, if any do.
    pub(crate) proxies: Option<ClientAddress>,
    /// The hash of the files that the settings name.
    pub(crate) files: u64,
}

// === impl Active ===

impl Active {
    /// What `settings` describe. An upstream whose settings and files are those of `former` stays
    /// what it is, with its connections and what is known of its health, and so do requests in
    /// flight.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn new(
        settings: &GatewaySettings,
        metrics: &Metrics,
        former: Option<&Active>,
    ) -> Result<Active, InvalidSettings> {
        // Before they are used: what changes in between is found by the next comparison.
        let files = settings.hash_files();
        let former = former.map(|former| &former.routes);
        let mut errors = InvalidSettings::default();
        let routes = errors.take(RouteTable::new(settings, metrics, former));
        // Routes without their own responses have the same errors.
        let responder = errors.take_below("responses", Responder::new(&settings.responses));
        // Likewise.
        let proxies = errors.take_below("identity.client_address", find_proxies(settings));
        match (routes, responder, proxies) {
            (Some(routes), Some(responder), Some(proxies)) => Ok(Active {
                routes,
                responder,
                proxies,
                files,
            }),
            _ => Err(errors),
        }
    }
}

/// The proxies whose connections begin with a PROXY protocol header: those that the gateway itself
/// trusts, because the header comes before any request, and so before any route.
fn find_proxies(settings: &GatewaySettings) -> Result<Option<ClientAddress>, InvalidSettings> {
    let reads = settings.reads_proxy_headers();
    let proxies = reads.then(|| ClientAddress::new(&settings.identity.client_address));
    proxies.transpose()
}
