//! The answers of one call, in the order of its requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame};
use tollgate_listen::{Connection, ShutdownSignal};
use tollgate_rls::decisions::CheckResponse;
use tollgate_telemetry::TraceContext;
use tonic::{Code, Status};

use super::answer_bytes::AnswerBytes;
use super::requests::Requests;
use super::{Decider, RawCheck};
use crate::body::{no_room, trailers};
use crate::call_end::{CallEnd, call_end};
use crate::held_bytes::{ANSWER_BYTES_FREE, hold};

/// The most requests of a call that are read before their answers are taken.
pub(crate) const IN_FLIGHT_MAX: usize = 256;
/// How many descriptors, and how many bytes of messages, end a batch.
const BATCH_DESCRIPTORS: usize = 512;
const BATCH_BYTES: usize = 32 * 1024;
/// The approximate size of an answer, and of its part for one descriptor.
const ANSWER_BYTES: usize = size_of::<CheckResponse>();
const STATUS_BYTES: usize = size_of::<tollgate_rls::decisions::LimitStatus>() + 64;

/// The answers of a call, as its body: reads requests when they are asked for.
pub(crate) struct Answers {
    decider: Arc<Decider>,
    /// The span that opened the call.
    caller: Option<TraceContext>,
    requests: Requests,
    connection: Arc<Connection>,
    stopped: CallEnd,
    /// The requests that are decided next.
    batch: Vec<RawCheck>,
    /// Those of the same batch that come after them, because there was no room for all.
    rest: Vec<RawCheck>,
    deciding: Option<Deciding>,
    /// Bytes of the requests in both that are reserved.
    waiting: usize,
    /// Bytes reserved for what is being decided: its requests, and its answers as estimated.
    reserved: usize,
    /// The status with which the call ends after the answers so far.
    end: Option<Status>,
    has_ended: bool,
}

type Deciding = Pin<Box<dyn Future<Output = AnswerBytes> + Send>>;

// === impl Answers ===

impl Answers {
    /// The answers to `requests`, until they or the service end, or `connection` drains. `caller`
    /// opened the call.
    pub(super) fn new(
        decider: Arc<Decider>,
        caller: Option<TraceContext>,
        requests: Requests,
        connection: Arc<Connection>,
        shutdown: ShutdownSignal,
    ) -> Answers {
        Answers {
            decider,
            caller,
            requests,
            stopped: call_end(&connection, shutdown),
            connection,
            batch: Vec::new(),
            rest: Vec::new(),
            deciding: None,
            waiting: 0,
            reserved: 0,
            end: None,
            has_ended: false,
        }
    }

    /// Takes the requests that are decided next, as many as there is room for.
    fn next_batch(&mut self, cx: &mut Context<'_>) {
        self.batch.clear();
        if let Poll::Ready(status) = self.stopped.as_mut().poll(cx) {
            self.fail(status);
            return;
        }
        match self.rest.is_empty() {
            true => self.receive(cx),
            false => self.batch = std::mem::take(&mut self.rest),
        }
        while !self.batch.is_empty() {
            let answers = answer_bytes(&self.batch);
            if self.connection.reserve(answers) {
                let requests = request_bytes(&self.batch);
                self.waiting -= requests;
                self.reserved = requests + answers;
                return;
            }
            if self.batch.len() == 1 {
                self.fail(no_room());
                return;
            }
            let second_half = self.batch.split_off(self.batch.len() / 2);
            self.rest.splice(..0, second_half);
        }
    }

    /// Ends the call with an error: what has no answer is not decided.
    fn fail(&mut self, status: Status) {
        self.batch.clear();
        self.rest.clear();
        self.connection.release(std::mem::take(&mut self.waiting));
        self.end = Some(status);
    }

    /// Reads a batch and reserves what its requests take, until each part of it is answered.
    fn receive(&mut self, cx: &mut Context<'_>) {
        self.read_batch(cx);
        let requests = request_bytes(&self.batch);
        match self.connection.reserve(requests) {
            true => self.waiting = requests,
            false => self.fail(no_room()),
        }
    }

