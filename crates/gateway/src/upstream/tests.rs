#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;

use http::StatusCode;
use hyper::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tollgate_core::Clock;
use tollgate_memory::ManualClock;

use super::*;
use crate::failure::Unanswered;
use crate::metrics::Metrics;
use crate::request_body::RequestBody;
use crate::request_body::tests::unfinished;
use crate::settings::RetrySettings;

mod frames;

mod interim;

mod malformed;

mod retried;

mod searches;

mod silent;

mod unprocessed;

const TIMEOUT: Duration = Duration::from_secs(30);
/// How often addresses are sorted while other threads change their counts.
const SORTS: usize = 50_000;
/// Turns of the runtime after which a connection is seen to be closed.
const TURNS: usize = 1_000;

/// Answers one request, and keeps the connection open.
async fn answer_one(listener: &TcpListener) -> TcpStream {
    let (mut stream, _peer) = listener.accept().await.unwrap();
    let (mut head, mut buffer) = (Vec::new(), [0; 1_024]);
    while !head.ends_with(b"\r\n\r\n") {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the request is whole");
        head.extend_from_slice(&buffer[..read]);
    }
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
    stream.write_all(answer).await.unwrap();
    stream
}

fn request() -> Box<Request<RequestBody>> {
    let request = Request::get("/").header("host", "api");
    Box::new(request.body(RequestBody::empty()).unwrap())
}

/// An upstream at these addresses.
fn upstream_at(addresses: Vec<String>) -> Upstream {
    upstream_of(addresses, UpstreamProtocol::Http1, 8)
}

fn upstream_of(addresses: Vec<String>, protocol: UpstreamProtocol, requests: usize) -> Upstream {
    open_upstream(&UpstreamSettings {
        requests,
        ..settings_of(addresses, protocol)
    })
}

/// Those of an upstream without TLS, health checks and retries.
fn settings_of(addresses: Vec<String>, protocol: UpstreamProtocol) -> UpstreamSettings {
    UpstreamSettings {
        addresses,
        protocol,
        tls: None,
        requests: 8,
        health_check: None,
        retries: None,
    }
}

/// Retries that no budget stops.
const fn retries(attempts: u32) -> Option<RetrySettings> {
    Some(RetrySettings {
        attempts,
        percent: 100,
        per_second: 10,
    })
}

fn open_upstream(settings: &UpstreamSettings) -> Upstream {
    let metrics = Metrics::new();
    let load = Arc::new(UpstreamLoad::new("api", metrics.load("api")));
    Upstream::new("api", settings, TIMEOUT, metrics.upstream("api"), load).unwrap()
}

/// The standard library panics if it sees that an order changes while it sorts by it. It looks only
/// if there are more than 20 addresses.
#[test]
fn addresses_are_sorted_while_other_threads_send_requests_to_them() {
    let addresses = (1..=32).map(|port| format!("127.0.0.1:{port}"));
    let upstream = upstream_at(addresses.collect());
    let has_ended = AtomicBool::new(false);
    let is_total = std::thread::scope(|scope| {
        for first in [0, 16] {
            let (pools, has_ended) = (&upstream.pools, &has_ended);
            scope.spawn(move || {
                let mut pools = pools.iter().cycle().skip(first);
                while !has_ended.load(Ordering::Relaxed) {
                    // No connection is there, so this counts a request for a moment.
                    assert!(pools.next().is_some_and(|pool| pool.try_lease().is_none()));
                }
            });
        }
        let sorting = || {
            for _ in 0..SORTS {
                sort_by_load(
                    &mut upstream.pools.iter().collect::<Vec<_>>(),
                    &Tried::default(),
                );
            }
        };
        let is_total = std::panic::catch_unwind(std::panic::AssertUnwindSafe(sorting)).is_ok();
        has_ended.store(true, Ordering::Relaxed);
        is_total
    });
    assert!(is_total);
}

