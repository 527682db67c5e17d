//! Limits over Redis, in front of routers of axum: several instances, one budget.

mod replaced_limit;

use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{Request, StatusCode};
use tokio::task::JoinSet;
use tollgate::redis::{Config, OnStoreError, Redis, RuleLimiter};
use tollgate::tower::{Classifier, ClientAddress, IdentitySettings, Problem, RateLimitLayer};
use tollgate::{Algorithm, ChargeDenied, Cost, Descriptor, Entry, Limit, Span};
use tollgate_testbed as testbed;
use tower::ServiceExt;

use crate::{peer, read, request};

const CLIENT: &str = "192.0.2.7";
/// Longer than anything takes here.
const PATIENT: Duration = Duration::from_secs(60);

async fn connect(server: &testbed::Redis) -> Redis {
    connect_to(server.address()).await
}

async fn connect_to(address: String) -> Redis {
    let config = Config {
        timeout: Span::from_secs(20),
        ..Config::single(address)
    };
    let redis = Redis::builder(config).local_keys(100).open().unwrap();
    assert!(redis.until_up(PATIENT).await);
    redis
}

/// An instance whose Redis does not exist.
fn unconnected() -> Redis {
    let config = Config::single("127.0.0.1:1");
    Redis::builder(config).local_keys(100).open().unwrap()
}

fn app(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(async || "hello")).layer(layer)
}

fn by_address(limiter: tollgate::redis::Limiter) -> Router {
    let addresses = ClientAddress::default();
    app(RateLimitLayer::by_client_address(
        limiter.into(),
        addresses,
        peer,
    ))
}

async fn status(app: &Router, request: Request<Body>) -> StatusCode {
    app.clone().oneshot(request).await.unwrap().status()
}

async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let latest = tokio::time::Instant::now() + PATIENT;
    while !holds().await {
        assert!(tokio::time::Instant::now() < latest, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_allow_exactly_the_limit() {
    let server = testbed::Redis::start();
    let mut apps = Vec::new();
    for _ in 0..2 {
        let redis = connect(&server).await;
        apps.push(by_address(
            redis.limiter("clients", Limit::per_day(50)).unwrap(),
        ));
    }
    let mut requests = JoinSet::new();
    for number in 0..200 {
        let app = apps[number % 2].clone();
        requests.spawn(async move { status(&app, request(CLIENT)).await });
    }
    let statuses = requests.join_all().await;
    let with = |wanted| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!(with(StatusCode::OK), 50);
    assert_eq!(with(StatusCode::TOO_MANY_REQUESTS), 150);
    assert_eq!(status(&apps[0], request("192.0.2.8")).await, StatusCode::OK);
}

#[tokio::test]
async fn responses_are_those_of_limits_in_memory() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    let limit = Limit::per_hour(1).counted_by(Algorithm::SlidingLog);
    let app = by_address(redis.limiter("per client", limit).unwrap());
    let first = app.clone().oneshot(request(CLIENT)).await.unwrap();
    let (status, headers, body) = read(first).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "hello"));
    assert_eq!(headers["ratelimit"], "\"per client\";r=0;t=3600");
    assert_eq!(headers["ratelimit-policy"], "\"per client\";q=1;w=3600");
    let second = app.clone().oneshot(request(CLIENT)).await.unwrap();
    let (status, headers, body) = read(second).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let wait: u64 = headers[RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((3_500..=3_600).contains(&wait), "{wait}");
    assert!(
        body.contains("limit \\\"per client\\\" is exceeded"),
        "{body}"
    );
    // The key is the address: an operator can reset it.
    let limiter = redis.limiter("per client", limit).unwrap();
    limiter.reset(CLIENT).await;
    assert_eq!(limiter.peek(CLIENT, 1).await.remaining(), 1);
}

#[tokio::test]
async fn a_function_chooses_keys_of_any_bytes() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    let limiter = redis.limiter("keys", Limit::per_hour(1)).unwrap();
    let app = app(RateLimitLayer::by_key(Arc::new(limiter), |head: &Parts| {
        let key = head.headers.get("x-api-key").cloned();
        key.ok_or_else(|| Problem::new(StatusCode::FORBIDDEN, "no x-api-key"))
    }));
    let with = |key: &[u8]| {
        let request = Request::get("/").header("x-api-key", key);
        request.body(Body::empty()).unwrap()
    };
    assert_eq!(status(&app, with(b"\xff")).await, StatusCode::OK);
    assert_eq!(status(&app, with(b"\xfe")).await, StatusCode::OK);
    let again = status(&app, with(b"\xff")).await;
    assert_eq!(again, StatusCode::TOO_MANY_REQUESTS);
    let none = Request::new(Body::empty());
    assert_eq!(status(&app, none).await, StatusCode::FORBIDDEN);
}

