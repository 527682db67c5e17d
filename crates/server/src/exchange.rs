//! Between a connection and the routes of its listener: checks every request, and limits every
//! request and response.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use http::header::{CONNECTION, HOST};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::time::timeout;
use tollgate_http::Peer;
use tollgate_listen::{Connection, ConnectionCounts, Handler, Limits, Listener, ShutdownSignal};
use tonic::Status;

use crate::auth;
use crate::body::{Content, RequestBody, ResponseBody, is_no_room, no_room};
use crate::decisions::CHECK_PATH;
use crate::grpc::{DECIDE_PATH, GRPC_ENCODING, late};
use crate::head::{Rejection, check_grpc, check_http, is_grpc};
use crate::held_bytes::ANSWER_BYTES_FREE;
use crate::http::ENVOY_HEALTH_PATH;
use crate::metrics::{ListenerName, Metrics};
use crate::reply::{Failure, for_method, problem};

mod message;
mod read_fields;
mod routes;

use message::{Message, Terms};
use read_fields::copy_read_fields;
use routes::RoutesOf;
pub(crate) use routes::{GrpcRoutes, HttpRoutes, Routes};

const NO_ROOM: &str =
    "too many bytes of answers that were not read; read them, use fewer connections, or retry";
/// Calls whose messages are answered one by one.
const STREAM_PATHS: &str = "/grpc.reflection.";
/// What a connection with a reserved permit may request.
const HEALTH_PATHS: [&str; 4] = [
    "/healthz",
    "/readyz",
    ENVOY_HEALTH_PATH,
    "/grpc.health.v1.Health/Check",
];

