//! The body of a request on its way to an upstream: bounded in bytes, in the time between its
//! parts, and in the time for which its client is waited for altogether.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::forwarding::rewrite_trailers;
use crate::received_body::{CutOff, ReceivedBody};

mod arrival_pace;

use arrival_pace::ArrivalPace;

/// How long a body may go on after the end of its response: nobody waits for it any more.
pub(crate) const UPLOAD_TIME: Duration = Duration::from_secs(15);

/// In place of a time that is not known.
const UNKNOWN: u64 = u64::MAX;

/// A client's body.
#[derive(Debug)]
pub(crate) struct RequestBody {
    /// `None` for an empty body.
    incoming: Option<ReceivedBody>,
    bytes_left: u64,
    bytes_max: u64,
    pace: ArrivalPace,
    idle: IdleTimer,
    /// `None` for an empty body.
    progress: Option<Arc<Progress>>,
    /// Counts the bytes that have come.
    counter: Option<Arc<ByteCount>>,
    /// What is dropped when the body is sent.
    held: Option<Arc<dyn Held>>,
}

/// What a body may hold until it is sent.
pub(crate) trait Held: fmt::Debug + Send + Sync {}

/// Why a body did not arrive as a whole.
#[derive(Clone, Debug)]
pub(crate) enum BodyError {
    /// It has more bytes than are allowed.
    TooLarge(u64),
    /// The client sent nothing for so long.
    Idle(Duration),
    /// The client sent fewer bytes a second than this.
    Slow(u64),
    /// The connection or the stream ended, or the body is malformed.
    Incomplete(Arc<CutOff>),
    /// The response ended long before.
    Late,
}

/// How far a body has come, for the timeout of its response.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    /// How long a client may send nothing.
    idle: Duration,
    /// Milliseconds from `began` to the last part.
    last: AtomicU64,
    waits_for_client: AtomicBool,
    /// Milliseconds from `began` to the end of the response, or [`UNKNOWN`].
    answered: AtomicU64,
    /// Why it does not go on.
    error: OnceLock<BodyError>,
}

/// Ends a wait for the next part of a body.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    limit: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

/// How many bytes of a body have come.
#[derive(Debug, Default)]
pub(crate) struct ByteCount {
    bytes: AtomicU64,
    is_complete: AtomicBool,
}

// === impl RequestBody ===

impl RequestBody {
    pub(crate) fn new(
        incoming: ReceivedBody,
        bytes_max: u64,
        idle: Duration,
        rate: u64,
    ) -> RequestBody {
        let progress = (!incoming.is_end_stream()).then(|| Arc::new(Progress::new(idle)));
        RequestBody {
            incoming: Some(incoming).filter(|incoming| !incoming.is_end_stream()),
            bytes_left: bytes_max,
            bytes_max,
            pace: ArrivalPace::new(idle, rate),
            idle: IdleTimer::new(idle),
            progress,
            counter: None,
            held: None,
        }
    }