fn rules(rate_limit: &str) -> String {
    format!("{{domain: shop, descriptors: [{{key: remote_address, rate_limit: {rate_limit}}}]}}")
}

fn by_rules(redis: &Redis, rate_limit: &str) -> Router {
    let limiter = RuleLimiter::from_yaml(redis, &rules(rate_limit)).unwrap();
    let classifier = Classifier::new(&IdentitySettings::default()).unwrap();
    app(RateLimitLayer::by_rules(
        limiter.into(),
        "shop",
        classifier,
        peer,
    ))
}

#[tokio::test]
async fn rules_are_shared() {
    let server = testbed::Redis::start();
    let rule = "{window: 1d, requests_per_unit: 3, algorithm: token_bucket}";
    let first = by_rules(&connect(&server).await, rule);
    let second = by_rules(&connect(&server).await, rule);
    for app in [&first, &second, &first] {
        assert_eq!(status(app, request(CLIENT)).await, StatusCode::OK);
    }
    let denied = status(&second, request(CLIENT)).await;
    assert_eq!(denied, StatusCode::TOO_MANY_REQUESTS);
    let unlimited = by_rules(&connect(&server).await, "{unlimited: true}");
    assert_eq!(status(&unlimited, request(CLIENT)).await, StatusCode::OK);
}

#[tokio::test]
async fn without_redis_the_limit_says_what_clients_get() {
    let redis = unconnected();
    for (choice, expected) in [
        (OnStoreError::Allow, StatusCode::OK),
        (OnStoreError::Deny, StatusCode::TOO_MANY_REQUESTS),
        (OnStoreError::Error, StatusCode::SERVICE_UNAVAILABLE),
        (OnStoreError::Local, StatusCode::OK),
    ] {
        let limiter = redis.limiter("clients", Limit::per_day(8)).unwrap();
        let of_limiter = by_address(limiter.on_store_error(choice));
        let rule = format!("{{window: 1d, requests_per_unit: 8, on_store_error: {choice}}}");
        for app in [of_limiter, by_rules(&redis, &rule)] {
            let response = app.clone().oneshot(request(CLIENT)).await.unwrap();
            assert_eq!(response.status(), expected, "{choice}");
            let says_why = response.headers().contains_key("x-tollgate-store");
            assert_eq!(says_why, choice == OnStoreError::Deny, "{choice}");
        }
    }
}

/// A second request would exceed the 5 units of the day, whichever store counts them.
#[tokio::test]
async fn the_cost_that_identity_states_is_charged_in_every_store() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    let text = rules("{window: 1d, requests_per_unit: 5, algorithm: token_bucket}");
    let identity = serde_json::json!({"descriptors": [{
        "entries": [{"key": "remote_address", "from": "client_address"}],
        "cost": {"from": {"constant": 3}},
    }]});
    let identity: IdentitySettings = serde_json::from_value(identity).unwrap();
    let classifier = || Classifier::new(&identity).unwrap();
    let in_memory = tollgate::RuleLimiter::from_yaml(&text).unwrap().into();
    let over_redis = RuleLimiter::from_yaml(&redis, &text).unwrap().into();
    for app in [
        app(RateLimitLayer::by_rules(
            in_memory,
            "shop",
            classifier(),
            peer,
        )),
        app(RateLimitLayer::by_rules(
            over_redis,
            "shop",
            classifier(),
            peer,
        )),
    ] {
        let first = app.clone().oneshot(request(CLIENT)).await.unwrap();
        assert_eq!(first.status(), StatusCode::OK);
        let remaining = first.headers()["ratelimit"].to_str().unwrap();
        assert!(remaining.contains(";r=2;"), "{remaining}");
        let second = status(&app, request(CLIENT)).await;
        assert_eq!(second, StatusCode::TOO_MANY_REQUESTS);
    }
}

