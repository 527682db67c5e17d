//! Several limits on one key: all or nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::request::Parts;
use http::{Request, StatusCode};
use tokio::time::Instant;
use tollgate::tower::{ClientAddress, Problem, RateLimitLayer};
use tollgate::{Algorithm, Limit, Limits, TokioClock};
use tower::ServiceExt;

use crate::{peer, read, request};

const CLIENT: &str = "192.0.2.7";

fn limits(second: Limit, hour: Limit) -> Arc<Limits<TokioClock>> {
    let builder = Limits::builder().max_keys(100).clock(TokioClock::new());
    Arc::new(builder.limit("second", second).limit("hour", hour).build())
}

pub(crate) fn app(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(async || "hello")).layer(layer)
}

pub(crate) fn path(head: &Parts) -> Result<String, Problem> {
    Ok(head.uri.path().to_owned())
}

/// A request, and what its response says: the status, the limits, and the text.
pub(crate) async fn ask(app: &Router, request: Request<Body>) -> (StatusCode, [String; 2], String) {
    let response = app.clone().oneshot(request).await.unwrap();
    let (status, headers, body) = read(response).await;
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    (status, [text("ratelimit"), text("ratelimit-policy")], body)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_one_limit_denies_is_charged_to_none() {
    let limits = limits(Limit::per_second(10), Limit::per_hour(2));
    let app = app(RateLimitLayer::by_key(Arc::clone(&limits), path));
    for (second, hour) in [(9, "r=1;t=1800"), (8, "r=0;t=3600")] {
        let (status, [left, policies], _) = ask(&app, request(CLIENT)).await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            left.starts_with(&format!("\"second\";r={second};t=1")),
            "{left}"
        );
        assert!(left.ends_with(&format!("\"hour\";{hour}")), "{left}");
        assert_eq!(policies, r#""second";q=10;w=1, "hour";q=2;w=3600"#);
    }
    for _ in 0..3 {
        let (status, [left, policies], body) = ask(&app, request(CLIENT)).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert!(
            left.starts_with(r#""hour";r=0;t=1800, "second";r=8;t="#),
            "{left}"
        );
        assert_eq!(policies, r#""hour";q=2;w=3600, "second";q=10;w=1"#);
        assert!(body.contains("limit \\\"hour\\\" is exceeded"), "{body}");
    }
    let left = |name| limits.limiter(name).unwrap().peek("/", 1).remaining();
    assert_eq!((left("second"), left("hour")), (8, 0));
}

#[tokio::test(start_paused = true)]
async fn each_client_has_all_limits() {
    let limits = limits(Limit::per_second(1), Limit::per_hour(2));
    let app = app(RateLimitLayer::by_client_address(
        limits,
        ClientAddress::default(),
        peer,
    ));
    for client in [CLIENT, "192.0.2.8"] {
        assert_eq!(ask(&app, request(client)).await.0, StatusCode::OK);
        let (status, [left, _], _) = ask(&app, request(client)).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert!(
            left.starts_with(r#""second";r=0;t=1, "hour";r=1"#),
            "{left}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_held_until_its_turn_and_refunds_all_limits_if_it_is_dropped() {
    let leaky = Limit::per_second(1)
        .counted_by(Algorithm::LeakyBucket)
        .burst(3);
    let limits = limits(leaky, Limit::per_hour(100));
    let app = app(RateLimitLayer::by_key(Arc::clone(&limits), path));
    let left = || {
        let decisions = ["second", "hour"].map(|name| limits.limiter(name).unwrap().peek("/", 1));
        decisions.map(|decision| decision.remaining())
    };
    let began = Instant::now();
    assert_eq!(ask(&app, request(CLIENT)).await.0, StatusCode::OK);
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(tokio::spawn(app.clone().oneshot(request(CLIENT))));
        tokio::task::yield_now().await;
    }
    assert_eq!(left(), [0, 97]);
    let (status, [denied, _], _) = ask(&app, request(CLIENT)).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(denied.starts_with(r#""second";r=0;t=1"#), "{denied}");
    let last = held.pop().unwrap();
    last.abort();
    assert!(last.await.unwrap_err().is_cancelled());
    assert_eq!(left(), [1, 98]);
    let response = held.pop().unwrap().await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(!response.headers().contains_key("x-tollgate-delay-ms"));
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}
