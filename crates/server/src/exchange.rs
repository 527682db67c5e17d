//! Between a connection and the routes of its listener: checks every request, and limits every
//! request and response.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::CONNECTION;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::time::timeout;
use tollgate_http::Peer;
use tollgate_listen::{
    Connection, ConnectionCounts, Handler, Limits, Listener, Protocol, ShutdownSignal,
};
use tonic::Status;

use crate::auth;
use crate::body::{Content, RequestBody, ResponseBody, is_no_room, no_room};
use crate::decisions::CHECK_PATH;
use crate::grpc::{Calls, DECIDE_PATH, GRPC_ENCODING, late};
use crate::head::{Rejection, check_grpc, check_http1};
use crate::http::{AppState, CHECK_PATH as HTTP_CHECK_PATH};
use crate::metrics::{ListenerName, Metrics};
use crate::reply::{Failure, problem};

mod message;
mod read_fields;

use message::{Message, Terms};
use read_fields::copy_read_fields;

/// Calls whose messages are answered one by one.
const STREAM_PATHS: &str = "/grpc.reflection.";
/// What a connection with a reserved permit may request.
const HEALTH_PATHS: [&str; 3] = ["/healthz", "/readyz", "/grpc.health.v1.Health/Check"];

/// Serves the connections of one listener.
#[derive(Clone)]
pub(crate) struct ExchangeHandler {
    protocol: Protocol,
    listener: ListenerName,
    router: TowerToHyperService<Router>,
    /// Answers `/v1/check` without the router, whose layers cost as much as a decision.
    checks: Option<Arc<AppState>>,
    /// Answers `ShouldRateLimit` without them.
    calls: Option<Arc<Calls>>,
    metrics: Arc<Metrics>,
    shutdown: ShutdownSignal,
    /// How long a message may take to arrive.
    body_timeout: Duration,
    /// The largest message that is read.
    message_bytes: usize,
}

/// Serves the requests of one connection.
#[derive(Clone)]
pub(crate) struct Exchange {
    all: Arc<ExchangeHandler>,
    connection: Arc<Connection>,
}

type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send + 'static>>;

// === impl ExchangeHandler ===

impl ExchangeHandler {
    pub(crate) fn new(
        listener: &Listener,
        router: Router,
        limits: &Limits,
        metrics: &Arc<Metrics>,
        shutdown: &ShutdownSignal,
    ) -> ExchangeHandler {
        ExchangeHandler {
            protocol: listener.protocol(),
            listener: listener.name(),
            router: TowerToHyperService::new(router),
            checks: None,
            calls: None,
            metrics: Arc::clone(metrics),
            shutdown: shutdown.clone(),
            body_timeout: limits.body_timeout,
            message_bytes: limits.message_bytes,
        }
    }

    /// The same, which answers `/v1/check` by `checks`, and `ShouldRateLimit` by `calls`.
    pub(crate) fn with_short_ways(
        self,
        checks: Option<Arc<AppState>>,
        calls: Option<Arc<Calls>>,
    ) -> ExchangeHandler {
        ExchangeHandler {
            checks,
            calls,
            ..self
        }
    }

    /// What answers a call without the router.
    fn calls_of(&self, head: &Parts) -> Option<&Calls> {
        let is_decision = head.uri.path() == DECIDE_PATH;
        self.calls.as_deref().filter(|_| is_decision)
    }

    /// What answers a request of HTTP/1 without the router.
    fn checks_of(&self, head: &Parts) -> Option<&Arc<AppState>> {
        let is_check = head.method == Method::POST && head.uri.path() == HTTP_CHECK_PATH;
        self.checks.as_ref().filter(|_| is_check)
    }
}

impl Handler for ExchangeHandler {
    type Body = ResponseBody;
    type Service = Exchange;

    fn service(&self, connection: &Arc<Connection>) -> Exchange {
        Exchange {
            all: Arc::new(self.clone()),
            connection: Arc::clone(connection),
        }
    }
}

impl ConnectionCounts for ExchangeHandler {
    fn count_open(&self) {
        self.metrics.connections(self.listener).inc();
    }

    fn count_end(&self) {
        self.metrics.connections(self.listener).dec();
    }

    fn count_close(&self, reason: &'static str) {
        self.metrics.count_close(self.listener, reason);
    }

    fn count_error(&self, kind: &'static str) {
        self.metrics.count_error(self.listener, kind);
    }
}

// === impl Exchange ===

