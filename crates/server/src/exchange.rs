//! Between a connection and the routes of its listener: every request and every answer, held to the
//! connection's bounds.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::time::timeout;
use tollgate_listen::{Connection, Door, Handler, Limits, Speaks, Stopping};
use tonic::Status;

use crate::body::{AnswerBody, RequestBody, is_no_room, no_room, whole};
use crate::grpc::{DECIDE_PATH, late};
use crate::head::{Rejection, check_grpc, check_http1};
use crate::metrics::{DoorName, Metrics};
use crate::reply::{Failure, problem};

/// No field that is read is longer.
const FIELD_BYTES_KEPT: usize = 1024;
/// Calls whose messages are answered one by one as they come.
const STREAM_PATHS: &str = "/grpc.reflection.";
/// The metadata that anybody here reads.
const METADATA_READ: [HeaderName; 9] = [
    CONTENT_TYPE,
    CONTENT_LENGTH,
    TE,
    HOST,
    ACCEPT_ENCODING,
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static("grpc-message-type"),
];
/// What a connection without a place of its own may ask.
const HEALTH_PATHS: [&str; 3] = ["/healthz", "/readyz", "/grpc.health.v1.Health/Check"];

/// Serves the connections of one listener.
#[derive(Clone)]
pub(crate) struct Exchanges {
    speaks: Speaks,
    door: DoorName,
    router: TowerToHyperService<Router>,
    metrics: Arc<Metrics>,
    stopping: Stopping,
    /// How long a message may take to come.
    patience: Duration,
    /// The largest message that is read.
    message_bytes: usize,
}

/// Serves the requests of one connection.
#[derive(Clone)]
pub(crate) struct Exchange {
    all: Exchanges,
    connection: Arc<Connection>,
}

type Answering =
    Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Infallible>> + Send + 'static>>;

// === impl Exchanges ===

impl Exchanges {
    pub(crate) fn new(
        door: &Door,
        router: Router,
        limits: &Limits,
        metrics: &Arc<Metrics>,
        stopping: &Stopping,
    ) -> Exchanges {
        Exchanges {
            speaks: door.speaks(),
            door: door.name(),
            router: TowerToHyperService::new(router),
            metrics: Arc::clone(metrics),
            stopping: stopping.clone(),
            patience: limits.body_timeout,
            message_bytes: limits.message_bytes,
        }
    }
}

impl Handler for Exchanges {
    type Body = AnswerBody;
    type Service = Exchange;

    fn service(&self, connection: &Arc<Connection>) -> Exchange {
        Exchange {
            all: self.clone(),
            connection: Arc::clone(connection),
        }
    }

    fn opened(&self) {
        self.metrics.connections(self.door).inc();
    }

    fn ended(&self) {
        self.metrics.connections(self.door).dec();
    }

    fn closed(&self, reason: &'static str) {
        self.metrics.closed(self.door, reason);
    }

    fn failed(&self, kind: &'static str) {
        self.metrics.failed(self.door, kind);
    }
}

// === impl Exchange ===

impl Service<Request<Incoming>> for Exchange {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let is_health = HEALTH_PATHS.contains(&request.uri().path());
        if self.connection.is_reserved() && !is_health {
            let answer = self.finish(self.overloaded(), false);
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let (head, body) = request.into_parts();
        let checked = match self.all.speaks {
            Speaks::Http1 => check_http1(&head),
            Speaks::Http2 => check_grpc(&head),
        };
        if let Err(rejection) = checked {
            let answer = self.reject(&rejection);
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let body = RequestBody::new(body, Arc::clone(&self.connection));
        let request = Request::from_parts(head, body);
        let this = self.clone();
        if self.all.speaks == Speaks::Http1 {
            return Box::pin(async move {
                let Ok(response) = this.all.router.call(request).await;
                Ok(this.finish(response, false))
            });
        }
        let path = request.uri().path();
        let (has_end, is_stream) = (path == DECIDE_PATH, path.starts_with(STREAM_PATHS));
        Box::pin(async move {
            let response = if is_stream {
                let (parts, body) = request.into_parts();
                let request = Request::from_parts(copy_of_what_is_read(parts), body);
                let Ok(response) = this.all.router.call(request).await;
                response
            } else {
                this.collect(request).await
            };
            Ok(this.finish(response, !has_end))
        })
    }
}

impl Exchange {
    /// What everybody is told who has no place, unless they ask about health.
    fn overloaded(&self) -> Response<Body> {
        let detail = "the service has no free connection; use fewer, or retry in a second";
        self.all.metrics.failed(self.all.door, "overloaded");
        match self.all.speaks {
            Speaks::Http1 => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let failure = Failure::new("overloaded", status, detail);
                problem(&failure.problem)
            }
            Speaks::Http2 => Status::unavailable(detail).into_http(),
        }
    }

