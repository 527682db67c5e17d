//! Middleware for `tower`, and so for axum, tonic and hyper (feature `tower`).
//!
//! A [`RateLimitLayer`] decides on each request before the service sees it. An allowed request goes
//! on, and its response gets the headers of `RateLimit`; a denied one is answered with 429 and a
//! problem document, or `RESOURCE_EXHAUSTED` if it is one of gRPC.
//!
//! ```
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use axum::extract::ConnectInfo;
//! use axum::routing::get;
//! use tollgate::tower::{ClientAddress, Extensions, RateLimitLayer};
//! use tollgate::{Limit, Limiter};
//!
//! let limiter = Arc::new(Limiter::new(Limit::per_second(10).burst(20)));
//! let peer = |extensions: &Extensions| {
//!     let info = extensions.get::<ConnectInfo<SocketAddr>>()?;
//!     Some(info.0.ip().into())
//! };
//! let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(layer);
//! // `into_make_service_with_connect_info::<SocketAddr>` is what adds `ConnectInfo`.
//! ```
//!
//! # Which limits
//!
//! | constructor | limits | who is asking |
//! |---|---|---|
//! | [`RateLimitLayer::by_client_address`] | one limit, or several | the client's address |
//! | [`RateLimitLayer::by_key`] | one limit, or several | a function of your own |
//! | `RateLimitLayer::by_rules` (feature `rules`) | a rules file | the descriptors of `identity` |
//!
//! One limit is a [`Limiter`](crate::Limiter), several on the same key are
//! [`Limits`](crate::Limits): a request is charged to all of them or to none. Each constructor
//! takes limits in memory, or over Redis (feature `redis`) for a service of several processes. A client's key over Redis is its network as text: `192.0.2.7` or `2001:db8::/64`.
//!
//! # The peer's address
//!
//! A service does not know its socket. The server that accepts connections puts the address into
//! the extensions of requests, and a function says where it is:
//!
//! | server | extension |
//! |---|---|
//! | axum | `ConnectInfo<SocketAddr>`, with `into_make_service_with_connect_info` |
//! | tonic | `TcpConnectInfo` of `tonic::transport::server` |
//! | hyper | any type: add a [`Peer`] before the service is called |
//!
//! A request without it is answered with 500 and a text that says so (gRPC: `INTERNAL`): under a
//! limit that all such clients share, one could lock out the others. For Unix sockets, return
//! `Peer::default()`: such clients do share a limit.
//!
//! # Delays
//!
//! A leaky bucket's delay holds the request before the service sees it, never for less than the
//! delay by the limiter's clock, on tokio's timer. A request that is dropped meanwhile, because
//! its client has gone, gives its units back. With a [`Limiter`](crate::Limiter), requests go in
//! order of arrival, those behind one that is dropped move up by a turn, and at most
//! [`max_waiting`](crate::Builder::max_waiting) are held for a key: the next one is denied. With
//! [`Limits`](crate::Limits), rules, and over Redis, requests do not move up, so the turn that one
//! gives back, the last, may be another's too.
//!
//! # Over Redis
//!
//! Every request waits for its decision, for its `timeout` at most.
//! While Redis does not answer, `on_store_error` of the limit decides: `deny` is a denial whose
//! header `x-tollgate-store` says `unavailable`, `error` is 503 (gRPC: `UNAVAILABLE`). A request
//! that is dropped while Redis decides may have been charged. One that is dropped while it is held
//! gives its units back in a task; of more than 1 024 such tasks at a time, the units stay charged.
//!
//! # What it costs and does not do
//!
//! * A request is charged when it is allowed: an error of the service, a panic, or a body that is
//!   not read to its end refund nothing. It costs one unit; with rules, what the `cost` of its
//!   descriptor says.
//! * The inner service must be `Clone`, and is cloned only for requests that may be delayed: those
//!   of leaky buckets and, over Redis, all. Such a request takes nothing of the inner service while
//!   it waits: it is polled to readiness again when it is its turn.

mod body;

#[cfg(all(feature = "redis", feature = "rules"))]
mod descriptors;

mod gate;

mod joint;

mod keyed;

#[cfg(feature = "redis")]
mod over_redis;

mod response;

#[cfg(feature = "rules")]
mod ruled;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response, StatusCode};
use tollgate_http::Responder;
use tower_layer::Layer;
use tower_service::Service;

