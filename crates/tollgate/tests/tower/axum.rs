//! In front of routers of axum.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderMap, Method, Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::tower::{
    AddressSource, Classifier, ClientAddress, ClientAddressSettings, IdentitySettings, Problem,
    RateLimitLayer, ResponseSettings,
};
use tollgate::{
    Limit, Limiter, ManualClock, Memory, OnUnknownDomain, RuleLimiter, Source, TokioClock,
};
use tower::ServiceExt;

use crate::{limiter, peer, read, request};

const RULES: &str = "
domain: shop
descriptors:
  - key: remote_address
    rate_limit: {name: per-address, window: 1m, requests_per_unit: 2}
  - key: user
    rate_limit: {name: per-user, window: 1m, requests_per_unit: 1}
";

fn app(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(async || "hello")).layer(layer)
}

async fn status(app: &Router, request: Request<Body>) -> StatusCode {
    app.clone().oneshot(request).await.unwrap().status()
}

#[tokio::test(start_paused = true)]
async fn a_client_has_its_limit_and_its_headers() {
    let limiter = limiter(Limit::per_minute(2));
    let app = app(RateLimitLayer::by_client_address(
        limiter,
        ClientAddress::default(),
        peer,
    ));
    let first = app.clone().oneshot(request("192.0.2.7")).await.unwrap();
    let (status, headers, body) = read(first).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "hello"));
    assert_eq!(headers["ratelimit"], "\"per client\";r=1;t=30");
    assert_eq!(headers["ratelimit-policy"], "\"per client\";q=2;w=60");
    app.clone().oneshot(request("192.0.2.7")).await.unwrap();
    let third = app.clone().oneshot(request("192.0.2.7")).await.unwrap();
    let (status, headers, body) = read(third).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(headers[RETRY_AFTER], "30");
    assert!(
        body.contains("limit \\\"per client\\\" is exceeded"),
        "{body}"
    );
    let other = app.oneshot(request("192.0.2.8")).await.unwrap();
    assert_eq!(other.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_address_is_that_of_the_socket_which_axum_accepted() {
    let limiter = limiter(Limit::per_hour(1));
    let app = app(RateLimitLayer::by_client_address(
        limiter,
        ClientAddress::default(),
        peer,
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    for expected in ["HTTP/1.1 200 OK", "HTTP/1.1 429 Too Many Requests"] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let text = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        client.write_all(text).await.unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert_eq!(response.lines().next(), Some(expected), "{response}");
    }
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_peer_is_no_client() {
    let limiter = limiter(Limit::per_minute(1));
    let by_address =
        RateLimitLayer::by_client_address(Arc::clone(&limiter), ClientAddress::default(), peer);
    let rules = Arc::new(RuleLimiter::from_yaml(RULES).unwrap());
    let classifier = Classifier::new(&IdentitySettings::default()).unwrap();
    let by_rules = RateLimitLayer::by_rules(rules, "shop", classifier, peer);
    for app in [app(by_address), app(by_rules)] {
        for _ in 0..3 {
            let response = app
                .clone()
                .oneshot(Request::new(Body::empty()))
                .await
                .unwrap();
            let (status, _, body) = read(response).await;
            assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
            assert!(
                body.contains("does not know the client's address"),
                "{body}"
            );
        }
        assert_eq!(status(&app, request("192.0.2.7")).await, StatusCode::OK);
    }
    assert_eq!(limiter.stats().live_keys, 1);
}

#[tokio::test(start_paused = true)]
async fn only_trusted_proxies_name_the_client() {
    let settings = ClientAddressSettings {
        source: AddressSource::XForwardedFor,
        trusted_proxies: vec!["10.0.0.0/8".to_owned()],
        ..ClientAddressSettings::default()
    };
    let addresses = ClientAddress::new(&settings).unwrap();
    let limiter = limiter(Limit::per_hour(1));
    let app = app(RateLimitLayer::by_client_address(limiter, addresses, peer));
    let table = [
        ("10.0.0.1", "6.6.6.6, 192.0.2.7", StatusCode::OK),
        ("10.0.0.2", "192.0.2.7", StatusCode::TOO_MANY_REQUESTS),
        // Not readable: the proxy is the client, whatever the text is.
        ("10.0.0.1", "unknown", StatusCode::OK),
        ("10.0.0.1", "198.051.100.007", StatusCode::TOO_MANY_REQUESTS),
        // Not a proxy of ours: what it says has no effect.
        ("203.0.113.5", "192.0.2.99", StatusCode::OK),
        ("203.0.113.5", "192.0.2.98", StatusCode::TOO_MANY_REQUESTS),
    ];
    for (from, line, expected) in table {
        let mut request = request(from);
        let headers = request.headers_mut();
        headers.insert("x-forwarded-for", line.parse().unwrap());
        assert_eq!(status(&app, request).await, expected, "{from} {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_chooses_keys_and_answers_requests_without_one() {
    let limiter = limiter(Limit::per_hour(1));
    let app = app(RateLimitLayer::by_key(limiter, |head: &Parts| {
        let key = head.headers.get("x-api-key").cloned();
        key.ok_or_else(|| Problem::new(StatusCode::FORBIDDEN, "no x-api-key"))
    }));
    let with = |key: &str| {
        let request = Request::get("/").header("x-api-key", key);
        request.body(Body::empty()).unwrap()
    };
    assert_eq!(status(&app, with("a")).await, StatusCode::OK);
    assert_eq!(status(&app, with("b")).await, StatusCode::OK);
    assert_eq!(status(&app, with("a")).await, StatusCode::TOO_MANY_REQUESTS);
    let none = Request::new(Body::empty());
    assert_eq!(status(&app, none).await, StatusCode::FORBIDDEN);
}

/// Descriptors of the client's address and, if it has one, its user.
fn by_rules(domain: &str, if_missing: &str) -> Router {
    let clock = ManualClock::default();
    let store = Memory::builder().max_keys(100).clock(clock).build();
    let rules = RuleLimiter::from_sources(&[Source::new("rules", RULES)], store).unwrap();
    let rules = Arc::new(rules.on_unknown_domain(OnUnknownDomain::Error));
    let identity: IdentitySettings = serde_json::from_value(serde_json::json!({
        "descriptors": [
            {"entries": [{"key": "remote_address", "from": "client_address"}]},
            {"entries": [{"key": "user", "from": {"header": "x-user"}, "if_missing": if_missing}]},
        ],
    }))
    .unwrap();
    let classifier = Classifier::new(&identity).unwrap();
    app(RateLimitLayer::by_rules(rules, domain, classifier, peer))
}

fn from_user(user: &str, from: &str) -> Request<Body> {
    let mut request = request(from);
    request
        .headers_mut()
        .insert("x-user", user.parse().unwrap());
    request
}

#[tokio::test]
async fn rules_limit_what_identity_describes_all_or_nothing() {
    let app = by_rules("shop", "skip");
    assert_eq!(
        status(&app, from_user("ann", "192.0.2.7")).await,
        StatusCode::OK
    );
    let denied = app
        .clone()
        .oneshot(from_user("ann", "192.0.2.8"))
        .await
        .unwrap();
    let (denied_status, headers, body) = read(denied).await;
    assert_eq!(denied_status, StatusCode::TOO_MANY_REQUESTS);
    assert!(
        headers["ratelimit"]
            .to_str()
            .unwrap()
            .starts_with("\"per-user\";r=0")
    );
    assert!(body.contains("per-user"), "{body}");
    for expected in [
        StatusCode::OK,
        StatusCode::OK,
        StatusCode::TOO_MANY_REQUESTS,
    ] {
        assert_eq!(
            status(&app, request("192.0.2.8")).await,
            expected,
            "not charged above"
        );
    }
}

#[tokio::test]
async fn what_has_no_decision_is_answered_with_the_reason() {
    let app = by_rules("shop", "deny");
    assert_eq!(
        status(&app, request("192.0.2.7")).await,
        StatusCode::FORBIDDEN
    );
    let mut twice = from_user("ann", "192.0.2.7");
    twice.headers_mut().append("x-user", "bob".parse().unwrap());
    assert_eq!(status(&app, twice).await, StatusCode::BAD_REQUEST);
    let unknown = by_rules("shpo", "skip")
        .oneshot(request("192.0.2.7"))
        .await
        .unwrap();
    let (status, _, body) = read(unknown).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(body.contains("shpo"), "{body}");
}

#[tokio::test]
async fn responses_are_as_set() {
    let settings: ResponseSettings = serde_json::from_value(serde_json::json!({
        "status": 503, "headers": ["x_ratelimit_seconds"], "headers_on": "denied",
    }))
    .unwrap();
    let limiter = Limiter::builder(Limit::per_minute(1))
        .clock(ManualClock::default())
        .build();
    let layer = RateLimitLayer::by_client_address(limiter.into(), ClientAddress::default(), peer);
    let app = app(layer.responses(&settings).unwrap());
    let allowed = app.clone().oneshot(request("192.0.2.7")).await.unwrap();
    assert!(!allowed.headers().contains_key("x-ratelimit-limit"));
    let denied = app.oneshot(request("192.0.2.7")).await.unwrap();
    assert_eq!(denied.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(denied.headers()["x-ratelimit-reset"], "60");
}

/// The inner limit of two denies, and the headers of every dialect say so.
#[tokio::test(start_paused = true)]
async fn two_layers_do_not_contradict_each_other() {
    let layer = |name: &str, limit, headers: &str| {
        let builder = Limiter::builder(limit).name(name).max_keys(100);
        let limiter = builder.clock(TokioClock::new()).build().into();
        let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
        let settings = serde_json::from_value(serde_json::json!({"headers": [headers]}));
        layer.responses(&settings.unwrap()).unwrap()
    };
    let two = |headers| {
        let inner = app(layer("inner", Limit::per_hour(1), headers));
        inner.layer(layer("outer", Limit::per_hour(100), headers))
    };
    let texts = |headers: &HeaderMap, name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    };
    let app = two("ratelimit");
    for (expected, waits) in [(StatusCode::OK, 36), (StatusCode::TOO_MANY_REQUESTS, 72)] {
        let response = app.clone().oneshot(request("192.0.2.7")).await.unwrap();
        let (status, headers, _) = read(response).await;
        assert_eq!(status, expected);
        let remaining = 100 - waits / 36;
        let limits = [
            "\"inner\";r=0;t=3600".to_owned(),
            format!("\"outer\";r={remaining};t={waits}"),
        ];
        assert_eq!(texts(&headers, "ratelimit"), limits);
        let policies = ["\"inner\";q=1;w=3600", "\"outer\";q=100;w=3600"];
        assert_eq!(texts(&headers, "ratelimit-policy"), policies);
    }
    let app = two("x_ratelimit_seconds");
    for expected in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        let response = app.clone().oneshot(request("192.0.2.7")).await.unwrap();
        let (status, headers, _) = read(response).await;
        assert_eq!(status, expected);
        assert_eq!(texts(&headers, "x-ratelimit-limit"), ["1"]);
        assert_eq!(texts(&headers, "x-ratelimit-remaining"), ["0"]);
        assert_eq!(texts(&headers, "x-ratelimit-reset"), ["3600"]);
    }
}

/// A cache that keeps responses with status 200 would serve an empty one to all clients.
#[tokio::test(start_paused = true)]
async fn only_a_post_is_denied_as_grpc_is_and_no_denial_may_be_stored() {
    let limiter = limiter(Limit::per_hour(1));
    let app = app(RateLimitLayer::by_client_address(
        limiter,
        ClientAddress::default(),
        peer,
    ));
    assert_eq!(status(&app, request("192.0.2.7")).await, StatusCode::OK);
    // Without a peer, the request has no decision.
    for (peer, http, code) in [(Some("192.0.2.7"), 429, "8"), (None, 500, "13")] {
        for method in [Method::GET, Method::HEAD, Method::POST] {
            let mut asked = peer.map_or_else(|| Request::new(Body::empty()), request);
            *asked.method_mut() = method.clone();
            let headers = asked.headers_mut();
            headers.insert("content-type", "application/grpc".parse().unwrap());
            let response = app.clone().oneshot(asked).await.unwrap();
            let (status, headers, _) = read(response).await;
            let is_grpc = method == Method::POST;
            assert_eq!(
                status.as_u16(),
                if is_grpc { 200 } else { http },
                "{method}"
            );
            assert_eq!(headers["cache-control"], "no-store", "{method}");
            let grpc_status = headers
                .get("grpc-status")
                .map(|value| value.to_str().unwrap());
            assert_eq!(grpc_status, is_grpc.then_some(code), "{method}");
        }
    }
}

fn preflight() -> Request<Body> {
    let mut preflight = request("192.0.2.7");
    *preflight.method_mut() = Method::OPTIONS;
    let headers = preflight.headers_mut();
    headers.insert("origin", "https://shop.example".parse().unwrap());
    headers.insert("access-control-request-method", "PUT".parse().unwrap());
    preflight
}

/// Health checks, which come without a peer too, and preflights.
#[tokio::test(start_paused = true)]
async fn exempt_requests_meet_no_limit() {
    let limiter = limiter(Limit::per_hour(1));
    let addresses = ClientAddress::default();
    let plain = RateLimitLayer::by_client_address(Arc::clone(&limiter), addresses, peer);
    let layer = plain
        .clone()
        .exempt(|head| head.uri.path() == "/healthz")
        .exempt(|head| head.method == Method::OPTIONS);
    let routes = || {
        let both = get(async || "hello").options(async || "yes");
        Router::new()
            .route("/", both)
            .route("/healthz", get(async || "well"))
    };
    let exempting = routes().layer(layer);
    let health = || Request::get("/healthz").body(Body::empty()).unwrap();
    for _ in 0..3 {
        for asked in [health(), preflight()] {
            let response = exempting.clone().oneshot(asked).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            assert!(!response.headers().contains_key("ratelimit"));
        }
    }
    assert_eq!(limiter.stats().live_keys, 0);
    for expected in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(status(&exempting, request("192.0.2.7")).await, expected);
    }
    // The layer that this one was made of exempts nothing.
    let preflight = status(&routes().layer(plain), preflight()).await;
    assert_eq!(preflight, StatusCode::TOO_MANY_REQUESTS);
}

/// As `docs/middleware.md` says: a layer outside this one may answer preflights before they count.
#[tokio::test(start_paused = true)]
async fn preflights_count_unless_a_layer_outside_answers_them() {
    let by_address = || {
        let limiter = limiter(Limit::per_minute(2));
        RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer)
    };
    let inside = Router::new()
        .route("/", get(async || "hello").options(async || "yes"))
        .layer(by_address());
    assert_eq!(status(&inside, preflight()).await, StatusCode::OK);
    assert_eq!(status(&inside, request("192.0.2.7")).await, StatusCode::OK);
    let denied = status(&inside, preflight()).await;
    assert_eq!(denied, StatusCode::TOO_MANY_REQUESTS);

    let answer = async |request: Request<Body>, next: Next| match *request.method() {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => next.run(request).await,
    };
    let outside = app(by_address()).layer(from_fn(answer));
    for _ in 0..5 {
        let answered = status(&outside, preflight()).await;
        assert_eq!(answered, StatusCode::NO_CONTENT);
    }
    for expected in [200, 200, 429] {
        assert_eq!(status(&outside, request("192.0.2.7")).await, expected);
    }
}
