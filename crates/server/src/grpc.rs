//! gRPC: Envoy's rate limit service, health and reflection.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request as HttpRequest;
use axum::middleware::{Next, from_fn};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response as HttpResponse};
use prost::Message;
use tokio::time::timeout;
use tollgate_core::StoreError;
use tollgate_engine::Engine;
use tollgate_gateway::REQUEST_ID;
use tollgate_listen::Limits;
use tollgate_rls::{
    BoundedRequest, DECISIONS_SERVICE, DESCRIPTORS, ENTRIES_READ_MAX, RateLimitResponse, SERVICE,
};
use tollgate_telemetry::{RequestSpan, Tracing, Value, attribute};
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, health_reporter};

use crate::body::Content;
use crate::codec::unreadable;
use crate::metrics::{ListenerName, Metrics};
use crate::options::Options;
use crate::reply::store_unavailable;
use crate::trace::{self, CANCELED, INVALID};

/// The call that decides.
pub(crate) const DECIDE_PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The same in traces, without the slash.
const METHOD: &str = DECIDE_PATH.split_at(1).1;
/// The bytes in front of a message: whether it is compressed, and its length.
pub(crate) const FRAME_HEAD_BYTES: usize = 5;
/// How a message is compressed, which only the route rejects.
pub(crate) const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// The largest message to health and reflection, which holds a name: its buffer is allocated as
/// soon as its length is known.
const NAME_BYTES_MAX: usize = 4 * 1024;
/// The services of health checks: everything, the name that Envoy's service has, and Tollgate's.
const HEALTH_SERVICES: [&str; 4] = ["", "ratelimit", SERVICE, DECISIONS_SERVICE];

// What is not read of a descriptor is beyond all rules.
const _: () = assert!(ENTRIES_READ_MAX > tollgate_rules::DEPTH_MAX);

#[allow(missing_docs, unused_qualifications, unreachable_pub)]
#[allow(clippy::all, clippy::as_conversions)]
mod generated {
    include!(concat!(
        env!("OUT_DIR"),
        "/envoy.service.ratelimit.v3.RateLimitService.rs"
    ));
}

use generated::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};

/// Answers calls.
pub(crate) struct Calls {
    /// The name of the listener in metrics and traces.
    pub(crate) listener: ListenerName,
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    /// With who may refund units at this listener.
    pub(crate) options: Options,
    pub(crate) tracing: Tracing,
    /// How long a decision may take.
    pub(crate) body_timeout: Duration,
}

/// Answers gRPC's health checks.
#[derive(Debug)]
pub(crate) struct Health(HealthReporter);

/// The routes of the services.
pub(crate) async fn routes(calls: Arc<Calls>, limits: &Limits) -> (Router, Health) {
    let (listener, metrics) = (calls.listener, Arc::clone(&calls.metrics));
    let (body_timeout, message_bytes) = (limits.body_timeout, limits.message_bytes);
    let calls = RateLimitServiceServer::from_arc(calls).max_decoding_message_size(message_bytes);
    let (reporter, health) = health_reporter();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let known = "both sets of descriptors are compiled in";
    let reflection_v1 = reflection().build_v1().expect(known);
    // Reflection in both versions: most clients try the older one first, and some know no other.
    let reflection_v1alpha = reflection().build_v1alpha().expect(known);
    let routes = Routes::new(calls)
        .add_service(health.max_decoding_message_size(NAME_BYTES_MAX))
        .add_service(reflection_v1.max_decoding_message_size(NAME_BYTES_MAX))
        .add_service(reflection_v1alpha.max_decoding_message_size(NAME_BYTES_MAX));
    let guard = move |request: HttpRequest, next: Next| {
        guard(
            request,
            next,
            (Arc::clone(&metrics), listener),
            body_timeout,
        )
    };
    let router = routes.prepare().into_axum_router().layer(from_fn(guard));
    let health = Health(reporter);
    health.set_serving().await;
    (router, health)
}

/// Limits the time until a call's message is read and answered, and counts calls that fail.
async fn guard(
    request: HttpRequest,
    next: Next,
    (metrics, listener): (Arc<Metrics>, ListenerName),
    body_timeout: Duration,
) -> HttpResponse<Body> {
    let response = timeout(body_timeout, next.run(request)).await;
    let response = response.unwrap_or_else(|_| late(body_timeout).into_http());
    if let Some(status) = Status::from_header_map(response.headers())
        && status.code() != Code::Ok
    {
        metrics.count_error(listener, kind(status.code()));
    }
    response
}

/// The status of a call whose message did not arrive in time.
pub(crate) fn late(body_timeout: Duration) -> Status {
    let text = format!("the message did not arrive within {body_timeout:?}; send it at once");
    Status::deadline_exceeded(text)
}

#[tonic::async_trait]
impl RateLimitService for Calls {
    async fn should_rate_limit(
        &self,
        request: Request<BoundedRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        let (message, id) = self.decide(&metadata.into_headers(), &message).await?;
        let mut response = Response::new(message);
        if let Some(id) = id.and_then(|id| id.parse().ok()) {
            response.metadata_mut().insert("x-request-id", id);
        }
        Ok(response)
    }
}

// === impl Calls ===

impl Calls {
    /// Answers a call with this message, as the route would, without its layers: they cost more
    /// than the decision. `None` for a message that only the route can read or reject. A call with
    /// [`GRPC_ENCODING`] must not come here.
    pub(crate) async fn answer(
        &self,
        head: &Parts,
        message: &Bytes,
    ) -> Option<HttpResponse<Content>> {
        let message = plain_message(message)?;
        Some(match BoundedRequest::decode(message) {
            Ok(request) => self.answer_request(head, &request).await,
            Err(error) => self.failure(unreadable(&error)),
        })
    }

