//! The layer: which limits, and for which requests.

use std::fmt;
use std::sync::Arc;

use http::Extensions;
use http::request::Parts;
#[cfg(feature = "rules")]
use tollgate_http::Classifier;
use tollgate_http::{ClientAddress, InvalidSettings, Peer, Problem, Responder, ResponseSettings};
use tower_layer::Layer;

use super::gate::{Gate, missing_peer};
use super::keyed::{ClientLimits, Keyed, KeyedLimits};
#[cfg(feature = "rules")]
use super::ruled::{RuleLimits, Ruled};
use super::service::RateLimit;
use super::terms::Terms;

/// Limits the requests to a service; the [module's documentation](super) has examples.
///
/// It decides once the inner service is ready, so a request over the limit waits for that before
/// it is denied; a `LoadShed` inside of this layer is always ready.
///
/// Its type does not depend on the limits, so a program can keep it in a struct, and choose between
/// limits in memory and over Redis when it starts:
///
/// ```
/// # #[cfg(feature = "redis")]
/// # {
/// use std::sync::Arc;
///
/// use tollgate::redis::Redis;
/// use tollgate::tower::{ClientAddress, Extensions, Peer, RateLimitLayer};
/// use tollgate::{Limit, Limiter};
///
/// const LIMIT: Limit = Limit::per_minute(100);
///
/// /// Redis in production, memory on a developer's machine.
/// fn layer(redis: Option<&Redis>) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
///     let peer = |extensions: &Extensions| extensions.get::<Peer>().copied();
///     let addresses = ClientAddress::default();
///     Ok(match redis {
///         Some(redis) => {
///             let limiter = Arc::new(redis.limiter("per client", LIMIT)?);
///             RateLimitLayer::by_client_address(limiter, addresses, peer)
///         }
///         None => {
///             let limiter = Arc::new(Limiter::builder(LIMIT).name("per client").build());
///             RateLimitLayer::by_client_address(limiter, addresses, peer)
///         }
///     })
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct RateLimitLayer {
    terms: Arc<Terms>,
}

// === impl RateLimitLayer ===

impl RateLimitLayer {
    /// One limit, or several, for each key that `classify` finds in the head of a request.
    ///
    /// A request for which it returns a [`Problem`] is answered with that, and charged nothing.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use http::StatusCode;
    /// use http::request::Parts;
    /// use tollgate::tower::{Problem, RateLimitLayer};
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Arc::new(Limiter::new(Limit::per_minute(100)));
    /// let layer = RateLimitLayer::by_key(limiter, |head: &Parts| {
    ///     let key = head.headers.get("x-api-key");
    ///     key.cloned().ok_or_else(|| Problem::new(StatusCode::FORBIDDEN, "no x-api-key"))
    /// });
    /// ```
    pub fn by_key<L, K, F>(limiter: Arc<L>, classify: F) -> RateLimitLayer
    where
        L: KeyedLimits<K>,
        F: Fn(&Parts) -> Result<K, Problem> + Send + Sync + 'static,
    {
        let key_of = move |limiter: &L, head: &Parts| classify(head).map(|key| limiter.key(&key));
        RateLimitLayer::of(Keyed::new(limiter, key_of))
    }

    /// One limit, or several, for each client: its address, an IPv6 address cut to its /64 unless
    /// `addresses` says otherwise. `peer` finds the [peer's address](super#the-peers-address).
    pub fn by_client_address<L, P>(
        limiter: Arc<L>,
        addresses: ClientAddress,
        peer: P,
    ) -> RateLimitLayer
    where
        L: ClientLimits,
        P: Fn(&Extensions) -> Option<Peer> + Send + Sync + 'static,
    {
        let key_of = move |limiter: &L, head: &Parts| {
            let peer = peer(&head.extensions).ok_or_else(missing_peer)?;
            let client = addresses.resolve(peer, &head.headers);
            Ok(limiter.key_of_client(&addresses, client.address))
        };
        RateLimitLayer::of(Keyed::new(limiter, key_of))
    }

    /// The limits that a rules file has for `domain`. `classifier` makes the descriptors of a
    /// request, as its section `identity` says, and `peer` finds the
    /// [peer's address](super#the-peers-address).
    ///
    /// A request that the classifier rejects is answered with 400 or 403. Without an answer of the
    /// store, or of rules for the domain if `RuleLimiter::on_unknown_domain` demands them, it is
    /// answered with 503 or 500.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use tollgate::RuleLimiter;
    /// use tollgate::tower::{Classifier, Extensions, IdentitySettings, Peer, RateLimitLayer};
    ///
    /// let rules = "{domain: shop, descriptors: [{key: remote_address, rate_limit: 100/minute}]}";
    /// let limiter = Arc::new(RuleLimiter::from_yaml(rules)?);
    /// let classifier = Classifier::new(&IdentitySettings::default())?;
    /// let peer = |extensions: &Extensions| extensions.get::<Peer>().copied();
    /// let layer = RateLimitLayer::by_rules(limiter, "shop", classifier, peer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "rules")]
    pub fn by_rules<L, P>(
        limiter: Arc<L>,
        domain: &str,
        classifier: Classifier,
        peer: P,
    ) -> RateLimitLayer
    where
        L: RuleLimits,
        P: Fn(&Extensions) -> Option<Peer> + Send + Sync + 'static,
    {
        RateLimitLayer::of(Ruled::new(limiter, domain, classifier, peer))
    }

    fn of(gate: impl Gate) -> RateLimitLayer {
        let terms = Terms {
            gate: Arc::new(gate),
            responder: Responder::default(),
            exemptions: Vec::new(),
        };
        RateLimitLayer {
            terms: Arc::new(terms),
        }
    }

    /// Sets the status, headers and bodies of responses.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub fn responses(self, settings: &ResponseSettings) -> Result<Self, InvalidSettings> {
        let responder = Responder::new(settings)?;
        Ok(self.with(|terms| terms.responder = responder))
    }

    /// Exempts requests from the limits: they are passed on without a decision, cost nothing, and
    /// their responses get no headers. Several functions may be added; one that returns true is
    /// enough. Clients choose paths, methods and headers, so exempt nothing that does work for
    /// them.
    ///
    /// # Example
    ///
    /// Health checks, and what browsers ask before they send a request of a script:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use http::Method;
    /// use http::header::ACCESS_CONTROL_REQUEST_METHOD;
    /// use tollgate::tower::{ClientAddress, Extensions, Peer, RateLimitLayer};
    /// use tollgate::{Limit, Limiter};
    ///
    /// let limiter = Arc::new(Limiter::new(Limit::per_minute(100)));
    /// let peer = |extensions: &Extensions| extensions.get::<Peer>().copied();
    /// let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer)
    ///     .exempt(|head| head.uri.path() == "/healthz")
    ///     .exempt(|head| {
    ///         head.method == Method::OPTIONS
    ///             && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    ///     });
    /// ```
    #[must_use]
    pub fn exempt(
        self,
        is_exempt: impl Fn(&Parts) -> bool + Send + Sync + 'static,
    ) -> RateLimitLayer {
        self.with(|terms| terms.exemptions.push(Arc::new(is_exempt)))
    }

    /// Changes the terms; clones of this layer keep theirs.
    fn with(mut self, change: impl FnOnce(&mut Terms)) -> RateLimitLayer {
        change(Arc::make_mut(&mut self.terms));
        self
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::clone(&self.terms))
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").finish_non_exhaustive()
    }
}
