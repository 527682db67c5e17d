//! Between a connection and the routes of its listener: every request and every answer, held to the
//! connection's bounds.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::time::timeout;
use tonic::Status;

use crate::body::{AnswerBody, RequestBody, is_no_room, no_room, whole};
use crate::connection::Connection;
use crate::door::Speaks;
use crate::grpc::{DECIDE_PATH, late};
use crate::metrics::{DoorName, Metrics};
use crate::phase::Stopping;
use crate::reply::{Failure, problem};

/// Metadata larger than this is reduced to what is read.
const METADATA_BYTES_KEPT: usize = 2 * 1024;
/// What a field takes beside its name and value.
const FIELD_BYTES: usize = 32;
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

/// Serves the requests of one connection.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) speaks: Speaks,
    pub(crate) door: DoorName,
    pub(crate) router: TowerToHyperService<Router>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: Stopping,
    pub(crate) connection: Arc<Connection>,
    /// How long a message may take to come.
    pub(crate) patience: Duration,
    /// The largest message that is read.
    pub(crate) message_bytes: usize,
}

type Answering =
    Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Infallible>> + Send + 'static>>;

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
        let request = match self.speaks {
            Speaks::Http1 => request,
            Speaks::Http2 => with_little_metadata(request),
        };
        let connection = Arc::clone(&self.connection);
        let request = request.map(|body| RequestBody::new(body, connection));
        let this = self.clone();
        match (self.speaks, request.uri().path()) {
            (Speaks::Http2, DECIDE_PATH) => Box::pin(async move {
                let response = this.decide(request).await;
                Ok(this.finish(response, false))
            }),
            (speaks, _) => Box::pin(async move {
                let Ok(response) = this.router.call(request).await;
                Ok(this.finish(response, speaks == Speaks::Http2))
            }),
        }
    }
}

// === impl Exchange ===

impl Exchange {
    /// What everybody is told who has no place, unless they ask about health.
    fn overloaded(&self) -> Response<Body> {
        let detail = "the service has no free connection; use fewer, or retry in a second";
        self.metrics.failed(self.door, "overloaded");
        match self.speaks {
            Speaks::Http1 => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let failure = Failure::new("overloaded", status, detail);
                problem(&failure.problem)
            }
            Speaks::Http2 => Status::unavailable(detail).into_http(),
        }
    }

    /// Answers the call that decides, once its message is there as a whole: what waits for one
    /// takes no more memory than has come of it.
    async fn decide(&self, request: Request<RequestBody>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let is_enough = |message: &[u8]| self.is_too_large(message);
        let status = match timeout(self.patience, whole(body, is_enough)).await {
            Ok(Ok(message)) => {
                let request = Request::from_parts(parts, Body::from(message));
                let Ok(response) = self.router.call(request).await;
                return response;
            }
            Ok(Err(error)) if is_no_room(&*error) => {
                self.metrics.failed(self.door, "no_room");
                no_room()
            }
            Ok(Err(error)) => Status::cancelled(format!("the message broke off: {error}")),
            Err(_) => {
                self.metrics.failed(self.door, "timeout");
                late(self.patience)
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
        usize::try_from(length).map_or(true, |length| length > self.message_bytes)
    }

    fn finish(&self, response: Response<Body>, is_open_ended: bool) -> Response<AnswerBody> {
        let connection = Arc::clone(&self.connection);
        let mut response = response.map(|body| AnswerBody::new(body, connection));
        if is_open_ended {
            let stopping = self.stopping.clone();
            response = response.map(|body| body.until_stop(stopping));
        }
        let ends = self.connection.ends() || !self.stopping.is_ready();
        if ends && self.speaks == Speaks::Http1 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        if self.connection.is_reserved() && self.speaks == Speaks::Http2 {
            self.connection.drain();
        }
        response
    }
}

/// A call without metadata that nobody reads, if there is much of it.
///
/// A call may wait for its message, and every field of its metadata keeps the buffer in memory that
/// it came in: what is kept is copied.
fn with_little_metadata(request: Request<Incoming>) -> Request<Incoming> {
    let fields = request.headers().iter();
    let bytes = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
    let path = request.uri().path().len();
    if bytes.sum::<usize>() + path <= METADATA_BYTES_KEPT {
        return request;
    }
    let (mut parts, body) = request.into_parts();
    parts.headers = copy_of_what_is_read(&parts.headers);
    parts.uri = copy_of_path(&parts.uri);
    Request::from_parts(parts, body)
}

fn copy_of_what_is_read(headers: &HeaderMap) -> HeaderMap {
    let mut copy = HeaderMap::with_capacity(METADATA_READ.len());
    for name in METADATA_READ {
        let value = headers.get(&name);
        let value = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
        if let Some(value) = value.filter(|value| value.len() <= METADATA_BYTES_KEPT) {
            copy.insert(name, value);
        }
    }
    copy
}

fn copy_of_path(uri: &Uri) -> Uri {
    let path = PathAndQuery::try_from(uri.path().to_owned());
    // A path came in, so a copy of it is one.
    path.map_or_else(|_| Uri::from_static("/"), Uri::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_that_nobody_reads_is_dropped() {
        let mut headers = HeaderMap::new();
        let kept = [("content-type", "application/grpc"), ("te", "trailers")];
        for (name, value) in kept {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let large = HeaderValue::from_bytes(&[b'x'; 4000]).expect("x is allowed");
        headers.insert("x-large", large.clone());
        headers.insert("host", large);
        let copy = copy_of_what_is_read(&headers);
        assert_eq!(copy.len(), kept.len());
        assert!(kept.iter().all(|(name, value)| copy[*name] == *value));
        assert_eq!(copy_of_path(&Uri::from_static("http://h/a/b?c")), "/a/b");
    }
}