impl Service<Request<Incoming>> for Exchange {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let is_health = HEALTH_PATHS.contains(&request.uri().path());
        if self.connection.is_reserved() && !is_health {
            let answer = self.finish(self.overload_response(), false);
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let (mut head, body) = request.into_parts();
        let checked = match self.all.protocol {
            Protocol::Http2 => check_grpc(&head),
            Protocol::Http1 | Protocol::Any | Protocol::Other => check_http1(&head),
        };
        if let Err(rejection) = checked {
            let answer = self.reject(&rejection);
            return Box::pin(std::future::ready(Ok(answer)));
        }
        if head.uri.path() == auth::PATH {
            let peer = Peer::from(self.connection.peer().ip());
            head.extensions.insert(peer);
        }
        let is_decisions = head.uri.path() == CHECK_PATH;
        let mut body = RequestBody::new(body, Arc::clone(&self.connection));
        if is_decisions {
            body = body.in_parts();
            head.extensions.insert(Arc::clone(&self.connection));
        }
        let this = self.clone();
        if let Some(checks) = self.all.checks_of(&head) {
            let checks = Arc::clone(checks);
            return Box::pin(async move {
                let response = checks.answer_check(&head, &mut body).await;
                Ok(this.finish(response, false))
            });
        }
        let request = Request::from_parts(head, body);
        if self.all.protocol == Protocol::Http1 {
            return Box::pin(async move {
                let Ok(response) = this.all.router.call(request).await;
                Ok(this.finish(response, false))
            });
        }
        let path = request.uri().path();
        let has_end = is_decisions || path == DECIDE_PATH;
        let is_stream = is_decisions || path.starts_with(STREAM_PATHS);
        Box::pin(async move {
            let response = if is_stream {
                let (parts, body) = request.into_parts();
                let request = Request::from_parts(copy_read_fields(parts), body);
                let Ok(response) = this.all.router.call(request).await;
                response.map(Content::from)
            } else {
                this.collect(request).await
            };
            Ok(this.finish(response, !has_end))
        })
    }
}

impl Exchange {
    /// The response to a connection with a reserved permit, unless it is a health check.
    fn overload_response(&self) -> Response<Body> {
        let detail = "the connection limit is reached; use fewer connections, or retry in a second";
        self.all
            .metrics
            .count_error(self.all.listener, "overloaded");
        match self.all.protocol {
            Protocol::Http1 | Protocol::Any | Protocol::Other => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let failure = Failure::new("overloaded", status, detail);
                problem(&failure.problem)
            }
            Protocol::Http2 => Status::unavailable(detail).into_http(),
        }
    }

    /// The response to a request whose head is rejected.
    fn reject(&self, rejection: &Rejection) -> Response<ResponseBody> {
        self.all
            .metrics
            .count_error(self.all.listener, rejection.kind());
        self.finish(rejection.response(), false)
    }

    /// Answers a call once its message has arrived completely. Until then it uses memory only for
    /// what has arrived. Its bytes stay reserved until it is answered.
    async fn collect(&self, request: Request<RequestBody>) -> Response<Content> {
        let (mut parts, mut body) = request.into_parts();
        let calls = self.all.calls_of(&parts);
        let terms = Terms {
            bytes_max: self.all.message_bytes,
            calls: calls.filter(|_| !parts.headers.contains_key(GRPC_ENCODING)),
        };
        let mut message = pin!(Message::read(&mut body, terms));
        let at_once = poll_fn(|cx| Poll::Ready(message.as_mut().poll(cx))).await;
        let message = match at_once {
            Poll::Ready(message) => Ok(message),
            Poll::Pending => {
                parts = copy_read_fields(parts);
                timeout(self.all.body_timeout, message).await
            }
        };
        let status = match message {
            Ok(Ok(message)) => match self.answer(parts, message, calls).await {
                Ok(response) => return response,
                Err(status) => {
                    self.all
                        .metrics
                        .count_error(self.all.listener, "bad_request");
                    status
                }
            },
            Ok(Err(error)) if is_no_room(&*error) => {
                self.all.metrics.count_error(self.all.listener, "no_room");
                no_room()
            }
            Ok(Err(error)) => Status::cancelled(format!("the message is incomplete: {error}")),
            Err(_) => {
                self.all.metrics.count_error(self.all.listener, "timeout");
                late(self.all.body_timeout)
            }
        };
        status.into_http::<Body>().map(Content::from)
    }

    /// The response to a call with this message, by `calls` if they answer it, or by the routes; an
    /// error if it is none.
    async fn answer(
        &self,
        parts: Parts,
        message: Message<'_>,
        calls: Option<&Calls>,
    ) -> Result<Response<Content>, Status> {
        let message = match message {
            Message::Invalid(status) => return Err(status),
            Message::Request(calls, request) => {
                return Ok(calls.answer_request(&parts, &request).await);
            }
            Message::TooLarge(beginning) => beginning,
            Message::Whole(message) => {
                if let Some(calls) = calls
                    && let Some(response) = calls.answer(&parts, &message).await
                {
                    return Ok(response);
                }
                message
            }
        };
        let request = Request::from_parts(parts, Body::from(message));
        let Ok(response) = self.all.router.call(request).await;
        Ok(response.map(Content::from))
    }

    /// The response as it is sent: counted as unread until the peer has read it, ended on shutdown
    /// if it has no end of its own, and with the announcement that the connection ends.
    fn finish(
        &self,
        response: Response<impl Into<Content>>,
        is_unbounded: bool,
    ) -> Response<ResponseBody> {
        let connection = Arc::clone(&self.connection);
        let mut response = response.map(|body| ResponseBody::new(body, connection));
        if is_unbounded {
            let shutdown = self.all.shutdown.clone();
            response = response.map(|body| body.until_stop(shutdown));
        }
        let ends = self.connection.ends() || !self.all.shutdown.is_ready();
        if ends && self.all.protocol == Protocol::Http1 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        if self.connection.is_reserved() && self.all.protocol == Protocol::Http2 {
            self.connection.drain();
        }
        response
    }
}
