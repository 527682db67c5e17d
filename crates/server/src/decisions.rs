//! `tollgate.v1.Decisions`: decisions on a stream of requests.
//!
//! Nothing is queued: the requests that have arrived are decided as one batch, and no more are read
//! until the transport has taken the answers. A client that does not read is thereby not read from
//! either, and HTTP/2's flow control makes it wait.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec;

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use tollgate_core::{Request as Decision, StoreError};
use tollgate_engine::{Decided, Engine};
use tollgate_listen::{Connection, ShutdownSignal};
use tollgate_telemetry::{RequestSpan, TraceContext, Tracing, Value, attribute};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::body::{Content, RequestBody};
use crate::grpc::{Calls, GRPC_ENCODING, describe_call, kind};
use crate::metrics::{ListenerName, Metrics};
use crate::options::Options;
use crate::reply::{store_kind, store_unavailable};
use crate::trace::describe_batch;

mod answer_bytes;
mod answers;
mod request;
mod requests;
mod response;
mod wire;

use answer_bytes::AnswerBytes;
use answers::Answers;
use requests::Requests;
pub(crate) use wire::RawCheck;

/// The call.
pub(crate) const CHECK_PATH: &str = "/tollgate.v1.Decisions/Check";
/// The same in traces, without the slash.
const METHOD: &str = CHECK_PATH.split_at(1).1;

/// Answers calls.
pub(crate) struct DecisionCalls {
    decider: Arc<Decider>,
    shutdown: ShutdownSignal,
    /// How long the rest of a message may take to arrive.
    body_timeout: Duration,
}

/// Decides on the requests of a call.
pub(crate) struct Decider {
    listener: ListenerName,
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    options: Options,
    tracing: Tracing,
}

/// The answers to requests that have arrived together, in their order.
struct Batch<'d> {
    decider: &'d Decider,
    /// The requests that have no answer yet.
    asked: vec::IntoIter<AskedFor>,
    answers: AnswerBytes,
}

/// A request, by its id, and what is wrong with it, if anything is.
struct AskedFor {
    id: u64,
    invalid: Option<String>,
}

// === impl DecisionCalls ===

impl DecisionCalls {
    /// Decides as `calls` do, on the same listener.
    pub(crate) fn new(calls: &Calls, shutdown: ShutdownSignal) -> DecisionCalls {
        let decider = Decider {
            listener: calls.listener,
            engine: Arc::clone(&calls.engine),
            metrics: Arc::clone(&calls.metrics),
            options: calls.options,
            tracing: calls.tracing.clone(),
        };
        DecisionCalls {
            decider: Arc::new(decider),
            shutdown,
            body_timeout: calls.body_timeout,
        }
    }

    /// Answers a call.
    pub(crate) fn answer(
        &self,
        headers: &HeaderMap,
        body: RequestBody,
        connection: &Arc<Connection>,
    ) -> Response<Content> {
        if let Some(unsupported) = compression(headers) {
            self.decider.count_end(&unsupported);
            return unsupported.into_http::<Body>().map(Content::from);
        }
        let caller = self.decider.tracing.caller(headers);
        let answers = Answers::new(
            Arc::clone(&self.decider),
            caller,
            Requests::new(body, self.body_timeout),
            Arc::clone(connection),
            self.shutdown.clone(),
        );
        let mut response = Response::new(Content::from(Body::new(answers)));
        let media_type = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(CONTENT_TYPE, media_type);
        response
    }
}

/// The status of a call whose messages are compressed, as gRPC's specification "Compression" wants
/// it.
fn compression(headers: &HeaderMap) -> Option<Status> {
    let encoding = headers.get(GRPC_ENCODING)?;
    if encoding == "identity" {
        return None;
    }
    let text = "compressed messages are not read; send them without `grpc-encoding`";
    let mut metadata = MetadataMap::new();
    metadata.insert(
        "grpc-accept-encoding",
        MetadataValue::from_static("identity"),
    );
    let code = Code::Unimplemented;
    Some(Status::with_metadata(code, text, metadata))
}

// === impl Decider ===

impl Decider {
    /// [`Engine::batch_size`].
    fn batch_size(&self) -> usize {
        self.engine.batch_size()
    }

    /// Begins the span of a batch. `caller` opened the call.
    fn begin_span(&self, caller: Option<TraceContext>) -> RequestSpan {
        let mut span = self.tracing.begin_batch(METHOD, caller);
        describe_call(&mut span, self.listener, METHOD);
        span
    }

