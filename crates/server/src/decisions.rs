//! `tollgate.v1.Decisions`: decisions on a stream of requests.
//!
//! Nothing is queued: the requests that have arrived are decided as one batch, and no more are read
//! until the transport has taken the answers. A client that does not read is thereby not read from
//! either, and HTTP/2's flow control makes it wait.

use std::sync::Arc;
use std::time::Instant;
use std::vec;

use tollgate_core::{Request as Decision, StoreError};
use tollgate_engine::{Decided, Engine};
use tollgate_listen::{Connection, ShutdownSignal};
use tollgate_telemetry::{RequestSpan, TraceContext, Tracing, Value, attribute};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::grpc::{Calls, describe_call, kind};
use crate::metrics::{ListenerName, Metrics};
use crate::reply::{store_kind, store_unavailable};
use crate::trace::describe_batch;

mod answer_bytes;
mod answers;
mod codec;
mod request;
mod response;
mod wire;

use answer_bytes::AnswerBytes;
use answers::Answers;
pub(crate) use codec::RawMessages;
pub(crate) use wire::RawCheck;

/// The call.
pub(crate) const CHECK_PATH: &str = "/tollgate.v1.Decisions/Check";
/// The same in traces, without the slash.
const METHOD: &str = CHECK_PATH.split_at(1).1;
/// The largest message: its buffer is allocated as soon as its length is known.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024;

#[allow(missing_docs, unused_qualifications, unreachable_pub)]
#[allow(clippy::all, clippy::as_conversions)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/tollgate.v1.Decisions.rs"));
}

pub(crate) use generated::decisions_server::DecisionsServer;

/// Answers calls.
pub(crate) struct DecisionCalls {
    decider: Arc<Decider>,
    shutdown: ShutdownSignal,
}

/// Decides on the requests of a call.
pub(crate) struct Decider {
    listener: ListenerName,
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
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
            tracing: calls.tracing.clone(),
        };
        DecisionCalls {
            decider: Arc::new(decider),
            shutdown,
        }
    }
}

#[tonic::async_trait]
impl generated::decisions_server::Decisions for DecisionCalls {
    type CheckStream = Answers;

    async fn check(
        &self,
        request: Request<Streaming<RawCheck>>,
    ) -> Result<Response<Answers>, Status> {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let connection = connection.ok_or_else(|| Status::internal("a call without connection"))?;
        let decider = Arc::clone(&self.decider);
        let caller = decider.tracing.caller(request.metadata().as_ref());
        let requests = request.into_inner();
        let shutdown = self.shutdown.clone();
        let answers = Answers::new(decider, caller, requests, connection, shutdown);
        Ok(Response::new(answers))
    }
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
            let invalid = match request::request(check) {
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