    /// Answers a call whose message has been read.
    pub(crate) async fn answer_request(
        &self,
        head: &Parts,
        request: &BoundedRequest,
    ) -> HttpResponse<Content> {
        let mut decided = pin!(self.decide(&head.headers, request));
        let answered = match poll_fn(|cx| Poll::Ready(decided.as_mut().poll(cx))).await {
            Poll::Ready(answered) => answered,
            // Only a call that waits for a store needs a clock.
            Poll::Pending => timeout(self.body_timeout, decided)
                .await
                .unwrap_or_else(|_| Err(late(self.body_timeout))),
        };
        match answered {
            Ok((message, id)) => response(&message, id),
            Err(status) => self.failure(status),
        }
    }

    /// The response to a call that fails, which is counted.
    fn failure(&self, status: Status) -> HttpResponse<Content> {
        self.metrics.count_error(self.listener, kind(status.code()));
        status.into_http::<Body>().map(Content::from)
    }

    /// Decides on the message of a call, and describes that in a span. The id is that of a denial
    /// that is kept.
    async fn decide(
        &self,
        metadata: &HeaderMap,
        message: &BoundedRequest,
    ) -> Result<(RateLimitResponse, Option<Box<str>>), Status> {
        let mut span = self.tracing.begin(METHOD, metadata);
        describe_call(&mut span, self.listener, METHOD);
        let answered = self.decide_in(metadata, message, &mut span).await;
        let code = answered.as_ref().map_or_else(Status::code, |_| Code::Ok);
        span.set(attribute::RPC_STATUS, || {
            Value::Text(code_name(code).into())
        });
        answered
    }

    /// Decides on the message of a call with this span.
    async fn decide_in(
        &self,
        metadata: &HeaderMap,
        message: &BoundedRequest,
        span: &mut RequestSpan,
    ) -> Result<(RateLimitResponse, Option<Box<str>>), Status> {
        let began = Instant::now();
        let request = tollgate_rls::request(&message.message).map_err(|invalid| {
            span.set_outcome(INVALID);
            Status::invalid_argument(invalid.to_string())
        })?;
        self.options.check_refund(&request).map_err(|text| {
            span.set_outcome(INVALID);
            Status::invalid_argument(text)
        })?;
        self.metrics.count_left_out(self.listener, message.left_out);
        let decided = trace::decide(&self.engine, &request, span).await;
        let decided = decided.map_err(store_failed)?;
        self.metrics
            .record_decision(self.listener, began.elapsed(), span);
        let response = self.options.response(&request, &decided);
        if decided.answer.is_allowed() {
            return Ok((response, None));
        }
        let id = metadata.get(REQUEST_ID).map(HeaderValue::as_bytes);
        let id = self.engine.keep_denial(id, &request, &decided.answer);
        if let Some(id) = &id {
            span.set(attribute::REQUEST_ID, || Value::Text(id.to_string().into()));
        }
        // In the metadata, not in the message: Envoy would add it to the response to its client.
        Ok((response, id))
    }
}

/// The message in a body of exactly one, if it is not compressed.
fn plain_message(body: &Bytes) -> Option<Bytes> {
    let is_whole =
        message_length(body).is_some_and(|length| length == body.len() - FRAME_HEAD_BYTES);
    (is_whole && body[0] == 0).then(|| body.slice(FRAME_HEAD_BYTES..))
}

/// The length of a message by the bytes in front of it, once they have arrived.
pub(crate) fn message_length(body: &[u8]) -> Option<usize> {
    let [_, a, b, c, d, ..] = *body else {
        return None;
    };
    let length = u32::from_be_bytes([a, b, c, d]);
    Some(usize::try_from(length).unwrap_or(usize::MAX))
}

/// The response with a message, as the route sends it.
fn response(message: &RateLimitResponse, id: Option<Box<str>>) -> HttpResponse<Content> {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(FRAME_HEAD_BYTES + length);
    bytes.push(0);
    // No answer comes near the 4 GiB that the length has room for.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    message.encode_raw(&mut bytes);
    let mut response = HttpResponse::new(Content::message(bytes.into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    if let Some(id) = id.and_then(|id| HeaderValue::from_str(&id).ok()) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

pub(crate) fn describe_call(span: &mut RequestSpan, listener: ListenerName, method: &'static str) {
    let text = |text: &'static str| move || Value::Text(text.into());
    span.set(attribute::LISTENER, text(listener));
    span.set(attribute::RPC_SYSTEM, text("grpc"));
    span.set(attribute::RPC_METHOD, text(method));
    span.set_outcome(CANCELED);
}

/// The name of a status in traces.
const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::Unavailable => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}

/// The status of a store's error: the only place that decides it.
fn store_failed(error: StoreError) -> Status {
    match error {
        StoreError::TooManyCharges(_) => Status::invalid_argument(error.to_string()),
        // Whatever the error of a store is, the caller can only retry or do without.
        error => Status::unavailable(store_unavailable(&error)),
    }
}

pub(crate) const fn kind(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "bad_request",
        Code::OutOfRange => "too_large",
        Code::ResourceExhausted => "no_room",
        Code::DeadlineExceeded => "timeout",
        Code::Unimplemented => "not_found",
        Code::Unavailable => "unavailable",
        _ => "internal",
    }
}

// === impl Health ===

impl Health {
    async fn set_serving(&self) {
        self.set(ServingStatus::Serving).await;
    }

    /// From now on the service accepts no more requests.
    pub(crate) async fn set_not_serving(&self) {
        self.set(ServingStatus::NotServing).await;
    }

    async fn set(&self, status: ServingStatus) {
        for service in HEALTH_SERVICES {
            self.0.set_service_status(service, status).await;
        }
    }
}
