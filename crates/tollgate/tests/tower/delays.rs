//! Requests that a leaky bucket holds, in virtual time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tollgate::tower::{Classifier, ClientAddress, IdentitySettings, RateLimitLayer};
use tollgate::{
    Algorithm, Limit, Limiter, Limits, ManualClock, Memory, RuleLimiter, Source, Span, TokioClock,
};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{limiter, peer, request};

const CLIENT: &str = "192.0.2.7";
/// Two per second, of which so many may wait or go.
const LEAKY: Limit = Limit::per_second(2)
    .counted_by(Algorithm::LeakyBucket)
    .burst(4);
const RULES: &str = "
domain: shop
descriptors:
  - key: remote_address
    rate_limit: {window: 1s, requests_per_unit: 2, algorithm: leaky_bucket, queue: 4}
";

/// What became of a request, and after how many milliseconds.
type Served = (StatusCode, u128);

fn app(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(async || "hello")).layer(layer)
}

fn by_address<C: tollgate::Clock + 'static>(limiter: Arc<Limiter<C>>) -> Router {
    app(RateLimitLayer::by_client_address(
        limiter,
        ClientAddress::default(),
        peer,
    ))
}

fn by_rules() -> (Router, Arc<RuleLimiter<TokioClock>>) {
    layer_of(RULES, &IdentitySettings::default())
}

fn layer_of(rules: &str, identity: &IdentitySettings) -> (Router, Arc<RuleLimiter<TokioClock>>) {
    let (layer, rules) = rules_layer(rules, identity);
    (app(layer), rules)
}

fn rules_layer(
    rules: &str,
    identity: &IdentitySettings,
) -> (RateLimitLayer, Arc<RuleLimiter<TokioClock>>) {
    let store = Memory::builder()
        .max_keys(100)
        .clock(TokioClock::new())
        .build();
    let rules = RuleLimiter::from_sources(&[Source::new("rules", rules)], store);
    let rules = Arc::new(rules.unwrap());
    let classifier = Classifier::new(identity).unwrap();
    let layer = RateLimitLayer::by_rules(Arc::clone(&rules), "shop", classifier, peer);
    (layer, rules)
}

/// Starts requests one after the other, at the same moment.
async fn start(app: &Router, count: usize) -> Vec<JoinHandle<Served>> {
    let mut tasks = Vec::new();
    for _ in 0..count {
        let (app, began) = (app.clone(), Instant::now());
        tasks.push(tokio::spawn(async move {
            let response = app.oneshot(request(CLIENT)).await.unwrap();
            (response.status(), began.elapsed().as_millis())
        }));
        tokio::task::yield_now().await;
    }
    tasks
}

/// Those of the requests that were not aborted.
async fn served(tasks: Vec<JoinHandle<Served>>) -> Vec<Served> {
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.ok());
    }
    all
}

const fn ok(after: u128) -> Served {
    (StatusCode::OK, after)
}

const DENIED: Served = (StatusCode::TOO_MANY_REQUESTS, 0);