/// Requests of former settings may keep the upstream for long.
#[tokio::test]
async fn health_checks_can_be_stopped_before_the_upstream_is_gone() {
    let addresses = vec!["127.0.0.1:1".to_owned()];
    let upstream = open_upstream(&UpstreamSettings {
        health_check: serde_json::from_str(r#"{"path": "/"}"#).unwrap(),
        ..settings_of(addresses, UpstreamProtocol::Http1)
    });
    upstream.start_checks();
    upstream.stop_checks();
    for _ in 0..TURNS {
        yield_now().await;
    }
    let tasks = upstream.checks.get().unwrap();
    let ended = tasks.lock().unwrap().try_join_next();
    assert!(ended.unwrap().unwrap_err().is_cancelled());
}

/// Two servers, and their addresses.
async fn two_servers() -> ([TcpListener; 2], [String; 2]) {
    let servers = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let addresses = servers
        .each_ref()
        .map(|server| server.local_addr().unwrap().to_string());
    (servers, addresses)
}

/// A server that restarts has closed its connections, and accepts none for a moment. Nothing of the
/// request was sent, so it can go to another, also if it may not be repeated.
#[tokio::test]
async fn a_request_on_a_connection_that_was_closed_goes_to_another_address() {
    let ([one, other], addresses) = two_servers().await;
    let upstream = upstream_at(addresses.to_vec());
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let send = |lease| upstream.send(lease, request(), TIMEOUT, &clock);

    let lease = upstream.lease().await.unwrap();
    assert_eq!(lease.pool().address(), addresses[0]);
    let (sent, kept) = tokio::join!(send(lease), answer_one(&one));
    let (response, lease) = sent.unwrap();
    drop(response);
    lease.finish();
    yield_now().await;
    let elsewhere = upstream.lease().await.unwrap();
    assert_eq!(elsewhere.pool().address(), addresses[1]);
    let reused = upstream.lease().await.unwrap();
    assert_eq!(reused.pool().address(), addresses[0]);
    assert!(reused.may_be_stale());
    drop(elsewhere);

    drop((kept, one));
    for _ in 0..TURNS {
        yield_now().await;
    }
    let _answering = tokio::spawn(async move {
        // The connection that was leased and dropped comes first.
        drop(other.accept().await.unwrap());
        answer_one(&other).await
    });
    let (response, lease) = send(reused).await.unwrap();
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(lease.pool().address(), addresses[1]);
}

/// So that what it has reserved is released.
#[tokio::test]
async fn a_request_on_a_connection_that_was_closed_was_not_sent_if_there_is_no_other() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream_at(vec![server.local_addr().unwrap().to_string()]);
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let send = |lease| upstream.send(lease, request(), TIMEOUT, &clock);
    let lease = upstream.lease().await.unwrap();
    let (sent, kept) = tokio::join!(send(lease), answer_one(&server));
    let (response, lease) = sent.unwrap();
    drop(response);
    lease.finish();
    yield_now().await;
    let [reused, fresh] = [
        upstream.lease().await.unwrap(),
        upstream.lease().await.unwrap(),
    ];
    assert!(reused.may_be_stale() && !fresh.may_be_stale());
    drop((kept, server));
    for _ in 0..TURNS {
        yield_now().await;
    }
    for lease in [reused, fresh] {
        assert!(!send(lease).await.unwrap_err().was_sent);
    }
}

/// It would be one request too many.
#[tokio::test]
async fn a_body_that_is_handed_back_does_not_count_beside_its_next_request() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    let upstream = upstream_of(vec![address], UpstreamProtocol::H2c, 1);
    drop(upstream.lease().await.unwrap());
    let reused = upstream.lease().await.unwrap();
    assert!(reused.may_be_stale());
    let closed = server.accept().await.unwrap();
    drop((closed, server));
    for _ in 0..TURNS {
        yield_now().await;
    }
    let (body, _client) = unfinished().await;
    let request = Request::post("http://api/").body(body).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let sending = upstream.send(reused, Box::new(request), TIMEOUT, &clock);
    let unanswered = sending.await.unwrap_err();
    assert!(matches!(unanswered.failure, Failure::Unreachable));
    assert!(!unanswered.was_sent);
}