    /// Decides on requests that have arrived together, in their order, if they are decided in
    /// memory: nothing waits then. Only those that nobody traces: a span needs all decisions.
    fn decide_at_once(&self, messages: &[RawCheck], span: &RequestSpan) -> Option<AnswerBytes> {
        if !self.engine.is_in_memory() || span.is_sampled() {
            return None;
        }
        let began = Instant::now();
        let (requests, mut batch) = self.read(messages);
        let add = |request: &_, decided| {
            batch.add(request, decided);
        };
        let _is_in_memory = self.engine.decide_at_once(&requests, add);
        self.metrics
            .record_decision(self.listener, began.elapsed(), span);
        Some(batch.finish())
    }

    /// Decides on requests that have arrived together, in their order.
    async fn decide(&self, messages: &[RawCheck], mut span: RequestSpan) -> AnswerBytes {
        let began = Instant::now();
        let (requests, mut batch) = self.read(messages);
        let asked = Instant::now();
        let decided = self.engine.decide_batch(&requests).await;
        describe_batch(&mut span, &requests, &decided, asked);
        self.metrics
            .record_decision(self.listener, began.elapsed(), &span);
        for (request, decided) in requests.iter().zip(decided) {
            let id = batch.add(request, decided);
            if let Some(id) = id.filter(|_| messages.len() == 1) {
                span.set(attribute::REQUEST_ID, || {
                    Value::Text(id.into_string().into())
                });
            }
        }
        batch.finish()
    }

    /// The requests that are valid, and the answers to all of them, of which there are none yet.
    fn read<'m>(&self, messages: &'m [RawCheck]) -> (Vec<Decision<'m>>, Batch<'_>) {
        let mut requests = Vec::with_capacity(messages.len());
        let mut asked = Vec::with_capacity(messages.len());
        for message in messages {
            let check = message.check();
            let id = check.id;
            let invalid = match request::request(check, self.options) {
                Ok(request) => {
                    requests.push(request);
                    None
                }
                Err(text) => Some(text),
            };
            asked.push(AskedFor { id, invalid });
        }
        let batch = Batch {
            decider: self,
            asked: asked.into_iter(),
            answers: AnswerBytes::with_capacity(messages.len()),
        };
        (requests, batch)
    }

    /// Counts a call that ended with an error.
    fn count_end(&self, status: &Status) {
        self.count_error(kind(status.code()));
    }

    fn count_error(&self, kind: &'static str) {
        self.metrics.count_error(self.listener, kind);
    }
}

// === impl Batch ===

impl Batch<'_> {
    /// Adds the answer to the next request that is valid, and those to the ones before it. Returns
    /// the id under which its denial is kept.
    fn add(
        &mut self,
        request: &Decision<'_>,
        decided: Result<Decided, StoreError>,
    ) -> Option<Box<str>> {
        let id = self.reject_invalid()?;
        match decided {
            Ok(Decided { answer, .. }) => {
                let engine = &self.decider.engine;
                let kept = engine.keep_denial(None, request, &answer);
                self.answers
                    .add(|out| response::write_response(id, &answer, kept.as_deref(), out));
                kept
            }
            Err(error) => {
                self.fail(id, &error);
                None
            }
        }
    }

    /// Adds the answers to the next requests as long as they are invalid, and returns the id of the
    /// one after them, if there is one.
    fn reject_invalid(&mut self) -> Option<u64> {
        for AskedFor { id, invalid } in self.asked.by_ref() {
            let Some(text) = invalid else {
                return Some(id);
            };
            let code = Code::InvalidArgument;
            self.decider.count_error(kind(code));
            self.answers
                .add(|out| response::write_error(id, code, text, out));
        }
        None
    }

    /// Adds the answer to a request that the store did not decide.
    fn fail(&mut self, id: u64, error: &StoreError) {
        self.decider.count_error(store_kind(error));
        let (code, text) = match error {
            StoreError::TooManyCharges(_) => (Code::InvalidArgument, error.to_string()),
            error => (Code::Unavailable, store_unavailable(error)),
        };
        self.answers
            .add(|out| response::write_error(id, code, text, out));
    }

    fn finish(mut self) -> AnswerBytes {
        self.reject_invalid();
        self.answers
    }
}
