//! The stream of decisions, as its clients see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prost::Message;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;
use tokio_stream::{Stream, StreamExt};
use tollgate_core::Span;
use tollgate_rls::decisions::{CheckRequest, CheckResponse, Descriptor, Entry, Outcome};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::grpc_client::Client;
use crate::house::House;
use crate::over_redis::{calls, metric, through_one_connection};

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: minute, requests_per_unit: 2}
  - key: bucket
    rate_limit: {window: 10s, requests_per_unit: 10, algorithm: token_bucket, burst: 4}
  - key: outer
    descriptors: [{key: inner, rate_limit: 5/day}]
  - key: free
    rate_limit: {unlimited: true}
";

/// Begins a call.
pub(crate) async fn call<In: Message + 'static>(
    client: &Client,
    requests: impl Stream<Item = In> + Send + 'static,
) -> Result<Streaming<CheckResponse>, Status> {
    let mut grpc = Grpc::new(client.0.clone());
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/tollgate.v1.Decisions/Check");
    let codec: ProstCodec<In, CheckResponse> = ProstCodec::default();
    let response = grpc.streaming(Request::new(requests), path, codec).await?;
    Ok(response.into_inner())
}

pub(crate) fn entry(key: &str, value: &[u8]) -> Entry {
    Entry {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
    }
}

fn check(id: u64, entries: Vec<Entry>) -> CheckRequest {
    CheckRequest {
        id,
        domain: "shop".into(),
        descriptors: vec![Descriptor {
            entries,
            any_order: false,
        }],
        ..CheckRequest::default()
    }
}

/// A request for one descriptor with one entry, of any domain.
pub(crate) fn check_in(domain: &str, entry: Entry) -> CheckRequest {
    CheckRequest {
        domain: domain.to_owned().into(),
        ..check(1, vec![entry])
    }
}

/// The answers to requests that are sent at once.
pub(crate) async fn answers(house: &House, requests: Vec<CheckRequest>) -> Vec<CheckResponse> {
    let client = Client::to(house.grpc()).await;
    let answers = call(&client, tokio_stream::iter(requests)).await.unwrap();
    answers.map(Result::unwrap).collect().await
}

