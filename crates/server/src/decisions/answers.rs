//! The answers of one call, in the order of its requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use tollgate_listen::{Connection, ShutdownSignal};
use tollgate_rls::decisions::CheckResponse;
use tollgate_telemetry::TraceContext;
use tonic::{Status, Streaming};

use super::answer_bytes::{AnswerBytes, Answered};
use super::{Decider, RawCheck};
use crate::body::no_room;

/// The most requests of a call that are read before their answers are taken.
pub(crate) const IN_FLIGHT_MAX: usize = 256;
/// How many descriptors, and how many bytes of messages, end a batch.
const BATCH_DESCRIPTORS: usize = 512;
const BATCH_BYTES: usize = 32 * 1024;
/// The approximate size of an answer, and of its part for one descriptor.
const ANSWER_BYTES: usize = size_of::<CheckResponse>();
const STATUS_BYTES: usize = size_of::<tollgate_rls::decisions::LimitStatus>() + 64;

/// The answers of a call: reads requests when they are asked for.
pub(crate) struct Answers {
    decider: Arc<Decider>,
    /// The span that opened the call.
    caller: Option<TraceContext>,
    requests: Streaming<RawCheck>,
    connection: Arc<Connection>,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The requests that are decided next.
    batch: Vec<RawCheck>,
    deciding: Option<Deciding>,
    ready: Answered,
    /// Bytes of the requests and answers of the present batch that are reserved.
    reserved: usize,
    /// How the call ends after the answers so far.
    end: Option<Result<(), Status>>,
}

type Deciding = Pin<Box<dyn Future<Output = AnswerBytes> + Send>>;

// === impl Answers ===

impl Answers {
    /// The answers to `requests`, until they or the service end. `caller` opened the call.
    pub(super) fn new(
        decider: Arc<Decider>,
        caller: Option<TraceContext>,
        requests: Streaming<RawCheck>,
        connection: Arc<Connection>,
        mut shutdown: ShutdownSignal,
    ) -> Answers {
        Answers {
            decider,
            caller,
            requests,
            connection,
            stopped: Box::pin(async move { shutdown.wait().await }),
            batch: Vec::new(),
            deciding: None,
            ready: Answered::default(),
            reserved: 0,
            end: None,
        }
    }

    /// Reads the requests that have arrived, as many as a batch has.
    fn read_batch(&mut self, cx: &mut Context<'_>) {
        self.batch.clear();
        if self.connection.ends() || self.stopped.as_mut().poll(cx).is_ready() {
            let text = "the connection is closing; retry on a new one";
            self.end = Some(Err(Status::unavailable(text)));
            return;
        }
        let (mut bytes, mut descriptors) = (0, 0);
        let most = IN_FLIGHT_MAX.min(self.decider.batch_size());
        while self.batch.len() < most && bytes < BATCH_BYTES && descriptors < BATCH_DESCRIPTORS {
            match Pin::new(&mut self.requests).poll_next(cx) {
                Poll::Ready(Some(Ok(request))) => {
                    bytes += request.len();
                    descriptors += request.descriptors;
                    self.batch.push(request);
                }
                Poll::Ready(Some(Err(status))) => {
                    self.end = Some(Err(status));
                    break;
                }
                Poll::Ready(None) => {
                    self.end = Some(Ok(()));
                    break;
                }
                Poll::Pending => break,
            }
        }
        let held = bytes + self.batch.len() * ANSWER_BYTES + descriptors * STATUS_BYTES;
        if self.connection.reserve(held) {
            self.reserved = held;
            return;
        }
        self.end = Some(Err(no_room()));
        self.batch.clear();
    }

    /// Decides on the batch, at once if that is possible.
    fn decide_batch(&mut self) {
        let span = self.decider.begin_span(self.caller);
        if let Some(answers) = self.decider.decide_at_once(&self.batch, &span) {
            self.batch.clear();
            self.ready = answers.into();
            return;
        }
        let (decider, batch) = (Arc::clone(&self.decider), std::mem::take(&mut self.batch));
        self.deciding = Some(Box::pin(async move { decider.decide(&batch, span).await }));
    }

    /// Returns the bytes of the last batch, whose answers were taken.
    fn release(&mut self) {
        self.connection.release(std::mem::take(&mut self.reserved));
    }
}

impl Stream for Answers {
    type Item = Result<Bytes, Status>;

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Status>>> {
        let this = self.get_mut();
        loop {
            if let Some(answer) = this.ready.next() {
                return Poll::Ready(Some(Ok(answer)));
            }
            if let Some(deciding) = &mut this.deciding {
                this.ready = ready!(deciding.as_mut().poll(cx)).into();
                this.deciding = None;
                continue;
            }
            this.release();
            if let Some(end) = this.end.take() {
                // Polled again, it ends as well.
                this.end = Some(Ok(()));
                let error = end.err();
                if let Some(status) = &error {
                    this.decider.count_end(status);
                }
                return Poll::Ready(error.map(Err));
            }
            this.read_batch(cx);
            if !this.batch.is_empty() {
                this.decide_batch();
            } else if this.end.is_none() {
                // A call that waits takes no memory for a batch.
                this.batch = Vec::new();
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.release();
    }
}