    /// The answer to a request that is not looked at beyond its head.
    fn reject(&self, rejection: &Rejection) -> Response<AnswerBody> {
        self.all.metrics.failed(self.all.door, rejection.kind());
        self.finish(rejection.response(), false)
    }

    /// Answers a call once its message is there as a whole: what waits for one takes no more memory
    /// than has come of it. Its bytes count until it is answered.
    async fn collect(&self, request: Request<RequestBody>) -> Response<Body> {
        let (mut parts, mut body) = request.into_parts();
        let is_enough = |message: &[u8]| self.is_too_large(message);
        let mut message = pin!(whole(&mut body, is_enough));
        let at_once = poll_fn(|cx| Poll::Ready(message.as_mut().poll(cx))).await;
        let message = match at_once {
            Poll::Ready(message) => Ok(message),
            Poll::Pending => {
                parts = copy_of_what_is_read(parts);
                timeout(self.all.patience, message).await
            }
        };
        let status = match message {
            Ok(Ok(message)) if !self.is_too_large(&message) && !is_one_message(&message) => {
                self.all.metrics.failed(self.all.door, "bad_request");
                Status::unimplemented("this method takes exactly one message")
            }
            Ok(Ok(message)) => {
                let request = Request::from_parts(parts, Body::from(message));
                let Ok(response) = self.all.router.call(request).await;
                return response;
            }
            Ok(Err(error)) if is_no_room(&*error) => {
                self.all.metrics.failed(self.all.door, "no_room");
                no_room()
            }
            Ok(Err(error)) => Status::cancelled(format!("the message broke off: {error}")),
            Err(_) => {
                self.all.metrics.failed(self.all.door, "timeout");
                late(self.all.patience)
            }
        };
        status.into_http()
    }

    /// Whether a message says that it is larger than any that is read: then it is refused for that,
    /// and the rest of it is not waited for.
    fn is_too_large(&self, message: &[u8]) -> bool {
        let [_, a, b, c, d, ..] = *message else {
            return false;
        };
        let length = u32::from_be_bytes([a, b, c, d]);
        usize::try_from(length).map_or(true, |length| length > self.all.message_bytes)
    }

    fn finish(&self, response: Response<Body>, is_open_ended: bool) -> Response<AnswerBody> {
        let connection = Arc::clone(&self.connection);
        let mut response = response.map(|body| AnswerBody::new(body, connection));
        if is_open_ended {
            let stopping = self.all.stopping.clone();
            response = response.map(|body| body.until_stop(stopping));
        }
        let ends = self.connection.ends() || !self.all.stopping.is_ready();
        if ends && self.all.speaks == Speaks::Http1 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        if self.connection.is_reserved() && self.all.speaks == Speaks::Http2 {
            self.connection.drain();
        }
        response
    }
}

/// Whether there is one message, or the beginning of one: the routes say what is wrong with that.
///
/// By themselves they would skip every message but the first, and call it an internal error if
/// there is none.
fn is_one_message(body: &[u8]) -> bool {
    match *body {
        [] => false,
        [_, a, b, c, d, ref message @ ..] => {
            let length = u32::from_be_bytes([a, b, c, d]);
            usize::try_from(length).is_ok_and(|length| message.len() <= length)
        }
        _ => true,
    }
}

/// What is read of a call's head, copied.
///
/// A call may wait for its message, and every field of its head keeps the buffer in memory that it
/// came in.
fn copy_of_what_is_read(mut head: Parts) -> Parts {
    let mut copy = HeaderMap::with_capacity(METADATA_READ.len());
    for name in METADATA_READ {
        let value = head.headers.get(&name);
        let value = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
        if let Some(value) = value.filter(|value| value.len() <= FIELD_BYTES_KEPT) {
            copy.insert(name, value);
        }
    }
    head.headers = copy;
    let path = PathAndQuery::try_from(head.uri.path().to_owned());
    // A path came in, so a copy of it is one.
    head.uri = path.map_or_else(|_| Uri::from_static("/"), Uri::from);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_that_nobody_reads_is_dropped() {
        let kept = [("content-type", "application/grpc"), ("te", "trailers")];
        let large = HeaderValue::from_bytes(&[b'x'; 4000]).expect("x is allowed");
        let mut request = Request::builder().uri("http://h/a/b?c");
        for (name, value) in kept {
            request = request.header(name, value);
        }
        request = request
            .header("x-large", large.clone())
            .header("host", large);
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let head = copy_of_what_is_read(head);
        assert_eq!(head.headers.len(), kept.len());
        assert!(
            kept.iter()
                .all(|(name, value)| head.headers[*name] == *value)
        );
        assert_eq!(head.uri, "/a/b");
    }
}