#[tokio::test(start_paused = true)]
async fn requests_are_held_until_their_turn_and_what_does_not_fit_is_denied() {
    let (rules, _) = by_rules();
    for app in [by_address(limiter(LEAKY)), rules] {
        let tasks = start(&app, 6).await;
        let expected = [ok(0), ok(500), ok(1_000), ok(1_500), DENIED, DENIED];
        assert_eq!(served(tasks).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn those_behind_a_request_that_is_dropped_move_up() {
    let limiter = limiter(LEAKY);
    let app = by_address(Arc::clone(&limiter));
    let tasks = start(&app, 4).await;
    sleep(Duration::from_millis(100)).await;
    tasks[1].abort();
    tokio::task::yield_now().await;
    // One turn was given back: this request is the last in the queue of four.
    let late = start(&app, 1).await;
    assert_eq!(served(tasks).await, [ok(0), ok(500), ok(1_000)]);
    assert_eq!(served(late).await, [ok(1_400)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_refunds_what_the_rules_charged() {
    let (app, rules) = by_rules();
    let tasks = start(&app, 4).await;
    let remaining = || {
        let answer = rules.check("shop", &[("remote_address", CLIENT)]).unwrap();
        answer.limited().next().unwrap().remaining()
    };
    for task in &tasks[1..] {
        task.abort();
    }
    tokio::task::yield_now().await;
    assert_eq!(served(tasks).await, [ok(0)]);
    // The first one has gone, and this question takes one of the other three.
    assert_eq!(remaining(), 2);
}

/// Descriptors with the method, and with the client's address.
fn by_method() -> IdentitySettings {
    serde_json::from_value(serde_json::json!({"descriptors": [
        {"entries": [{"key": "remote_address", "from": "client_address"}]},
        {"entries": [{"key": "method", "from": "method"}]},
    ]}))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_refunds_no_unit_of_others() {
    let rules = "{domain: shop, descriptors: [{key: remote_address, rate_limit: {unit: minute, \
        requests_per_unit: 6, algorithm: leaky_bucket, queue: 4}}, {key: method, rate_limit: \
        2/second}]}";
    let (app, rules) = layer_of(rules, &by_method());
    let tasks = start(&app, 2).await;
    sleep(Duration::from_secs(2)).await;
    // In a later window than that of the request that is still held.
    let check = || rules.check("shop", &[("method", "GET")]).unwrap();
    assert!((0..2).all(|_| check().is_allowed()));
    tasks[1].abort();
    tokio::task::yield_now().await;
    assert!(!check().is_allowed());
    // Its place is free.
    let place = rules.check("shop", &[("remote_address", CLIENT)]).unwrap();
    assert_eq!(place.delay, Span::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_refunds_what_it_was_charged_not_what_rules_say_now() {
    let general = "{domain: shop, descriptors: [{key: method, rate_limit: 3/day}]}";
    let leaky = "{domain: shop, descriptors: [{key: method, rate_limit: 3/day}, {key: method, \
        value: GET, rate_limit: {unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, \
        queue: 5}}]}";
    let (app, rules) = layer_of(leaky, &by_method());
    let tasks = start(&app, 2).await;
    rules.reload(&[Source::new("rules", general)]).unwrap();
    let check = || rules.check("shop", &[("method", "GET")]).unwrap();
    assert!((0..3).all(|_| check().is_allowed()));
    tasks[1].abort();
    tokio::task::yield_now().await;
    assert!(!check().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_after_a_change_of_its_limit_refunds_no_unit_of_others() {
    let slow = Limit::per_minute(1).counted_by(Algorithm::LeakyBucket);
    let limiter = limiter(slow.burst(10));
    let app = by_address(Arc::clone(&limiter));
    let tasks = start(&app, 5).await;
    limiter.set_limit(Limit::per_second(10));
    // The first to be decided converts the bucket, which then refills.
    assert_eq!(served(start(&app, 1).await).await, [ok(0)]);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(served(start(&app, 10).await).await, [ok(0); 10]);
    for task in &tasks {
        task.abort();
    }
    assert_eq!(served(tasks).await, [ok(0)]);
    assert_eq!(served(start(&app, 1).await).await, [DENIED]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_before_it_is_polled_charges_nothing() {
    let (rules, store) = by_rules();
    let limiter = limiter(LEAKY);
    for app in [by_address(Arc::clone(&limiter)), rules] {
        drop(app.oneshot(request(CLIENT)));
    }
    assert_eq!(limiter.stats().live_keys, 0);
    assert_eq!(store.stats().live_keys, 0);
}

#[tokio::test(start_paused = true)]
async fn no_more_are_held_than_may_wait() {
    let builder = Limiter::builder(LEAKY).max_keys(100).max_waiting(1);
    let limiter = Arc::new(builder.clock(TokioClock::new()).build());
    let app = by_address(Arc::clone(&limiter));
    let tasks = start(&app, 3).await;
    // Units of the queue of four are left, but nobody could have one now.
    let denied = app.clone().oneshot(request(CLIENT)).await.unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    let remaining = denied.headers()["ratelimit"].to_str().unwrap();
    assert!(remaining.contains(";r=0;"), "{remaining}");
    assert_eq!(denied.headers()["retry-after"], "1");
    assert_eq!(served(tasks).await, [ok(0), ok(500), DENIED]);
}

/// While one client's request waits for its turn, the only permit of the service is free.
#[tokio::test(start_paused = true)]
async fn a_held_request_keeps_no_permit_of_the_service() {
    let limit = Limit::per_second(1)
        .counted_by(Algorithm::LeakyBucket)
        .burst(2);
    let by_address = {
        let addresses = ClientAddress::default();
        RateLimitLayer::by_client_address(limiter(limit), addresses, peer)
    };
    let rules = "{domain: shop, descriptors: [{key: remote_address, rate_limit: {unit: second, \
        requests_per_unit: 1, algorithm: leaky_bucket, queue: 2}}]}";
    for layer in [
        by_address,
        rules_layer(rules, &IdentitySettings::default()).0,
    ] {
        let answer = service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::new(Body::from("hello")))
        });
        let service = layer.layer(ConcurrencyLimit::new(answer, 1));
        // As a connection has it: the service lives on while its request is held.
        let mut connection = service.clone();
        let began = Instant::now();
        let mut ask = async || connection.ready().await.unwrap().call(request(CLIENT));
        let first = ask().await;
        assert_eq!(first.await.unwrap().status(), StatusCode::OK);
        let second = ask().await;
        let held = tokio::spawn(async move { second.await.unwrap().status() });
        tokio::task::yield_now().await;
        let other = service.clone().oneshot(request("192.0.2.8")).await.unwrap();
        assert_eq!(other.status(), StatusCode::OK);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(!held.is_finished());
        assert_eq!(held.await.unwrap(), StatusCode::OK);
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}

/// When its turn comes, it waits for the service like any other request.
#[tokio::test(start_paused = true)]
async fn a_held_request_waits_until_the_service_is_ready() {
    let slow = service_fn(async |_: Request<Body>| {
        sleep(Duration::from_secs(3)).await;
        Ok::<_, Infallible>(Response::new(Body::from("hello")))
    });
    let layer = RateLimitLayer::by_client_address(limiter(LEAKY), ClientAddress::default(), peer);
    let mut service = layer.layer(ConcurrencyLimit::new(slow, 1));
    let began = Instant::now();
    let mut requests = JoinSet::new();
    for _ in 0..3 {
        let service = service.ready().await.unwrap();
        requests.spawn(service.call(request(CLIENT)));
    }
    let mut ends = Vec::new();
    while let Some(response) = requests.join_next().await {
        assert_eq!(response.unwrap().unwrap().status(), StatusCode::OK);
        ends.push(began.elapsed().as_secs());
    }
    assert_eq!(ends, [3, 6, 9]);
}

#[tokio::test(start_paused = true)]
async fn the_delay_is_that_of_the_limiters_clock_not_of_the_timer() {
    let clock = Arc::new(ManualClock::default());
    let builder = Limiter::builder(LEAKY)
        .max_keys(100)
        .clock(Arc::clone(&clock));
    let app = by_address(Arc::new(builder.build()));
    let mut tasks = start(&app, 2).await;
    let held = tasks.pop().unwrap();
    sleep(Duration::from_secs(10)).await;
    assert!(!held.is_finished(), "the clock stands still");
    clock.advance(Duration::from_millis(499));
    sleep(Duration::from_secs(1)).await;
    assert!(!held.is_finished());
    clock.advance(Duration::from_millis(1));
    assert_eq!(held.await.unwrap().0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_response_names_no_delay() {
    let app = by_address(limiter(LEAKY));
    let _first = app.clone().oneshot(request(CLIENT)).await.unwrap();
    let second = app.oneshot(request(CLIENT)).await.unwrap();
    assert!(second.headers().contains_key("ratelimit"));
    assert!(!second.headers().contains_key("x-tollgate-delay-ms"));
}

/// The second of three requests is held for a minute. Its limit is unused two minutes after it was
/// decided, however long it was held since.
#[tokio::test(start_paused = true)]
async fn a_held_response_says_when_the_limit_resets_not_how_late_it_is() {
    let limit = Limit::per_minute(1)
        .counted_by(Algorithm::LeakyBucket)
        .burst(3);
    let rules = "{domain: shop, descriptors: [{key: remote_address, rate_limit: {unit: minute, \
        requests_per_unit: 1, algorithm: leaky_bucket, queue: 3}}]}";
    let limits = Limits::builder().max_keys(100).clock(TokioClock::new());
    let limits = Arc::new(limits.limit("only", limit).build());
    let addresses = ClientAddress::default;
    for layer in [
        RateLimitLayer::by_client_address(limiter(limit), addresses(), peer),
        RateLimitLayer::by_client_address(limits, addresses(), peer),
        rules_layer(rules, &IdentitySettings::default()).0,
    ] {
        let settings = serde_json::json!({"headers": ["x_ratelimit_epoch"]});
        let settings = serde_json::from_value(settings).unwrap();
        let app = app(layer.responses(&settings).unwrap());
        let reset = async || -> u64 {
            let response = app.clone().oneshot(request(CLIENT)).await.unwrap();
            let reset = &response.headers()["x-ratelimit-reset"];
            reset.to_str().unwrap().parse().unwrap()
        };
        let (began, first) = (Instant::now(), reset().await);
        assert_eq!(began.elapsed(), Duration::ZERO);
        let second = reset().await;
        assert_eq!(began.elapsed(), Duration::from_secs(60));
        assert_eq!(second - first, 60);
    }
}
