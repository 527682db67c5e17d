#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{advance, pause, timeout};

use super::*;
use crate::connection_pool::{ConnectionPool, Lease};
use crate::request_body::tests::unfinished;
use crate::settings::UpstreamProtocol;

/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The requests that the server takes at once on a connection.
const STREAMS_MAX: u32 = 2;

/// A response that does not end, or has nothing.
enum Answer {
    Endless,
    Empty,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match *self {
            Answer::Endless => Poll::Pending,
            Answer::Empty => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Answer::Empty)
    }
}

/// Answers at once, and reads the body of the request meanwhile.
async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    let answer = match *request.method() == Method::POST {
        true => Answer::Empty,
        false => Answer::Endless,
    };
    tokio::spawn(async move { drop(request.into_body().collect().await) });
    Ok(Response::new(answer))
}

async fn serve() -> (Arc<ConnectionPool>, JoinSet<()>) {
    serve_on(usize::MAX).await
}

/// A server that takes [`STREAMS_MAX`] requests at once on each connection, and accepts so many.
async fn serve_on(connections_max: usize) -> (Arc<ConnectionPool>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        for _ in 0..connections_max {
            let (stream, _peer) = listener.accept().await.unwrap();
            let service = service_fn(answer);
            connections.spawn(async move {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.max_concurrent_streams(STREAMS_MAX);
                let _ended = builder
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
        drop(listener);
        connections.join_all().await;
    });
    let connector = Connector::new(address, UpstreamProtocol::H2c, None, TIMEOUT);
    (Arc::new(ConnectionPool::new(connector, 1024)), tasks)
}

/// Sends a request, and reads the head of its response.
async fn begin(pool: &Arc<ConnectionPool>) -> io::Result<(Lease, Response<Incoming>)> {
    let mut lease = pool.lease().await?;
    let request = Request::get("http://h/")
        .body(RequestBody::empty())
        .unwrap();
    let answered = timeout(TIMEOUT, lease.send(Box::new(request))).await;
    Ok((lease, answered.expect("it is answered").unwrap()))
}

fn connections(pool: &ConnectionPool) -> usize {
    pool.shared.lock().len()
}

#[tokio::test]
async fn a_request_does_not_wait_for_the_end_of_others_on_its_connection() {
    let (pool, _server) = serve().await;
    assert!(pool.must_wait());
    let first = begin(&pool).await.unwrap();
    assert!(!pool.must_wait());
    let second = begin(&pool).await.unwrap();
    assert_eq!(connections(&pool), 1);
    assert!(pool.must_wait());
    let third = begin(&pool).await.unwrap();
    assert_eq!(connections(&pool), 2);
    // The first one has room again.
    drop(second);
    let fourth = begin(&pool).await.unwrap();
    let fifth = begin(&pool).await.unwrap();
    assert_eq!(connections(&pool), 2);
    drop((first, third, fourth, fifth));
}

#[tokio::test]
async fn an_address_whose_connections_are_all_full_is_busy() {
    let (pool, _server) = serve().await;
    let streams_max = usize::try_from(STREAMS_MAX).unwrap();
    let mut running = Vec::new();
    for _ in 0..HTTP2_CONNECTIONS_MAX * streams_max {
        running.push(begin(&pool).await.unwrap());
    }
    let busy = begin(&pool).await.map(drop).unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
    running.swap_remove(7);
    begin(&pool).await.unwrap();
}

/// An address that answers is not one that fails.
#[tokio::test]
async fn an_address_that_accepts_no_further_connection_is_busy_while_it_serves_others() {
    let (pool, mut server) = serve_on(1).await;
    let first = begin(&pool).await.unwrap();
    let second = begin(&pool).await.unwrap();
    let busy = begin(&pool).await.map(drop).unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
    drop(second);
    let again = begin(&pool).await.unwrap();
    drop((first, again));
    server.shutdown().await;
    let closed = async {
        while !pool.shared.lock()[0].connection.sender.is_closed() {
            yield_now().await;
        }
    };
    timeout(TIMEOUT, closed).await.expect("it is closed");
    let error = begin(&pool).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_connection_that_only_a_peak_needed_is_closed() {
    let (pool, _server) = serve().await;
    let peak = [
        begin(&pool).await.unwrap(),
        begin(&pool).await.unwrap(),
        begin(&pool).await.unwrap(),
    ];
    drop(peak);
    pause();
    let take = || pool.shared.take(pool.connector()).unwrap();
    drop(take());
    assert_eq!(connections(&pool), 2);
    // As long as the first is full, the second is needed.
    let full = [take(), take()];
    advance(SHARED_IDLE_TIME).await;
    drop(take());
    assert_eq!(connections(&pool), 2);
    drop(full);
    drop(take());
    assert_eq!(connections(&pool), 2);
    advance(SHARED_IDLE_TIME).await;
    drop(take());
    assert_eq!(connections(&pool), 1);
}

#[tokio::test]
async fn a_body_that_is_being_sent_counts_after_the_end_of_its_response() {
    let (pool, _server) = serve().await;
    let mut clients = Vec::new();
    for _ in 0..STREAMS_MAX {
        let (body, client) = unfinished().await;
        clients.push(client);
        let mut lease = pool.lease().await.unwrap();
        let request = Request::post("http://h/").body(body).unwrap();
        let response = lease.send(Box::new(request)).await.unwrap();
        response.into_body().collect().await.unwrap();
        lease.finish();
    }
    assert!(pool.must_wait());
    assert_eq!(pool.in_flight(), clients.len());
    begin(&pool).await.unwrap();
    // Without them, the bodies fail, and their requests end.
    drop(clients);
    let ended = async {
        while pool.shared.lock()[0].streams.count() > 0 {
            yield_now().await;
        }
    };
    timeout(TIMEOUT, ended).await.expect("they end");
    assert_eq!(pool.in_flight(), 0);
}