pub use body::ResponseBody;
pub use http::Extensions;
pub use keyed::{ClientLimits, KeyedLimits};
pub use response::ResponseFuture;
#[cfg(feature = "rules")]
pub use ruled::RuleLimits;
pub use tollgate_http::{
    AddressSource, BodySettings, ClientAddress, ClientAddressSettings, CorsSettings, Dialect,
    HeadersOn, InvalidSetting, InvalidSettings, Peer, Problem, ResponseSettings,
};
#[cfg(feature = "rules")]
pub use tollgate_http::{
    Classifier, DescriptorSettings, EncodedSlash, EntrySettings, IdentitySettings, IfMissing,
    PathParameters, PathSettings, SourceSettings, TrailingSlash, UserAgentPattern,
};

use gate::{Gate, Outcome};
use keyed::Keyed;
use response::Decoration;
#[cfg(feature = "rules")]
use ruled::Ruled;

/// Limits the requests to a service; the [module's documentation](self) has examples.
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

/// A service whose requests are limited; made by [`RateLimitLayer`].
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    terms: Arc<Terms>,
}

/// What is done with the requests to a service.
#[derive(Clone)]
struct Terms {
    gate: Arc<dyn Gate>,
    responder: Responder,
    /// Requests for which one of these is true meet no limit.
    exemptions: Vec<Exemption>,
}

/// Whether a request with this head meets no limit.
type Exemption = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

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
    ///     key.cloned().ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "no x-api-key"))
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

    /// One limit, or several, for each client: its address, an IPv6 address cut to its /64 unless `addresses`
    /// says otherwise. `peer` finds the [peer's address](self#the-peers-address).
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
    /// [peer's address](self#the-peers-address).
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
    /// enough. Clients choose what they send, so let them not choose this.
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
        RateLimit {
            inner,
            terms: Arc::clone(&self.terms),
        }
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").finish_non_exhaustive()
    }
}

// === impl Terms ===

impl Terms {
    fn decide(&self, head: &Parts) -> Outcome {
        match self.exemptions.iter().any(|is_exempt| is_exempt(head)) {
            true => Outcome::Unlimited,
            false => self.gate.decide(head),
        }
    }
}

/// The problem of a request whose peer is unknown: an error of this program.
fn missing_peer() -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the server does not know the client's address: no extension of the request has it",
    )
}

// === impl RateLimit ===

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    ReqBody: Send + 'static,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, ResBody, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    /// Decides on the request. One that is denied at once leaves the inner service as ready as it
    /// was.
    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (head, body) = request.into_parts();
        let terms = &self.terms;
        let decided = match terms.decide(&head) {
            Outcome::Unlimited => None,
            Outcome::Decided(decided) => Some(decided),
            Outcome::Failed(problem) => {
                return ResponseFuture::own(terms.responder.fail(
                    &problem,
                    &head.method,
                    &head.headers,
                ));
            }
            Outcome::Delayed(decided) => {
                let terms = Arc::clone(terms);
                let mut inner = self.release_inner();
                return ResponseFuture::delay(async move {
                    let decided = match decided.await {
                        Ok(decided) => decided,
                        Err(problem) => {
                            let own = terms.responder.fail(&problem, &head.method, &head.headers);
                            return Ok(own.map(ResponseBody::own));
                        }
                    };
                    if let Some(denial) = decided.denial(&terms.responder, &head) {
                        return Ok(denial.map(ResponseBody::own));
                    }
                    poll_fn(|context| inner.poll_ready(context)).await?;
                    let response = inner.call(Request::from_parts(head, body)).await?;
                    Ok(Decoration::new(terms, decided).apply(response))
                });
            }
        };
        if let Some(decided) = &decided
            && let Some(denial) = decided.denial(&terms.responder, &head)
        {
            return ResponseFuture::own(denial);
        }
        let decoration = decided.map(|decided| Decoration::new(Arc::clone(terms), decided));
        let future = self.inner.call(Request::from_parts(head, body));
        ResponseFuture::forward(future, decoration)
    }
}

impl<S: Clone> RateLimit<S> {
    /// A service for a request that has to wait. What made the inner service ready, such as a
    /// permit of a concurrency limit, is released: others need it meanwhile. The service that is
    /// returned, a clone as the one that stays, must be polled to readiness when it is its turn.
    fn release_inner(&mut self) -> S {
        let later = self.inner.clone();
        self.inner = later.clone();
        later
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
