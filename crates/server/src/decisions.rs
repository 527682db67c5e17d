//! `tollgate.v1.Decisions`: decisions on a stream of requests.
//!
//! Nothing is queued: the requests that have arrived are decided as one batch, and no more are read
//! until the transport has taken the answers. A client that does not read is thereby not read from
//! either, and HTTP/2's flow control makes it wait.

use std::sync::Arc;
use std::time::Instant;

use tollgate_core::StoreError;
use tollgate_engine::Engine;
use tollgate_listen::{Connection, ShutdownSignal};
use tollgate_rls::decisions::{CheckRequest, CheckResponse};
use tollgate_telemetry::{TraceContext, Tracing, Value, attribute};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::grpc::{NAME, describe_call, kind};
use crate::metrics::Metrics;
use crate::reply::{store_kind, store_unavailable};
use crate::trace::describe_batch;

mod answers;
mod request;
mod response;

use answers::Answers;

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
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    tracing: Tracing,
}

// === impl DecisionCalls ===

impl DecisionCalls {
    pub(crate) fn new(
        engine: Arc<Engine>,
        metrics: Arc<Metrics>,
        tracing: Tracing,
        shutdown: ShutdownSignal,
    ) -> DecisionCalls {
        DecisionCalls {
            decider: Arc::new(Decider {
                engine,
                metrics,
                tracing,
            }),
            shutdown,
        }
    }
}

#[tonic::async_trait]
impl generated::decisions_server::Decisions for DecisionCalls {
    type CheckStream = Answers;

    async fn check(
        &self,
        request: Request<Streaming<CheckRequest>>,
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
    pub(super) fn batch_size(&self) -> usize {
        self.engine.batch_size()
    }

    /// Decides on requests that have arrived together, in their order. `caller` opened the call.
    pub(super) async fn decide(
        &self,
        messages: &[CheckRequest],
        caller: Option<TraceContext>,
    ) -> Vec<CheckResponse> {
        let began = Instant::now();
        let mut span = self.tracing.begin_batch(METHOD, caller);
        describe_call(&mut span, METHOD);
        let read: Vec<_> = messages.iter().map(request::request).collect();
        let mut requests = Vec::with_capacity(read.len());
        let mut invalid = Vec::with_capacity(read.len());
        for one in read {
            match one {
                Ok(request) => {
                    requests.push(request);
                    invalid.push(None);
                }
                Err(text) => invalid.push(Some(text)),
            }
        }
        let asked = Instant::now();
        let decided = self.engine.decide_batch(&requests).await;
        describe_batch(&mut span, &requests, &decided, asked);
        self.metrics.record_decision(NAME, began.elapsed(), &span);
        let mut decided = requests.iter().zip(decided);
        let answers = messages.iter().zip(invalid).map(|(message, invalid)| {
            if let Some(text) = invalid {
                self.metrics.count_error(NAME, kind(Code::InvalidArgument));
                return response::error_response(message.id, Code::InvalidArgument, text);
            }
            match decided.next() {
                Some((request, Ok(decided))) => {
                    let id = self.engine.keep_denial(None, request, &decided.answer);
                    if let Some(id) = id.as_deref().filter(|_| messages.len() == 1) {
                        span.set(attribute::REQUEST_ID, || Value::Text(id.to_owned().into()));
                    }
                    response::response(message.id, &decided.answer, id)
                }
                Some((_, Err(error))) => self.fail(message.id, &error),
                None => response::error_response(message.id, Code::Internal, String::new()),
            }
        });
        answers.collect()
    }

    /// The answer to a request that the store did not decide.
    fn fail(&self, id: u64, error: &StoreError) -> CheckResponse {
        self.metrics.count_error(NAME, store_kind(error));
        match error {
            StoreError::TooManyCharges(_) => {
                response::error_response(id, Code::InvalidArgument, error.to_string())
            }
            error => response::error_response(id, Code::Unavailable, store_unavailable(error)),
        }
    }

    /// Counts a call that ended with an error.
    pub(super) fn count_end(&self, status: &Status) {
        self.metrics.count_error(NAME, kind(status.code()));
    }
}
