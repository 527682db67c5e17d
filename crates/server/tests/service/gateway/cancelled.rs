//! Requests that are cancelled, or panic, at every await of the gateway.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use http::{Request, Response, StatusCode};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::Service;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tollgate_core::Clock;
use tollgate_engine::{Engine, Stores};
use tollgate_gateway::{Gateway, ResponseBody};
use tollgate_listen::{
    Budget, Connection, ConnectionCounts, ConnectionLimits, Handler, Http, Limits, Listener,
    Protocol, shutdown_channel,
};
use tollgate_memory::{Memory, SystemClock};
use tollgate_rules::{Options, RuleSet, Source};

use super::upstream::Echo;
use super::{FREE, RULES, section};
use crate::http_client::Client;

/// How a request ends that may not be polled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cancel,
    Panic,
}

/// A gateway whose requests end after some polls, of their answer and its body together.
#[derive(Clone)]
struct Ending {
    gateway: Arc<Gateway>,
    polls: Arc<AtomicUsize>,
    end: End,
}

struct Answering(Ending, Arc<Connection>);

/// A future or a body that ends.
struct Ended<T> {
    inner: Option<T>,
    polls: Arc<AtomicUsize>,
    end: End,
}

// === impl Ended ===

impl<T> Ended<T> {
    /// Takes one poll, or drops what may not be polled again.
    fn inner(&mut self) -> Option<&mut T> {
        let left = |polls: usize| polls.checked_sub(1);
        let took = self
            .polls
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        if took.is_err() {
            if self.end == End::Panic {
                // A panic without its message.
                resume_unwind(Box::new(()));
            }
            self.inner = None;
        }
        self.inner.as_mut()
    }
}

impl<F: Future + Unpin> Future for Ended<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        match self.inner() {
            Some(inner) => Poll::Ready(Some(ready!(Pin::new(inner).poll(cx)))),
            None => Poll::Ready(None),
        }
    }
}

impl Body for Ended<ResponseBody> {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.inner() {
            Some(inner) => Poll::Ready(ready!(Pin::new(inner).poll_frame(cx)).map(|polled| {
                let frame = polled?;
                Ok(frame)
            })),
            None => Poll::Ready(Some(Err("cancelled".into()))),
        }
    }
}

// === impl Ending ===

impl Handler for Ending {
    type Body = Ended<ResponseBody>;
    type Service = Answering;

    fn service(&self, connection: &Arc<Connection>) -> Answering {
        Answering(self.clone(), Arc::clone(connection))
    }
}

impl ConnectionCounts for Ending {
    fn count_open(&self) {}

    fn count_end(&self) {}

    fn count_close(&self, _reason: &'static str) {}

    fn count_reset(&self) {}

    fn count_error(&self, _kind: &'static str) {}
}

impl Service<Request<Incoming>> for Answering {
    type Response = Response<Ended<ResponseBody>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let Answering(
            Ending {
                gateway,
                polls,
                end,
            },
            connection,
        ) = self;
        let (gateway, connection) = (Arc::clone(gateway), Arc::clone(connection));
        let (polls, end) = (Arc::clone(polls), *end);
        Box::pin(async move {
            let answered = Ended {
                inner: Some(Box::pin(gateway.answer(request, &connection, "http"))),
                polls: Arc::clone(&polls),
                end,
            };
            Ok(match answered.await {
                Some(response) => response.map(|body| Ended {
                    inner: Some(body),
                    polls,
                    end,
                }),
                None => {
                    // Enough for this body.
                    polls.store(8, Ordering::Relaxed);
                    let mut response = Response::new(Ended {
                        inner: Some(ResponseBody::own("")),
                        polls,
                        end,
                    });
                    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                    response
                }
            })
        })
    }
}

/// Listens with a handler, until the test ends.
pub(super) async fn listen(handler: impl Handler) -> SocketAddr {
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::open("gateway", &address, Protocol::Any).await;
    let listener = listener.unwrap();
    let address = listener.address().tcp().unwrap();
    let limits = Limits::default();
    let bounds = ConnectionLimits::for_decisions(&limits);
    tokio::spawn(async move {
        let (_shutdown, signal) = shutdown_channel();
        let budget = Arc::new(Budget::new(&limits));
        let serving = listener.serve(Http(handler), bounds, limits, budget, signal);
        serving.await;
    });
    address
}

/// A gateway with a concurrency limit of one request in all, and its metrics.
pub(super) fn open_gateway(upstream: SocketAddr) -> (Gateway, Registry) {
    let in_flight = "in_flight: [{per: [anything], requests: 1}]";
    let settings = section(upstream, &format!("{FREE}, {in_flight}"));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let memory = Memory::builder()
        .max_keys(64)
        .clock(Arc::clone(&clock))
        .build();
    let engine = Arc::new(Engine::new(Stores::new(memory)));
    let sources = [Source::new("rules.yaml", RULES)];
    engine.replace_rules(RuleSet::parse(&sources, &Options::default()).rules);
    let gateway = Gateway::new(&settings, engine, clock).unwrap();
    let mut registry = Registry::default();
    gateway.register(&mut registry);
    (gateway, registry)
}

#[tokio::test]
async fn a_permit_is_never_lost_at_any_await() {
    for end in [End::Cancel, End::Panic] {
        let upstream = Echo::start().await;
        let (gateway, registry) = open_gateway(upstream.address);
        let polls: Arc<AtomicUsize> = Arc::default();
        let address = listen(Ending {
            gateway: Arc::new(gateway),
            polls: Arc::clone(&polls),
            end,
        })
        .await;
        let body = "x".repeat(300_000);
        let mut complete = None;
        for allowed in 0..10_000 {
            polls.store(allowed, Ordering::Relaxed);
            let mut client = Client::to(address).await;
            let length = body.len();
            let head = format!("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n");
            client.send(head.as_bytes()).await;
            client.send(b"connection: close\r\n\r\n").await;
            client.send(body.as_bytes()).await;
            let reply = String::from_utf8(client.rest().await).unwrap();
            let status = reply.get(9..12).unwrap_or_default();
            // As the only request, it never finds the permit taken.
            assert!(["", "200", "500"].contains(&status), "{allowed}: {reply}");
            let mut metrics = String::new();
            encode(&mut metrics, &registry).unwrap();
            let free = r#"gateway_in_flight{limit="anything"} 0"#;
            assert!(metrics.contains(free), "{allowed}: {metrics}");
            if reply.ends_with(&body) {
                complete = Some(allowed);
                break;
            }
        }
        // Among them are those of the answer and of a body in several parts.
        assert!(complete.is_some_and(|polls| polls > 5), "{complete:?}");
    }
}
