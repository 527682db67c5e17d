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
//! takes limits in memory, or over Redis (feature `redis`) for a service of several processes. A
//! client's key over Redis is its network as text: `192.0.2.7` or `2001:db8::/64`.
//!
//! [`RateLimitLayer::exempt`] leaves requests out, such as health checks. If there are several
//! layers, give each limiter its own name ([`Builder::name`](crate::Builder::name)): responses name
//! the limits of all of them.
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
//! its client has gone, gives its units back. They stay charged if the process has replaced the
//! limit since it was allowed, but for those of [`Limits`](crate::Limits) and rules in memory,
//! which know whether they still count.
//!
//! Over HTTP/1.1, hyper notices that a client has gone only if the whole body of its request is in
//! hyper's buffer. A held request with a longer body, or one of which a part is missing, keeps its
//! turn and takes it: nothing reads the body before the service does.
//!
//! With a [`Limiter`](crate::Limiter), requests go in order of arrival, those behind one that is
//! dropped move up by a turn (but for the exceptions of
//! [`until_ready`](crate::Limiter::until_ready)), and at most
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
//! * The inner service must be `Clone`, its future `Send`, and the data of its responses' bodies
//!   [`Bytes`](bytes::Bytes). It is cloned for requests that are not passed on at once: those that
//!   are denied, and those that may be delayed, of leaky buckets and, over Redis, all. They keep
//!   nothing of the inner service, such as a permit of a concurrency limit. It is polled to
//!   readiness again when it is the turn of a delayed one.
//! * The layer is ready when the inner service is: while that is busy, a request over the limit
//!   waits like any other before it gets 429. tower's `LoadShed`, between this layer and a
//!   `ConcurrencyLimit`, is always ready: it turns a request that would wait into an error.

mod body;

mod gate;

mod joint;

mod keyed;

mod layer;

#[cfg(feature = "redis")]
mod over_redis;

mod response;

#[cfg(feature = "rules")]
mod ruled;

mod service;

mod terms;

pub use body::ResponseBody;
pub use http::Extensions;
pub use keyed::{ClientLimits, KeyedLimits};
pub use layer::RateLimitLayer;
pub use response::ResponseFuture;
#[cfg(feature = "rules")]
pub use ruled::RuleLimits;
pub use service::RateLimit;
pub use tollgate_http::{
    AddressSource, BodySettings, ClientAddress, ClientAddressSettings, CorsSettings, Dialect,
    HeadersOn, InvalidSetting, InvalidSettings, Peer, Problem, ResponseSettings,
};
#[cfg(feature = "rules")]
pub use tollgate_http::{
    Classifier, CostSettings, CostSource, CountWhenSettings, DescriptorSettings, EncodedSlash,
    EntrySettings, IdentitySettings, IfMissing, PathParameters, PathSettings, SourceSettings,
    StatusRange, TrailingSlash, UserAgentPattern,
};