#[tokio::test]
async fn no_client_learns_the_address_of_redis() {
    let redis = unconnected();
    let limiter = redis.limiter("clients", Limit::per_day(8)).unwrap();
    let of_limiter = by_address(limiter.on_store_error(OnStoreError::Error));
    let rule = "{window: 1d, requests_per_unit: 8, on_store_error: error}";
    for app in [of_limiter, by_rules(&redis, rule)] {
        for is_grpc in [false, true] {
            let mut asked = request(CLIENT);
            if is_grpc {
                *asked.method_mut() = http::Method::POST;
                let headers = asked.headers_mut();
                headers.insert("content-type", "application/grpc".parse().unwrap());
            }
            let (_, headers, body) = read(app.clone().oneshot(asked).await.unwrap()).await;
            assert_eq!(headers.contains_key("grpc-status"), is_grpc);
            let shown = format!("{headers:?} {body}");
            assert!(shown.contains("no decision on the request"), "{shown}");
            assert!(!shown.contains("127.0.0.1"), "{shown}");
        }
    }
}

#[tokio::test]
async fn several_limits_are_charged_all_or_nothing() {
    use crate::several_limits::{app, ask, path};

    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    let builder = redis
        .limits("api")
        .limit("second", Limit::per_second(10).burst(8));
    let limits = builder.limit("day", Limit::per_day(2)).build().unwrap();
    let limits = Arc::new(limits);
    let app = app(RateLimitLayer::by_key(Arc::clone(&limits), path));
    for _ in 0..2 {
        let (status, [_, policies], _) = ask(&app, request(CLIENT)).await;
        assert_eq!(status, StatusCode::OK);
        let burst = r#""second";q=10;w=1;tollgate-burst=8, "day";q=2;w=86400"#;
        assert_eq!(policies, burst);
    }
    let refilled = async || {
        let second = limits.limiter("second").unwrap();
        second.peek("/", 1).await.remaining() == 8
    };
    wait_until("the second's limit does not refill", refilled).await;
    let (status, [left, _], body) = ask(&app, request(CLIENT)).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(left.starts_with(r#""day";r=0;t="#), "{left}");
    assert!(left.ends_with(r#""second";r=8;t=0"#), "not charged: {left}");
    assert!(body.contains("limit \\\"day\\\" is exceeded"), "{body}");
}

#[tokio::test]
async fn a_held_request_of_several_limits_gives_back_its_turn() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    let leaky = Limit::per_hour(2).counted_by(Algorithm::LeakyBucket);
    let builder = redis.limits("api").limit("leaky", leaky);
    let limits = Arc::new(builder.limit("day", Limit::per_day(5)).build().unwrap());
    let addresses = ClientAddress::default();
    let app = app(RateLimitLayer::by_client_address(
        Arc::clone(&limits),
        addresses,
        peer,
    ));
    let left = async |name| {
        limits
            .limiter(name)
            .unwrap()
            .peek(CLIENT, 1)
            .await
            .remaining()
    };
    a_dropped_request_is_refunded(app, async || left("leaky").await).await;
    assert_eq!(left("day").await, 3);
}

/// The second request of an empty bucket is held for half an hour, and then a third is denied.
async fn a_dropped_request_is_refunded(app: Router, remaining: impl AsyncFn() -> u32) {
    assert_eq!(status(&app, request(CLIENT)).await, StatusCode::OK);
    assert_eq!(remaining().await, 1);
    let held = tokio::spawn(app.clone().oneshot(request(CLIENT)));
    wait_until("it is not allowed", async || remaining().await == 0).await;
    let denied = status(&app, request(CLIENT)).await;
    assert_eq!(denied, StatusCode::TOO_MANY_REQUESTS);
    assert!(!held.is_finished());
    held.abort();
    assert!(held.await.unwrap_err().is_cancelled());
    wait_until("it is not refunded", async || remaining().await == 1).await;
}

#[tokio::test]
async fn a_held_request_that_is_dropped_gives_its_units_back() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    let limit = Limit::per_hour(2).counted_by(Algorithm::LeakyBucket);
    let limiter = redis.limiter("leaky", limit).unwrap();
    let app = by_address(redis.limiter("leaky", limit).unwrap());
    let remaining = async || limiter.peek(CLIENT, 1).await.remaining();
    a_dropped_request_is_refunded(app, remaining).await;

    let rule = "{window: 1h, requests_per_unit: 2, algorithm: leaky_bucket}";
    let limiter = RuleLimiter::from_yaml(&redis, &rules(rule)).unwrap();
    let remaining = async || peek(&limiter, "remote_address", CLIENT).await;
    a_dropped_request_is_refunded(by_rules(&redis, rule), remaining).await;
}

async fn peek(limiter: &RuleLimiter, key: &str, value: &str) -> u32 {
    let entry = Entry {
        key: key.as_bytes(),
        value: value.as_bytes(),
    };
    let peek = tollgate::Request {
        domain: b"shop",
        descriptors: vec![Descriptor {
            entries: vec![entry].into(),
            ..Descriptor::default()
        }]
        .into(),
        cost: Cost::Peek(1),
        charge_denied: ChargeDenied::Never,
    };
    let answer = limiter.decide(&peek).await.unwrap();
    answer.limited().next().unwrap().decision.remaining()
}

/// A request that was held while Redis did not answer is refunded in memory, where it was charged.
#[tokio::test]
async fn what_was_charged_without_redis_is_not_refunded_in_redis() {
    let server = testbed::Redis::start();
    let proxy = testbed::Proxy::to(&server.address());
    let redis = connect_to(proxy.address()).await;
    let other = connect(&server).await;
    let set_up = async |is_up: bool| {
        proxy.set(testbed::Faults {
            closes_new_connections: !is_up,
            ..testbed::Faults::default()
        });
        proxy.cut();
        let is_so = async || redis.is_up() == is_up;
        wait_until("it has not noticed", is_so).await;
    };
    let limit = Limit::per_hour(2).counted_by(Algorithm::LeakyBucket);
    let limiter = |redis: &Redis| {
        let limiter = redis.limiter("leaky", limit).unwrap();
        limiter.instances(NonZeroU32::MIN)
    };
    let (app, here, there) = (
        by_address(limiter(&redis)),
        limiter(&redis),
        limiter(&other),
    );
    set_up(false).await;
    assert_eq!(status(&app, request(CLIENT)).await, StatusCode::OK);
    let held = tokio::spawn(app.clone().oneshot(request(CLIENT)));
    let remaining = async || here.peek(CLIENT, 1).await.remaining();
    wait_until("it is not allowed", async || remaining().await == 0).await;
    set_up(true).await;
    assert!(there.check_n(CLIENT, 2).await.is_allowed());
    held.abort();
    assert!(held.await.unwrap_err().is_cancelled());
    // The second comes after the refund.
    assert_eq!(remaining().await, 0);
    assert_eq!(remaining().await, 0);
    set_up(false).await;
    wait_until("it is not refunded", async || remaining().await == 1).await;
}

#[tokio::test]
async fn a_held_request_that_is_dropped_refunds_leaky_buckets_only() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    let rule = "{window: 1h, requests_per_unit: 2, algorithm: leaky_bucket}";
    let both = rules(&format!("{rule}}}, {{key: method, rate_limit: 5/day"));
    let limiter = Arc::new(RuleLimiter::from_yaml(&redis, &both).unwrap());
    let identity = serde_json::json!({"descriptors": [
        {"entries": [{"key": "remote_address", "from": "client_address"}]},
        {"entries": [{"key": "method", "from": "method"}]},
    ]});
    let identity: IdentitySettings = serde_json::from_value(identity).unwrap();
    let classifier = Classifier::new(&identity).unwrap();
    let layer = RateLimitLayer::by_rules(Arc::clone(&limiter), "shop", classifier, peer);
    let remaining = async || peek(&limiter, "remote_address", CLIENT).await;
    a_dropped_request_is_refunded(app(layer), remaining).await;
    assert_eq!(peek(&limiter, "method", "GET").await, 3);
}

#[tokio::test]
async fn a_held_request_goes_on_after_its_delay() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    let limit = Limit::per_second(20).counted_by(Algorithm::LeakyBucket);
    let app = by_address(redis.limiter("leaky", limit.burst(3)).unwrap());
    let mut requests = JoinSet::new();
    for _ in 0..3 {
        let app = app.clone();
        requests.spawn(async move { status(&app, request(CLIENT)).await });
    }
    assert_eq!(requests.join_all().await, [StatusCode::OK; 3]);
}

/// Dropped at each of its awaits, a request costs a unit or none.
#[tokio::test]
async fn a_request_that_is_dropped_costs_at_most_its_unit() {
    let server = testbed::Redis::start();
    let redis = connect(&server).await;
    let limiter = redis.limiter("dropped", Limit::per_day(100)).unwrap();
    let app = by_address(redis.limiter("dropped", Limit::per_day(100)).unwrap());
    let mut finished = 0;
    for polls in 0..10 {
        let mut future = pin!(app.clone().oneshot(request(CLIENT)));
        let mut polled = 0;
        finished += std::future::poll_fn(|context| {
            if polled == polls {
                return Poll::Ready(0);
            }
            polled += 1;
            future.as_mut().poll(context).map(|_| 1)
        })
        .await;
    }
    let charged = 100 - limiter.peek(CLIENT, 1).await.remaining();
    assert!(
        (finished..=10).contains(&charged),
        "{finished}..=10: {charged}"
    );
}