    /// Reads the requests that have arrived, as many as a batch has.
    fn read_batch(&mut self, cx: &mut Context<'_>) {
        let (mut bytes, mut descriptors) = (0, 0);
        let most = IN_FLIGHT_MAX.min(self.decider.batch_size());
        while self.batch.len() < most && bytes < BATCH_BYTES && descriptors < BATCH_DESCRIPTORS {
            match self.requests.poll_next(cx) {
                Poll::Ready(Some(Ok(request))) => {
                    bytes += request.len();
                    descriptors += request.descriptors;
                    self.batch.push(request);
                }
                Poll::Ready(Some(Err(status))) => {
                    self.end = Some(status);
                    break;
                }
                Poll::Ready(None) => {
                    self.end = Some(Status::ok(""));
                    break;
                }
                Poll::Pending => break,
            }
        }
    }

    /// Decides on the batch, at once if that is possible.
    fn decide_batch(&mut self) -> Option<AnswerBytes> {
        let span = self.decider.begin_span(self.caller);
        if let Some(answers) = self.decider.decide_at_once(&self.batch, &span) {
            self.batch.clear();
            return Some(answers);
        }
        let (decider, batch) = (Arc::clone(&self.decider), std::mem::take(&mut self.batch));
        self.deciding = Some(Box::pin(async move { decider.decide(&batch, span).await }));
        None
    }

    /// The answers to a batch as they are sent. Until then they are reserved, if they are long, and
    /// nothing else of the batch is.
    fn send(&mut self, answers: AnswerBytes) -> Bytes {
        let wanted = match answers.len() {
            ..=ANSWER_BYTES_FREE => 0,
            length => length,
        };
        let more = wanted.saturating_sub(self.reserved);
        // What has been decided is answered, even if there is no room for all of it.
        if self.connection.reserve(more) {
            self.reserved += more;
        }
        let kept = wanted.min(self.reserved);
        self.reserved -= kept;
        self.release();
        match kept {
            0 => answers.into(),
            _ => hold(answers.into(), kept, Arc::clone(&self.connection)),
        }
    }

    /// Returns what is reserved for the present batch.
    fn release(&mut self) {
        self.connection.release(std::mem::take(&mut self.reserved));
    }

    /// The answers to the next batch; `None` once the call ends.
    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<Option<AnswerBytes>> {
        loop {
            if let Some(deciding) = &mut self.deciding {
                let answers = ready!(deciding.as_mut().poll(cx));
                self.deciding = None;
                return Poll::Ready(Some(answers));
            }
            if self.rest.is_empty() && (self.end.is_some() || self.has_ended) {
                return Poll::Ready(None);
            }
            self.next_batch(cx);
            if self.batch.is_empty() && self.end.is_none() {
                // A call that waits takes no memory for a batch.
                self.batch = Vec::new();
                return Poll::Pending;
            }
            if !self.batch.is_empty()
                && let Some(answers) = self.decide_batch()
            {
                return Poll::Ready(Some(answers));
            }
        }
    }

    /// The trailers of the call, once.
    fn trailers(&mut self) -> Option<HeaderMap> {
        let status = self.end.take()?;
        self.has_ended = true;
        // A call that its client has ended has failed for nobody.
        if !matches!(status.code(), Code::Ok | Code::Cancelled) {
            self.decider.count_end(&status);
        }
        Some(trailers(&status))
    }
}

/// What the requests of a batch take.
fn request_bytes(batch: &[RawCheck]) -> usize {
    batch.iter().map(RawCheck::len).sum()
}

/// What their answers take, as estimated.
fn answer_bytes(batch: &[RawCheck]) -> usize {
    let of_each = |request: &RawCheck| ANSWER_BYTES + request.descriptors * STATUS_BYTES;
    batch.iter().map(of_each).sum()
}

impl Body for Answers {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let frame = match ready!(this.poll_answers(cx)) {
            Some(answers) => Some(Frame::data(this.send(answers))),
            None => this.trailers().map(Frame::trailers),
        };
        Poll::Ready(frame.map(Ok))
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.release();
        self.connection.release(self.waiting);
    }
}