/// Serves the connections of one listener.
#[derive(Clone)]
pub(crate) struct ExchangeHandler {
    listener: ListenerName,
    routes: Routes,
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
        routes: Routes,
        limits: &Limits,
        metrics: &Arc<Metrics>,
        shutdown: &ShutdownSignal,
    ) -> ExchangeHandler {
        ExchangeHandler {
            listener: listener.name(),
            routes,
            metrics: Arc::clone(metrics),
            shutdown: shutdown.clone(),
            body_timeout: limits.body_timeout,
            message_bytes: limits.message_bytes,
        }
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

    fn count_reset(&self) {
        self.metrics.count_reset(self.listener);
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
        let routes = self.all.routes.of(&request);
        let is_health = HEALTH_PATHS.contains(&request.uri().path());
        if self.connection.is_reserved() && !is_health {
            let response = for_method(request.method(), self.overload_response(&routes));
            let answer = self.finish(response, false);
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let (head, body) = request.into_parts();
        let checked = match routes {
            RoutesOf::Grpc(_) => check_grpc(&head),
            RoutesOf::Http(_) => check_http(&head),
        };
        if let Err(rejection) = checked {
            let answer = self.reject(&head.method, &rejection);
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let body = RequestBody::new(body, Arc::clone(&self.connection));
        match routes {
            RoutesOf::Http(http) => self.answer_http(http, head, body),
            RoutesOf::Grpc(grpc) => self.answer_grpc(grpc, head, body),
        }
    }
}

/// Writes the host of HTTP/2, which is part of the target, where HTTP/1.1 has it.
fn name_host(head: &mut Parts) {
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.entry(HOST).or_insert(host);
    }
}

impl Exchange {
    /// Answers a request of HTTP.
    fn answer_http(
        &self,
        http: &Arc<HttpRoutes>,
        mut head: Parts,
        mut body: RequestBody,
    ) -> ResponseFuture {
        let this = self.clone();
        let is_auth = head.uri.path() == auth::PATH;
        if is_auth || http.is_admin() {
            let peer = Peer::from(self.connection.peer().ip());
            head.extensions.insert(peer);
        }
        if is_auth {
            // The body is not read, and all of the head is.
            name_host(&mut head);
        } else if self.connection.is_http2() {
            head = copy_read_fields(head);
        }
        if let Some(checks) = http.checks_of(&head) {
            let checks = Arc::clone(checks);
            return Box::pin(async move {
                let response = checks.answer_check(&head, &mut body).await;
                Ok(this.finish(response, false))
            });
        }
        let http = Arc::clone(http);
        Box::pin(async move {
            let Ok(response) = http.router.call(Request::from_parts(head, body)).await;
            Ok(this.finish(response, false))
        })
    }

    /// Answers a call of gRPC.
    fn answer_grpc(
        &self,
        grpc: &Arc<GrpcRoutes>,
        head: Parts,
        body: RequestBody,
    ) -> ResponseFuture {
        let path = head.uri.path();
        if path == CHECK_PATH {
            let decisions = &grpc.decisions;
            let response = decisions.answer(&head.headers, body, &self.connection);
            return Box::pin(std::future::ready(Ok(self.finish(response, false))));
        }
        let has_end = path == DECIDE_PATH;
        let is_stream = path.starts_with(STREAM_PATHS);
        let (this, grpc) = (self.clone(), Arc::clone(grpc));
        Box::pin(async move {
            let response = if is_stream {
                let request = Request::from_parts(copy_read_fields(head), body);
                let Ok(response) = grpc.router.call(request).await;
                response.map(Content::from)
            } else {
                this.collect(&grpc, head, body).await
            };
            Ok(this.finish(response, !has_end))
        })
    }

    /// The response to a connection with a reserved permit, unless it is a health check.
    fn overload_response(&self, routes: &RoutesOf<'_>) -> Response<Body> {
        let detail = "the connection limit is reached; use fewer connections, or retry in a second";
        self.all
            .metrics
            .count_error(self.all.listener, "overloaded");
        match routes {
            RoutesOf::Http(_) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let failure = Failure::new("overloaded", status, detail);
                problem(&failure.problem)
            }
            RoutesOf::Grpc(_) => Status::unavailable(detail).into_http(),
        }
    }

    /// The response to a request whose head is rejected.
    fn reject(&self, method: &Method, rejection: &Rejection) -> Response<ResponseBody> {
        self.all
            .metrics
            .count_error(self.all.listener, rejection.kind());
        self.finish(for_method(method, rejection.response()), false)
    }

    /// Answers a call once its message has arrived completely. Until then it uses memory only for
    /// what has arrived. Its bytes stay reserved until it is answered.
    async fn collect(
        &self,
        grpc: &GrpcRoutes,
        mut parts: Parts,
        mut body: RequestBody,
    ) -> Response<Content> {
        let calls = grpc.calls_of(&parts);
        let calls = calls.filter(|_| !parts.headers.contains_key(GRPC_ENCODING));
        let terms = Terms {
            bytes_max: self.all.message_bytes,
            calls,
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
            Ok(Ok(message)) => match grpc.answer(parts, message, calls).await {
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

    /// The response, and how many bytes are reserved for it until it has been sent: those of a long
    /// one. If there is no room, it is replaced by an error.
    fn reserve(&self, response: Response<Content>) -> (Response<Content>, usize) {
        let length = response.body().len().unwrap_or(0);
        if length <= ANSWER_BYTES_FREE || matches!(self.all.routes, Routes::Http(_)) {
            return (response, 0);
        }
        if self.connection.reserve(length) {
            return (response, length);
        }
        self.all.metrics.count_error(self.all.listener, "no_room");
        let response = match is_grpc(response.headers()) {
            true => Status::resource_exhausted(NO_ROOM).into_http(),
            false => {
                let failure = Failure::new("no_room", StatusCode::SERVICE_UNAVAILABLE, NO_ROOM);
                problem::<Body>(&failure.problem)
            }
        };
        (response.map(Content::from), 0)
    }

    /// The response as it is sent: ended on shutdown if it has no end of its own, and with the
    /// announcement that the connection ends.
    fn finish(
        &self,
        response: Response<impl Into<Content>>,
        is_unbounded: bool,
    ) -> Response<ResponseBody> {
        let (response, reserved) = self.reserve(response.map(Into::into));
        let connection = Arc::clone(&self.connection);
        let mut response = response.map(|body| ResponseBody::new(body, reserved, connection));
        if is_unbounded {
            let shutdown = self.all.shutdown.clone();
            response = response.map(|body| body.until_stop(shutdown));
        }
        let ends = self.connection.ends() || !self.all.shutdown.is_ready();
        let is_http2 = self.connection.is_http2();
        if ends && !is_http2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        if self.connection.is_reserved() && is_http2 {
            self.connection.drain();
        }
        response
    }
}
