//! The body of a response: an upstream's, streamed, or a short one of our own.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tollgate_listen::Connection;

use crate::concurrency_limit::Permits;
use crate::connection_pool::Lease;
use crate::forwarding::rewrite_trailers;
use crate::log_record::LogRecord;
use crate::meter::Meter;
use crate::metrics::UpstreamMetrics;
use crate::received_body::{CutOff, ReceivedBody};
use crate::request_body::{IdleTimer, Progress};

/// The body of a response.
#[derive(Debug)]
pub struct ResponseBody {
    source: Source,
    record: LogRecord,
    /// `None` if its end says nothing about what its request costs, or has come.
    meter: Option<Box<Meter>>,
}

#[derive(Debug)]
enum Source {
    Own(Option<Bytes>),
    Upstream(Box<Streamed>),
}

/// An upstream's body, and the connection that it comes by.
#[derive(Debug)]
struct Streamed {
    incoming: ReceivedBody,
    /// Whether the response has a body by its head.
    has_body: bool,
    lease: Option<Lease>,
    idle: IdleTimer,
    idle_limit: Duration,
    metrics: Arc<UpstreamMetrics>,
    upload: Upload,
    permits: Permits,
    _in_flight: InFlight,
}

/// The body of the request, unless that is empty.
///
/// Nobody waits for the response any more when it has ended, or when it is dropped: then what is
/// still to come of the request has a bound. Before the request has ended, the HTTP library does
/// not reset the stream of a response that is dropped.
#[derive(Debug)]
struct Upload(Option<Arc<Progress>>);

/// Keeps the connection of a client from being idle while an upstream works on its request.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Connection>);

/// Why a response ends before its end.
#[derive(Debug)]
pub struct BodyError(Cause);

#[derive(Debug)]
enum Cause {
    Idle(Duration),
    Broken(CutOff),
}

/// Whether there is a body behind this head (RFC 9110, section 6.4.1).
pub(crate) fn has_body(method: &Method, status: StatusCode) -> bool {
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
    *method != Method::HEAD && !bodiless.contains(&status)
}

/// Whether this is no part of a body: its data is empty, or it is trailers. The HTTP library itself
/// rejects some bodies that must not be.
fn is_empty(polled: &Result<Frame<Bytes>, CutOff>) -> bool {
    let Ok(frame) = polled else {
        return false;
    };
    frame.data_ref().is_none_or(Bytes::is_empty)
}

// === impl ResponseBody ===

impl ResponseBody {
    /// Whether it is of the gateway, and not of an upstream.
    pub(crate) const fn is_own(&self) -> bool {
        matches!(self.source, Source::Own(_))
    }

    /// A text of our own.
    pub fn own(text: impl Into<Bytes>) -> ResponseBody {
        let text: Bytes = text.into();
        ResponseBody {
            source: Source::Own(Some(text).filter(|text| !text.is_empty())),
            record: LogRecord::default(),
            meter: None,
        }
    }

    /// An upstream's, each part of which comes within `idle_limit`. `permits` are held until it has
    /// ended.
    pub(crate) fn upstream(
        incoming: ReceivedBody,
        lease: Lease,
        idle_limit: Duration,
        metrics: Arc<UpstreamMetrics>,
        in_flight: InFlight,
        permits: Permits,
    ) -> ResponseBody {
        let mut streamed = Streamed {
            incoming,
            has_body: true,
            lease: Some(lease),
            idle: IdleTimer::new(idle_limit),
            idle_limit,
            metrics,
            upload: Upload(None),
            permits,
            _in_flight: in_flight,
        };
        streamed.finish_at_end();
        ResponseBody {
            source: Source::Upstream(Box::new(streamed)),
            record: LogRecord::default(),
            meter: None,
        }
    }

    /// Writes the access log's line when the response has ended.
    pub(crate) fn with_record(mut self, record: LogRecord) -> ResponseBody {
        self.record = record;
        self
    }

    /// Counts no failure of the upstream if this body of the request fails: it ends the connection.
    pub(crate) fn with_request(mut self, request: Option<Arc<Progress>>) -> ResponseBody {
        if let Source::Upstream(streamed) = &mut self.source {
            streamed.upload = Upload(request);
            // It may have ended with its head.
            streamed.finish_at_end();
        }
        self
    }

    /// Ends where a body would begin, unless the response has one by its head.
    pub(crate) fn with_body(mut self, has_body: bool) -> ResponseBody {
        if let Source::Upstream(streamed) = &mut self.source {
            streamed.has_body = has_body;
        }
        self
    }