#[tokio::test]
async fn requests_are_answered_in_their_order_and_in_full() {
    let house = House::on(RULES).await;
    let ann = || vec![entry("user", b"ann")];
    let nested = vec![entry("inner", b"i"), entry("outer", b"o")];
    let requests = vec![
        check(7, ann()),
        CheckRequest {
            peek: true,
            ..check(7, ann())
        },
        check(8, ann()),
        check(9, ann()),
        CheckRequest {
            cost: Some(-1),
            ..check(1, ann())
        },
        check(10, ann()),
        check(11, vec![entry("free", b"x")]),
        CheckRequest {
            domain: "none".into(),
            ..check(12, ann())
        },
        CheckRequest {
            descriptors: vec![Descriptor {
                entries: nested,
                any_order: true,
            }],
            ..check(13, ann())
        },
        CheckRequest {
            cost: Some(5),
            ..check(14, vec![entry("bucket", b"b")])
        },
    ];
    let answers = answers(&house, requests).await;
    let ids: Vec<u64> = answers.iter().map(|one| one.id).collect();
    assert_eq!(ids, [7, 7, 8, 9, 1, 10, 11, 12, 13, 14]);
    let allowed: Vec<bool> = answers.iter().map(|one| one.allowed).collect();
    assert_eq!(
        allowed,
        [true, true, true, false, true, true, true, true, true, false]
    );
    let status = &answers[3].statuses[0];
    assert_eq!((status.outcome(), status.remaining), (Outcome::Denied, 0));
    assert_eq!((&*status.rule, &*status.name), ("user", "per-user"));
    assert_eq!((status.limit, status.window_ms), (2, 60_000));
    assert_eq!(
        (status.reset_ms, status.retry_after_ms),
        (60_000, Some(60_000))
    );
    assert_eq!(
        (&*answers[3].denied_by, answers[3].retry_after_ms),
        ("per-user", Some(60_000))
    );
    assert_eq!(answers[3].request_id.len(), 32);
    assert_eq!(answers[6].statuses[0].outcome(), Outcome::Unlimited);
    assert_eq!(answers[7].statuses[0].outcome(), Outcome::NoLimit);
    assert_eq!(answers[8].statuses[0].remaining, 4);
    let never = &answers[9];
    assert_eq!(
        (never.retry_after_ms, never.statuses[0].retry_after_ms),
        (None, None)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_streams_at_once_exactly_as_many_requests_as_the_limit_are_allowed() {
    let rules = RULES.replace("requests_per_unit: 2}", "requests_per_unit: 500}");
    let house = House::on(&rules).await;
    let address = house.grpc();
    let mut streams = JoinSet::new();
    for _ in 0..16 {
        streams.spawn(async move {
            let client = Client::to(address).await;
            let requests = (0..40).map(|id| check(id, vec![entry("user", b"ann")]));
            let answers = call(&client, tokio_stream::iter(requests)).await.unwrap();
            let answers: Vec<_> = answers.map(Result::unwrap).collect().await;
            let allowed = answers.iter().filter(|answer| answer.allowed).count();
            (answers.len(), allowed)
        });
    }
    let counts = streams.join_all().await;
    let (answered, allowed): (Vec<usize>, Vec<usize>) = counts.into_iter().unzip();
    assert_eq!(answered, [40; 16]);
    assert_eq!(allowed.iter().sum::<usize>(), 500, "{allowed:?}");
}

#[tokio::test]
async fn times_are_in_milliseconds_rounded_up() {
    let house = House::on(RULES).await;
    let request = CheckRequest {
        cost: Some(4),
        ..check(1, vec![entry("bucket", b"b")])
    };
    assert!(answers(&house, vec![request.clone()]).await[0].allowed);
    house.clock.advance(Span::from_nanos(500_400_000));
    let answer = &answers(&house, vec![request]).await[0];
    assert_eq!(answer.retry_after_ms, Some(3_500));
    assert_eq!(answer.statuses[0].reset_ms, 3_500);
}

#[tokio::test]
async fn keys_and_values_are_bytes() {
    let house = House::on(RULES).await;
    let of = |value: &[u8]| check(0, vec![entry("user", value)]);
    let requests = [&b"\xff"[..], b"\xfe", b"\xff", b"\xff"].map(of);
    let answers = answers(&house, requests.to_vec()).await;
    let allowed: Vec<bool> = answers.iter().map(|one| one.allowed).collect();
    assert_eq!(allowed, [true, true, true, false]);
}

#[tokio::test]
async fn an_invalid_request_is_an_error_in_its_answer_and_the_next_is_decided() {
    let house = House::on(RULES).await;
    let user = || entry("user", b"ann");
    let of_cost = |cost, peek| CheckRequest {
        cost: Some(cost),
        peek,
        ..check(1, vec![user()])
    };
    let twice = CheckRequest {
        descriptors: vec![Descriptor {
            entries: vec![user(), user()],
            any_order: true,
        }],
        ..check(1, Vec::new())
    };
    let cases = [
        (CheckRequest::default(), "domain must not be empty"),
        (check(1, Vec::new()), "descriptors[0] has no entries"),
        (
            check(1, vec![entry("", b"x")]),
            "descriptors[0].entries[0] has an empty key",
        ),
        (of_cost(-1, true), "`peek` with a negative cost"),
        (of_cost(1 << 32, false), "a cost of 4294967296"),
        (of_cost(i64::MIN, false), "a cost of 9223372036854775808"),
        (twice, "descriptors[0] has two entries with the key `user`"),
    ];
    let mut requests: Vec<CheckRequest> = cases.iter().map(|(one, _)| one.clone()).collect();
    requests.push(check(2, vec![user()]));
    let answers = answers(&house, requests).await;
    for ((_, expected), answer) in cases.iter().zip(&answers) {
        let error = answer.error.as_ref().unwrap();
        assert_eq!(error.code, i32::from(Code::InvalidArgument));
        assert!(error.message.contains(expected), "{error:?}");
        assert!(!answer.allowed);
    }
    let last = answers.last().unwrap();
    assert_eq!(
        (last.id, last.allowed, last.statuses[0].remaining),
        (2, true, 1)
    );
}

#[tokio::test]
async fn a_message_that_cannot_be_read_ends_the_call() {
    let house = House::on(RULES).await;
    let client = Client::to(house.grpc()).await;
    // A length-delimited field in place of the id.
    let unreadable = tollgate_rls::RateLimitRequest {
        domain: b"x"[..].into(),
        ..Default::default()
    };
    let mut call_ends = call(&client, tokio_stream::once(unreadable)).await.unwrap();
    let status = call_ends.message().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let large = check(1, vec![entry("user", &[b'x'; 17 * 1024])]);
    let mut call_ends = call(&client, tokio_stream::once(large)).await.unwrap();
    let status = call_ends.message().await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert!(answers(&house, vec![check(1, vec![entry("user", b"a")])]).await[0].allowed);
}

/// Many requests, and how many of them were sent.
fn endless(sent: &Arc<AtomicU64>) -> impl Stream<Item = CheckRequest> + Send + 'static {
    let sent = Arc::clone(sent);
    tokio_stream::iter(0..1_000_000_u64).map(move |id| {
        sent.store(id + 1, Ordering::Relaxed);
        check(id, vec![entry("free", b"x")])
    })
}

/// Requests whose answers are long: two batches have more than each connection has guaranteed.
fn endless_long(sent: &Arc<AtomicU64>) -> impl Stream<Item = CheckRequest> + Send + 'static {
    endless(sent).map(|mut request| {
        request.descriptors = vec![check(0, vec![entry("user", b"ann")]).descriptors.remove(0); 16];
        request
    })
}

