//! Inner services that fail, panic, or insist on the rules of `tower`.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tokio::time::timeout;
use tollgate::tower::{ClientAddress, Problem, RateLimitLayer};
use tollgate::{Algorithm, Limit, Limiter, ManualClock, Span};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{limiter, peer, read, request};

const CLIENT: &str = "192.0.2.7";

fn layer(limit: Limit) -> RateLimitLayer {
    RateLimitLayer::by_client_address(limiter(limit), ClientAddress::default(), peer)
}

/// A service that may be called once after each time that it was ready, as `tower` has it.
struct Strict {
    is_ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Strict {
        Strict { is_ready: false }
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<Body>) -> Self::Future {
        assert!(
            std::mem::take(&mut self.is_ready),
            "called before it was ready"
        );
        ready(Ok(Response::new(Body::from("strict"))))
    }
}

#[tokio::test(start_paused = true)]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let leaky = Limit::per_second(2)
        .counted_by(Algorithm::LeakyBucket)
        .burst(3);
    for limit in [Limit::per_minute(3), leaky] {
        let mut service = layer(limit).layer(Strict { is_ready: false });
        let mut responses = Vec::new();
        for _ in 0..4 {
            let service = service.ready().await.unwrap();
            responses.push(tokio::spawn(service.call(request(CLIENT))));
            tokio::task::yield_now().await;
        }
        let mut statuses = Vec::new();
        for response in responses {
            statuses.push(response.await.unwrap().unwrap().status().as_u16());
        }
        assert_eq!(statuses, [200, 200, 200, 429]);
    }
}

/// A connection that is idle after the layer has answered it keeps no permit from the others.
#[tokio::test(start_paused = true)]
async fn a_request_that_the_layer_answers_keeps_no_permit_of_the_service() {
    let problem = |_: &Parts| Err::<&str, _>(Problem::new(StatusCode::FORBIDDEN, "no key"));
    let no_key = RateLimitLayer::by_key(limiter(Limit::per_minute(1)), problem);
    for (layer, status) in [
        (layer(Limit::per_minute(0)), StatusCode::TOO_MANY_REQUESTS),
        (no_key, StatusCode::FORBIDDEN),
    ] {
        let answer = service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::new(Body::from("hello")))
        });
        let mut first = layer.layer(ConcurrencyLimit::new(answer, 1));
        let mut second = first.clone();
        let answered = first.ready().await.unwrap().call(request(CLIENT)).await;
        assert_eq!(answered.unwrap().status(), status);
        let ready = timeout(Duration::from_secs(1), second.ready()).await;
        assert!(ready.is_ok(), "{status} keeps the permit");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_service_harms_no_other_request() {
    let leaky = Limit::per_second(2)
        .counted_by(Algorithm::LeakyBucket)
        .burst(3);
    for limit in [Limit::per_minute(3), leaky] {
        let handler = async |request: Request<Body>| match request.headers().contains_key("panic") {
            true => panic!("as asked"),
            false => "hello",
        };
        let app = Router::new().route("/", get(handler)).layer(layer(limit));
        let mut bad = request(CLIENT);
        bad.headers_mut().insert("panic", "1".parse().unwrap());
        let panicked = tokio::spawn(app.clone().oneshot(bad)).await;
        assert!(panicked.unwrap_err().is_panic());
        let next = app.oneshot(request(CLIENT)).await.unwrap();
        assert_eq!(next.status(), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_service_and_of_its_body_are_passed_on() {
    let failing = service_fn(async |_: Request<Body>| Err::<Response<Body>, _>("no service"));
    let response = layer(Limit::per_minute(3))
        .layer(failing)
        .oneshot(request(CLIENT))
        .await;
    assert_eq!(response.unwrap_err(), "no service");
    let broken = service_fn(async |_: Request<Body>| {
        let body = http_body_util::StreamBody::new(tokio_stream::iter([
            Ok(http_body::Frame::data(bytes::Bytes::from("half"))),
            Err("cut"),
        ]));
        Ok::<_, Infallible>(Response::new(body))
    });
    let response = layer(Limit::per_minute(3))
        .layer(broken)
        .oneshot(request(CLIENT))
        .await;
    let mut body = response.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "half");
    assert_eq!(body.frame().await.unwrap().unwrap_err(), "cut");
}

/// Logs of a large limit fill the store: no limit is exceeded, and the response says so.
#[tokio::test(start_paused = true)]
async fn a_store_without_room_is_no_limit_that_is_exceeded() {
    let log = Limit::per_hour(100_000).counted_by(Algorithm::SlidingLog);
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::DAY);
    let builder = Limiter::builder(log).name("per client").max_keys(1_000);
    let builder = builder.max_bytes(30_000).clock(Arc::clone(&clock));
    let limiter = Arc::new(builder.build());
    // No two units at one moment, so that each needs room of its own.
    let is_full = (0..100_000).any(|_| {
        clock.advance(Span::from_nanos(7_919));
        limiter.try_check("ann", 1).is_err()
    });
    assert!(is_full, "100 000 stamps do not fit in 30 kB");
    let layer = RateLimitLayer::by_key(Arc::clone(&limiter), |_: &Parts| Ok("ann"));
    let app = Router::new().route("/", get(async || "hello")).layer(layer);
    let (status, headers, body) = read(app.oneshot(request(CLIENT)).await.unwrap()).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(headers["x-tollgate-store"], "unavailable");
    assert_eq!(headers["retry-after"], "1");
    assert!(
        !headers.contains_key("ratelimit"),
        "nobody knows: {headers:?}"
    );
    assert!(body.contains("store is unavailable"), "{body}");
    assert!(!body.contains("per client"), "{body}");
    assert_eq!(limiter.failures(), 1);
}

/// A layer that answers requests itself with an empty body, as those of `tower-http` for timeouts
/// and CORS do, and demands the same of the body.
fn answer_with_nothing<S, B>(_inside: &S) -> Response<B>
where
    S: Service<Request<Body>, Response = Response<B>>,
    B: Default,
{
    Response::default()
}

#[tokio::test(start_paused = true)]
async fn layers_outside_this_one_make_empty_bodies() {
    use http_body::Body as _;
    let service = service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::from("hello")))
    });
    let response = answer_with_nothing(&layer(Limit::per_minute(1)).layer(service));
    assert!(response.body().is_end_stream());
    assert_eq!(response.body().size_hint().exact(), Some(0));
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert!(bytes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_length_that_is_known_stays_known() {
    use http_body::Body as _;
    let service = service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::from("hello")))
    });
    let limited = layer(Limit::per_minute(1)).layer(service);
    let mut sizes = Vec::new();
    for _ in 0..2 {
        let response = limited.clone().oneshot(request(CLIENT)).await.unwrap();
        sizes.push(response.body().size_hint().exact());
    }
    assert_eq!(sizes[0], Some(5));
    assert!(sizes[1].is_some_and(|bytes| bytes > 0));
}
