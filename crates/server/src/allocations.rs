//! What a request to the service allocates, from the bytes of its body to those of its answer.
//!
//! The HTTP library's own are not counted: the head of the request, the task and the frames.
#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use bytes::Bytes;
use http::Request;
use http::request::Parts;
use http_body_util::Full;
use prost::Message;
use tollgate_engine::Engine;
use tollgate_listen::{Budget, Limits, shutdown_channel};
use tollgate_memory::SystemClock;
use tollgate_rls::rate_limit_descriptor::Entry;
use tollgate_rls::{RateLimitDescriptor, RateLimitRequest};
use tollgate_rules::{Options as RuleOptions, RuleSet, Source};
use tollgate_telemetry::Tracing;

use crate::config::Config;
use crate::grpc::{Calls, DECIDE_PATH};
use crate::http::{AppState, CHECK_PATH};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::stores;

const RULES: &str = "
domain: shop
descriptors:
  - {key: user, rate_limit: {name: users, requests_per_unit: 1000, unit: day}}
  - {key: path, rate_limit: {requests_per_unit: 1000, unit: hour, algorithm: token_bucket}}
  - {key: none, rate_limit: 0/day}
";

/// So many denials, which are kept in turn in several lists, have made room in each for the next.
const WARM: usize = 10;

fn engine() -> Arc<Engine> {
    let loaded = RuleSet::parse(&[Source::new("shop.yaml", RULES)], &RuleOptions::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    let mut config = Config::new(Vec::new());
    config.memory.max_keys = Some(1_000);
    let stores = stores::open(&config, &[], Arc::new(SystemClock::new())).unwrap();
    let engine = Engine::new(stores);
    engine.replace_rules(loaded.rules);
    Arc::new(engine)
}

fn metrics(engine: &Arc<Engine>) -> Arc<Metrics> {
    let limits = Limits::default();
    let budget = Arc::new(Budget::new(&limits));
    let metrics = Metrics::new(engine, &budget, &limits, &Arc::default(), None, None);
    Arc::new(metrics)
}

fn http() -> AppState {
    let (engine, limits) = (engine(), Limits::default());
    AppState {
        metrics: metrics(&engine),
        engine,
        options: Options::default(),
        auth: None,
        tracing: Tracing::default(),
        scheme: "http",
        shutdown: shutdown_channel().1,
        body_timeout: limits.body_timeout,
        body_bytes: limits.body_bytes,
    }
}

fn grpc() -> Calls {
    let engine = engine();
    Calls {
        listener: "grpc",
        metrics: metrics(&engine),
        engine,
        options: Options::default(),
        tracing: Tracing::default(),
        body_timeout: Limits::default().body_timeout,
    }
}

fn head(path: &str, media_type: &str) -> Parts {
    let request = Request::post(path).header("content-type", media_type);
    request.body(()).unwrap().into_parts().0
}

/// What is there at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing waits in memory"),
    }
}

/// A body of Envoy's protocol that describes a request with these keys.
fn message(keys: &[&'static str]) -> Bytes {
    let descriptor = |key: &&'static str| RateLimitDescriptor {
        entries: vec![Entry {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(b"ann"),
        }],
        ..RateLimitDescriptor::default()
    };
    let message = RateLimitRequest {
        domain: Bytes::from_static(b"shop"),
        descriptors: keys.iter().map(descriptor).collect(),
        hits_addend: 0,
    };
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap();
    [&[0][..], &length.to_be_bytes(), &message].concat().into()
}

/// What a request allocates once others with its keys were answered.
fn allocations(mut answer: impl FnMut()) -> u64 {
    (0..WARM).for_each(|_| answer());
    measure(answer).count_total
}

/// The texts of the body are not copied, and the decision allocates nothing.
#[test]
fn a_check_allocates_its_response_alone() {
    let state = http();
    let head = head(CHECK_PATH, "application/json");
    let cases = [
        // 1: The body. 2: Its owner, with which it is sent without a copy. 3 and 4: The head, a
        // table of its fields and where each is found. 5: The value of `RateLimit`; that of
        // `RateLimit-Policy` is kept for each rule.
        (r#"[{"user": "ann"}]"#, 200, 5),
        // 6: The list of descriptors, which has room for one beside the check.
        (r#"[{"user": "ann"}, {"path": "/a"}]"#, 200, 6),
        // 6 to 8: The detail of the problem document, the list of its policies, and the name in it.
        // 9: The id under which the denial is kept. 10 to 16: What is kept: the id again, the rule,
        // the domain, the list of descriptors, the list of entries, a key and a value. 17: The
        // header with the id.
        (r#"[{"none": "ann"}]"#, 429, 17),
    ];
    for (descriptors, expected, most) in cases {
        let body = format!(r#"{{"domain": "shop", "descriptors": {descriptors}}}"#);
        let body = Bytes::from(body);
        let mut status = 0;
        let counted = allocations(|| {
            let answered = now(state.answer_check(&head, &mut Full::new(body.clone())));
            status = answered.status().as_u16();
        });
        assert_eq!((status, counted), (expected, most), "{descriptors}");
    }
}

/// As the library reads and writes them, messages are lists of lists.
#[test]
fn a_call_of_envoy_allocates_its_messages_alone() {
    let calls = grpc();
    let head = head(DECIDE_PATH, "application/grpc");
    let cases = [
        // 1 and 2: The lists of descriptors and of entries. 3: The list of statuses. 4: The name of
        // the rule in a status. 5: The body. 6 and 7: The head.
        (&["user"][..], 7),
        // 8: The entries of the other descriptor, whose rule has no name of its own.
        (&["user", "path"], 8),
        // Without the name of a rule. 7 to 14: The id and what is kept, as above. 15: The header
        // with the id.
        (&["none"], 15),
    ];
    for (keys, most) in cases {
        let body = message(keys);
        let counted = allocations(|| {
            assert!(now(calls.answer(&head, &body)).is_some());
        });
        assert_eq!(counted, most, "{keys:?}");
    }
}
