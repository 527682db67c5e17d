//! The middleware, in front of services of axum, tonic and our own.

#![cfg(all(feature = "tower", feature = "rules"))]
#![allow(clippy::unwrap_used)]

mod axum;

mod delays;

mod failures;

mod hyper;

#[cfg(feature = "redis")]
mod over_redis;

mod several_limits;

mod stored;

mod tonic;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ::axum::body::Body;
use ::axum::extract::ConnectInfo;
use ::axum::response::Response;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use tollgate::tower::{Extensions, Peer};
use tollgate::{Limit, Limiter, TokioClock};

/// The peer, as axum knows it.
fn peer(extensions: &Extensions) -> Option<Peer> {
    let info = extensions.get::<ConnectInfo<SocketAddr>>()?;
    Some(info.0.ip().into())
}

/// A request from this address, as axum passes it on.
fn request(from: &str) -> Request<Body> {
    let address = SocketAddr::new(from.parse::<IpAddr>().unwrap(), 1234);
    let request = Request::get("/").extension(ConnectInfo(address));
    request.body(Body::empty()).unwrap()
}

fn limiter(limit: Limit) -> Arc<Limiter<TokioClock>> {
    let builder = Limiter::builder(limit).name("per client").max_keys(100);
    Arc::new(builder.clock(TokioClock::new()).build())
}

/// The status, headers and body of a response.
async fn read(response: Response) -> (StatusCode, HeaderMap, String) {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    (head.status, head.headers, text)
}
