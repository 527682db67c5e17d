//! `/v1/auth`: decides on the request that a proxy asks about, for nginx's `auth_request` and the
//! forward auth of Traefik and Caddy.
//!
//! The proxy is not a client: the status says what becomes of the original request, and a status of
//! 200 means that it is allowed. nginx knows 200, 401 and 403, so what is denied before any limit
//! is asked has 403, whatever its status would be in a response to a client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{Method, StatusCode};
use tollgate_core::{Answer, Clock, Moment, Request, Timeline};
use tollgate_http::{
    Classifier, Client, EntrySettings, Head, Identity, IfMissing, InvalidOriginal, InvalidSettings,
    Origin, OriginalFlaw, OriginalSource, Peer, Problem, Rejection, Responder, SourceSettings,
};
use tollgate_listen::Throttle;
use tracing::warn;

use crate::config::Auth;
use crate::reply::Failure;

mod active;

pub(crate) use active::ActiveAuth;

/// Where proxies ask.
pub(crate) const PATH: &str = "/v1/auth";

/// Identifies original requests, and answers the proxies that ask about them.
pub(crate) struct ForwardAuth {
    domain: String,
    source: OriginalSource,
    classifier: Classifier,
    /// Whether the address of a client may be in a descriptor.
    reads_address: bool,
    responder: Responder,
    clock: Arc<dyn Clock>,
    untrusted: Throttle,
    unnamed: Throttle,
}

// === impl ForwardAuth ===

impl ForwardAuth {
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn new(
        settings: &Auth,
        clock: Arc<dyn Clock>,
    ) -> Result<ForwardAuth, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let classifier = errors.take_below("identity", settings.classifier());
        let responder = errors.take_below("responses", settings.responder());
        let (Some(classifier), Some(responder)) = (classifier, responder) else {
            return Err(errors);
        };
        let mut descriptors = settings.identity.descriptors.iter();
        Ok(ForwardAuth {
            domain: settings.domain.clone(),
            source: settings.source,
            classifier,
            reads_address: descriptors.any(|descriptor| descriptor.entries.iter().any(is_address)),
            responder,
            clock,
            untrusted: Throttle::default(),
            unnamed: Throttle::default(),
        })
    }

    /// Whether the settings list the address among those of trusted proxies.
    fn lists_proxy(&self, address: IpAddr) -> bool {
        self.classifier.client_address().lists_proxy(address)
    }

    /// Makes the head of a proxy's request that of the original one.
    ///
    /// # Errors
    ///
    /// 403 if the peer is not a trusted proxy, or for a malformed original request; 400 if the
    /// proxy does not name the original request.
    pub(crate) fn restore(&self, head: &mut Parts) -> Result<Peer, Failure> {
        let peer = head.extensions.get::<Peer>().copied().unwrap_or_default();
        if !self.classifier.client_address().trusts(peer) {
            return Err(self.reject_untrusted(peer));
        }
        self.source.restore(head).map_err(unknown_original)?;
        Ok(peer)
    }

    /// The client of the original request. If the proxy does not name it, all of its clients share
    /// the limits of the proxy's address, if any limit is about addresses: then also why.
    pub(crate) fn client(&self, head: &Parts, peer: Peer) -> (Client, Option<&'static str>) {
        let addresses = self.classifier.client_address();
        let client = addresses.resolve(peer, &head.headers);
        let Origin::Fallback(unusable) = client.origin else {
            return (client, None);
        };
        if !self.reads_address {
            return (client, None);
        }
        let reason = unusable.name();
        if let Some(withheld) = self.unnamed.allow() {
            let proxy = client.address.map(|address| address.to_string());
            let proxy = proxy.unwrap_or_else(|| "unix".to_owned());
            warn!(
                proxy,
                reason,
                withheld,
                "requests at {PATH} count as the proxy's: it has to send the header that \
                 `auth.identity.client_address.source` names; `auth_client_fallbacks` counts them"
            );
        }
        (client, Some(reason))
    }

    /// # Errors
    ///
    /// 403 if the original request is denied without asking any limit.
    pub(crate) fn identify<'a>(
        &'a self,
        head: &'a Parts,
        (peer, client): (Peer, Client),
    ) -> Result<Identity<'a>, Failure> {
        let identity = self.classifier.identify_of(Head::of(head, peer), client);
        identity.map_err(|rejection: Rejection| {
            Failure::new(
                "not_identified",
                StatusCode::FORBIDDEN,
                rejection.to_string(),
            )
        })
    }

    /// What the rules are asked; `None` if nothing limits the original request.
    pub(crate) fn request<'a>(&'a self, identity: &'a Identity<'_>) -> Option<Request<'a>> {
        identity.request(self.domain.as_bytes())
    }

    /// The response to a decision on the request with this head. Without an answer, nothing limits
    /// it.
    pub(crate) fn respond(&self, answer: Option<&Answer>, head: &Parts) -> Response {
        let mut allowed = Response::new(Body::empty());
        let Some(answer) = answer else {
            return allowed;
        };
        let now: Duration = self.clock.on(Timeline::Utc).since(Moment::ZERO).into();
        // Not the original method: a denial of a POST can have the form of gRPC, with the status
        // 200, which would allow the request, and that of a HEAD has no body.
        let method = &Method::GET;
        match self.responder.deny(answer, now, method, &head.headers) {
            Some(denial) => denial.map(Body::from),
            None => {
                self.responder.decorate(answer, now, allowed.headers_mut());
                allowed
            }
        }
    }

    fn reject_untrusted(&self, peer: Peer) -> Failure {
        let address = peer.socket.map_or("unix".to_owned(), |ip| ip.to_string());
        if let Some(withheld) = self.untrusted.allow() {
            warn!(
                peer = address,
                withheld, "{PATH} was asked by a peer that is not a trusted proxy"
            );
        }
        let detail = format!(
            "{address} is not a trusted proxy; if it is one of yours, add it to \
             `auth.identity.client_address.trusted_proxies`"
        );
        Failure::new("untrusted_proxy", StatusCode::FORBIDDEN, detail)
    }
}

/// Whether the value of an entry, or of one in its place, is from the client's address.
fn is_address(entry: &EntrySettings) -> bool {
    let other = match &entry.if_missing {
        Some(IfMissing::Use(other)) => is_address(other),
        _ => false,
    };
    let from = &entry.from;
    other
        || matches!(
            from,
            SourceSettings::ClientAddress | SourceSettings::ClientNetwork { .. }
        )
}

/// A missing header is an error of the proxy's configuration, an unreadable one is the client's.
fn unknown_original(invalid: InvalidOriginal) -> Failure {
    match invalid.flaw {
        OriginalFlaw::Unreadable => {
            Failure::new("not_identified", StatusCode::FORBIDDEN, invalid.to_string())
        }
        _ => Failure::bad_request(invalid.to_string()),
    }
}

/// The response without `auth` in the settings.
pub(crate) fn not_configured() -> Failure {
    let detail = format!("{PATH} needs `auth` in the settings; docs/forward-auth.md describes it");
    Failure {
        kind: "not_found",
        problem: Problem::new(StatusCode::NOT_FOUND, detail),
    }
}