    /// Watches the body for what its request costs.
    pub(crate) fn with_meter(mut self, meter: Option<Box<Meter>>) -> ResponseBody {
        self.meter = meter;
        self
    }

    fn meter_part(&mut self, polled: &Poll<Option<Result<Frame<Bytes>, BodyError>>>) {
        let Some(meter) = &mut self.meter else {
            return;
        };
        match polled {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(frame))) => {
                meter.observe(frame);
                // Nothing comes after trailers.
                if frame.is_trailers() || self.is_end_stream() {
                    self.finish_meter(true);
                }
            }
            Poll::Ready(Some(Err(_))) => self.finish_meter(false),
            Poll::Ready(None) => self.finish_meter(true),
        }
    }

    /// Settles what the request costs, before the client sees that the response has ended.
    fn finish_meter(&mut self, is_complete: bool) {
        if let Some(meter) = self.meter.take() {
            meter.finish(is_complete);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = match &mut this.source {
            Source::Own(text) => Poll::Ready(text.take().map(Frame::data).map(Ok)),
            Source::Upstream(streamed) => streamed.poll_frame(cx),
        };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => match frame.data_ref() {
                Some(data) => this.record.add_bytes(data.len()),
                None => this.record.complete(),
            },
            Poll::Ready(None) => this.record.complete(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        this.meter_part(&polled);
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Own(text) => text.is_none(),
            Source::Upstream(streamed) => streamed.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Own(text) => {
                let bytes = text.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
            Source::Upstream(streamed) if streamed.has_body => streamed.incoming.size_hint(),
            // The library would write what the head said of it into the head.
            Source::Upstream(_) => SizeHint::default(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // It may not have been asked again after its last part.
        let is_complete = self.is_end_stream();
        if is_complete {
            self.record.complete();
        }
        self.finish_meter(is_complete);
    }
}

// === impl Upload ===

impl Upload {
    fn limit_time(&self) {
        if let Some(request) = &self.0 {
            request.record_answer();
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.limit_time();
    }
}

// === impl InFlight ===

impl InFlight {
    pub(crate) fn new(connection: &Arc<Connection>) -> InFlight {
        connection.begin_request();
        InFlight(Arc::clone(connection))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.end_request(Instant::now());
    }
}

// === impl Streamed ===

impl Streamed {
    /// The next part, within the time that an upstream has for it.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Poll::Ready(polled) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            ready!(self.idle.poll(cx));
            self.metrics.count_failure("body_timeout");
            return Poll::Ready(Some(Err(BodyError(Cause::Idle(self.idle_limit)))));
        };
        self.idle.stop();
        let polled = match polled {
            None => {
                self.finish();
                None
            }
            // The head was all of it, whatever follows. What does is reset when this is dropped.
            Some(polled) if !self.has_body && !is_empty(&polled) => {
                self.finish();
                None
            }
            Some(Ok(mut frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
                    rewrite_trailers(trailers);
                }
                self.finish_at_end();
                Some(Ok(frame))
            }
            Some(Err(error)) => {
                let request = self.upload.0.as_deref();
                if request.is_none_or(|request| request.error().is_none()) {
                    self.metrics.count_failure("body");
                }
                Some(Err(BodyError(Cause::Broken(error))))
            }
        };
        Poll::Ready(polled)
    }

    /// Keeps the connection for the next request, once the last part has come.
    fn finish_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        // Before the client sees the end, so that its next request finds them.
        self.permits.release();
        self.upload.limit_time();
        if let Some(lease) = self.lease.take() {
            lease.finish();
        }
    }
}

// === impl BodyError ===

/// Without a source, in which the library would find the code of the upstream's reset, and reset
/// the client's stream with it: what it says is not true of the client's connection.
impl Error for BodyError {}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Idle(limit) => write!(f, "the upstream sent nothing for {limit:?}"),
            Cause::Broken(error) => write!(f, "the upstream's response ended too early: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::poll_fn;

    use tokio::time::{advance, pause};

    use super::*;
    use crate::request_body::UPLOAD_TIME;
    use crate::request_body::tests::unfinished;

    #[tokio::test]
    async fn a_response_that_is_dropped_bounds_its_upload() {
        let (mut body, (client, _serving)) = unfinished().await;
        let upload = Upload(body.progress());
        let part = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        assert_eq!(part.unwrap().unwrap().into_data().unwrap(), "part");
        pause();
        drop(upload);
        advance(UPLOAD_TIME + Duration::from_millis(1)).await;
        let late = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        assert!(late.unwrap().is_err());
        drop(client);
    }
}