    /// Without a byte.
    pub(crate) fn empty() -> RequestBody {
        RequestBody {
            incoming: None,
            bytes_left: 0,
            bytes_max: 0,
            pace: ArrivalPace::new(Duration::ZERO, 0),
            idle: IdleTimer::new(Duration::ZERO),
            progress: None,
            counter: None,
            held: None,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.incoming.is_none()
    }

    /// Holds this until the body is sent, also if the request is answered before.
    pub(crate) fn hold(&mut self, held: Arc<dyn Held>) {
        self.held = Some(held).filter(|_| !self.is_empty());
    }

    /// Drops what it holds.
    pub(crate) fn let_go(&mut self) {
        self.held = None;
    }

    /// Adds the bytes that come to a counter.
    pub(crate) fn count_into(&mut self, counter: Arc<ByteCount>) {
        if self.is_end_stream() {
            counter.complete();
        }
        self.counter = Some(counter);
    }

    /// Tells the counter if nothing comes behind what was polled.
    fn record_end(&self, polled: Option<&Result<Frame<Bytes>, BodyError>>) {
        let is_end = match polled {
            None => true,
            Some(Ok(frame)) => frame.is_trailers() || self.is_end_stream(),
            Some(Err(_)) => false,
        };
        if let Some(counter) = self.counter.as_ref().filter(|_| is_end) {
            counter.complete();
        }
    }

    /// How far it has come; `None` if it is empty.
    pub(crate) fn progress(&self) -> Option<Arc<Progress>> {
        self.progress.clone()
    }

    fn record(&self, waits_for_client: bool) {
        if let Some(progress) = &self.progress {
            progress.record(waits_for_client);
        }
    }

    fn take_bytes(&mut self, frame: &Frame<Bytes>) -> Result<(), BodyError> {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or(BodyError::TooLarge(self.bytes_max))?;
        self.pace.add(bytes);
        if let Some(counter) = &self.counter {
            // Relaxed: `complete` publishes it.
            counter.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// As [`Body::poll_frame`].
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        // No timer: a body that is not polled, as its stream has no window, does not go on.
        if self
            .progress
            .as_ref()
            .is_some_and(|progress| progress.is_late())
        {
            return Poll::Ready(Some(Err(BodyError::Late)));
        }
        let Poll::Ready(polled) = Pin::new(incoming).poll_frame(cx) else {
            self.record(true);
            self.idle.limit = self.pace.begin_wait();
            ready!(self.idle.poll(cx));
            let missed = self.pace.missed_rate().map(BodyError::Slow);
            let error = missed.unwrap_or(BodyError::Idle(self.idle.limit));
            return Poll::Ready(Some(Err(error)));
        };
        self.idle.stop();
        self.pace.end_wait();
        self.record(false);
        let polled = polled.map(|polled| {
            let mut frame = polled.map_err(|error| BodyError::Incomplete(Arc::new(error)))?;
            self.take_bytes(&frame)?;
            if let Some(trailers) = frame.trailers_mut() {
                rewrite_trailers(trailers);
            }
            Ok(frame)
        });
        // Behind the bytes of the last frame.
        self.record_end(polled.as_ref());
        Poll::Ready(polled)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = ready!(this.poll_part(cx));
        if let (Some(Err(error)), Some(progress)) = (&polled, &this.progress) {
            // Later ones follow from the first.
            let _ = progress.error.set(error.clone());
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let incoming = self.incoming.as_ref();
        incoming.map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

// === impl ByteCount ===

impl ByteCount {
    /// The bytes until now.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether they are all.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    fn complete(&self) {
        self.is_complete.store(true, Ordering::Release);
    }
}

// === impl Progress ===

impl Progress {
    fn new(idle: Duration) -> Progress {
        Progress {
            began: Instant::now(),
            idle,
            last: AtomicU64::new(0),
            waits_for_client: AtomicBool::new(false),
            answered: AtomicU64::new(UNKNOWN),
            error: OnceLock::new(),
        }
    }

    /// Why the body does not go on, if so.
    pub(crate) fn error(&self) -> Option<&BodyError> {
        self.error.get()
    }

    fn record(&self, waits_for_client: bool) {
        // Relaxed: each is read on its own, and only to set a timer.
        self.waits_for_client
            .store(waits_for_client, Ordering::Relaxed);
        self.last.store(self.millis(), Ordering::Relaxed);
    }

    /// Milliseconds from `began`.
    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(UNKNOWN)
    }

    /// The response has ended, or was given up. The first of these counts.
    pub(crate) fn record_answer(&self) {
        self.answered.fetch_min(self.millis(), Ordering::Relaxed);
    }

    /// Whether the response ended so long ago that the body must not go on.
    fn is_late(&self) -> bool {
        let answered = Duration::from_millis(self.answered.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(answered) > UPLOAD_TIME
    }

    /// From when on nothing but the upstream can be waited for. The client may have sent more since
    /// it was last waited for, and the upstream not read it, so that wait has an end as well.
    fn last(&self) -> Instant {
        let last = self.began + Duration::from_millis(self.last.load(Ordering::Relaxed));
        match self.waits_for_client.load(Ordering::Relaxed) {
            true => last + self.idle,
            false => last,
        }
    }

    /// The time from the beginning to the last part.
    pub(crate) fn arrival_time(&self) -> Duration {
        Duration::from_millis(self.last.load(Ordering::Relaxed))
    }

    /// Whether more of the body may come.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed)
    }

    /// When a response is late, if it was due at `deadline` and a body has come further since.
    pub(crate) fn extend(&self, deadline: Instant, timeout: Duration) -> Option<Instant> {
        let extended = self.last() + timeout;
        (extended > deadline).then_some(extended)
    }
}

// === impl IdleTimer ===

impl IdleTimer {
    pub(crate) const fn new(limit: Duration) -> IdleTimer {
        IdleTimer {
            limit,
            sleep: None,
            is_waiting: false,
        }
    }

    /// Ready if nothing has come for too long. The first call begins the wait.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let limit = self.limit;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(limit)));
        if !self.is_waiting {
            self.is_waiting = true;
            sleep.as_mut().reset(Instant::now() + limit);
        }
        sleep.as_mut().poll(cx)
    }

    /// Something has come.
    pub(crate) const fn stop(&mut self) {
        self.is_waiting = false;
    }
}

// === impl BodyError ===

impl std::error::Error for BodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Incomplete(error) => Some(&**error),
            Self::TooLarge(_) | Self::Idle(_) | Self::Slow(_) | Self::Late => None,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(bytes) => write!(f, "the body is larger than {bytes} bytes"),
            Self::Idle(limit) => write!(f, "nothing of the body arrived for {limit:?}"),
            Self::Slow(rate) => write!(f, "the body comes slower than {rate} bytes a second"),
            Self::Incomplete(_) => f.write_str("the body is incomplete or malformed"),
            Self::Late => f.write_str("the body goes on long after its response"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