/// Lets everything else run until no more requests are sent.
async fn wait_until_stalled(sent: &AtomicU64) -> u64 {
    let (mut before, mut unchanged) = (0, 0);
    while unchanged < 5_000 {
        yield_now().await;
        let now = sent.load(Ordering::Relaxed);
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
    }
    before
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_from() {
    let house = House::on(RULES).await;
    // By default, this client has room for a hundred thousand answers.
    let endpoint = Endpoint::from_shared(format!("http://{}", house.grpc())).unwrap();
    let endpoint = endpoint.initial_stream_window_size(65_535);
    let client = Client(endpoint.connect().await.unwrap());
    let sent = Arc::default();
    let mut answers = call(&client, endless(&sent)).await.unwrap();
    let stalled = wait_until_stalled(&sent).await;
    assert!((256..20_000).contains(&stalled), "{stalled}");
    for id in 0..2 * stalled {
        assert_eq!(answers.message().await.unwrap().unwrap().id, id);
    }
}

#[tokio::test]
async fn a_call_that_is_abandoned_leaves_nothing_behind() {
    let write_timeout = Duration::from_millis(200);
    let house = House::with(RULES, |config| config.limits.write_timeout = write_timeout).await;
    let client = Client::to(house.grpc()).await;
    for _ in 0..5 {
        let sent = Arc::default();
        let mut answers = call(&client, endless_long(&sent)).await.unwrap();
        answers.message().await.unwrap().unwrap();
    }
    let mut unread = Vec::new();
    for _ in 0..2 {
        let sent = Arc::default();
        unread.push(call(&client, endless_long(&sent)).await.unwrap());
        wait_until_stalled(&sent).await;
    }
    let held = || metric(&house, "tollgate_request_bytes_held");
    assert_ne!(held().await, 0);
    drop((unread, client));
    let released = async {
        while held().await > 0 {
            yield_now().await;
        }
    };
    timeout(TIMEOUT, released).await.unwrap();
    assert!(answers(&house, vec![check(1, vec![entry("user", b"a")])]).await[0].allowed);
}

#[tokio::test]
async fn a_silent_call_ends_when_the_service_stops() {
    let house = House::on(RULES).await;
    let client = Client::to(house.grpc()).await;
    let first = tokio_stream::once(check(1, vec![entry("user", b"a")]));
    let requests = first.chain(tokio_stream::pending());
    let mut answers = call(&client, requests).await.unwrap();
    assert!(answers.message().await.unwrap().unwrap().allowed);
    house.running.stop().await;
    let status = answers.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

#[tokio::test]
async fn over_redis_what_arrives_together_is_one_batch() {
    let redis = tollgate_testbed::Redis::start();
    let house = House::with(RULES, |config| {
        config.store = through_one_connection(&redis)
    })
    .await;
    let user = |id: u64| check(id, vec![entry("user", format!("u{}", id % 100).as_bytes())]);
    let answers = answers(&house, (0..300).map(user).collect()).await;
    let allowed: Vec<bool> = answers.iter().map(|one| one.allowed).collect();
    assert_eq!(allowed, [[true; 200].as_slice(), &[false; 100]].concat());
    // A batch of a stream has at most 256 requests, and a call decides up to 64: 4 and 1.
    assert_eq!(calls(&house).await, 5);
}
