//! The bodies of requests and responses, within the limits of their connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tollgate_listen::{Connection, ShutdownSignal};
use tonic::Status;

use crate::call_end::{CallEnd, call_end};
use crate::held_bytes::hold;

/// The error type of bodies.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request. Its bytes are reserved until it is dropped, and its end is delivered once
/// the request fits the connection's quantum.
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: Incoming,
    connection: Arc<Connection>,
    reserved: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Reading,
    /// The body has arrived completely; its end waits for the connection's quantum.
    Waiting(Option<Frame<Bytes>>),
    Ended,
}

/// The body of a response. One without an end of its own ends on shutdown, or once its connection
/// drains.
pub(crate) struct ResponseBody {
    content: Content,
    connection: Arc<Connection>,
    /// Bytes of the content that are reserved and not sent.
    reserved: usize,
    /// For responses that may never end.
    stop: Option<CallEnd>,
}

/// The bytes of a response.
pub(crate) enum Content {
    /// All of them, until they are sent.
    Whole(Option<Bytes>),
    /// As they are made.
    Parts(Body),
    /// The one message of a call that succeeds, until it is sent; then its status.
    Message(Option<Bytes>),
}

/// The error of a body for which there is no room among the bytes of unfinished requests.
///
/// [`is_no_room`] finds it in the chain of a body's error, as gRPC finds its status.
pub(crate) fn no_room() -> Status {
    Status::resource_exhausted(
        "too many bytes of unfinished requests; finish them, use fewer connections, or retry",
    )
}

/// Whether a body failed because there was no room for it.
pub(crate) fn is_no_room(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<Status>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// The trailers with which a call ends.
pub(crate) fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    let _few_headers = status.add_header(&mut trailers);
    trailers
}

/// Reads a whole body, or until `is_enough`.
///
/// A body in one piece, as nearly every body is, is not copied. Several pieces are copied, because
/// each would keep the whole buffer in memory in which it arrived.
pub(crate) async fn whole<B>(
    mut body: B,
    is_enough: impl Fn(&[u8]) -> bool,
) -> Result<Bytes, BoxError>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut pieces = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Into::into)?.into_data() else {
            continue;
        };
        if pieces.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        pieces.extend_from_slice(&data);
        if is_enough(&pieces) {
            break;
        }
    }
    Ok(pieces.freeze())
}

// === impl RequestBody ===

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, connection: Arc<Connection>) -> RequestBody {
        let is_empty = incoming.is_end_stream();
        if is_empty {
            connection.record_request(Instant::now());
        }
        RequestBody {
            incoming,
            connection,
            reserved: 0,
            state: if is_empty {
                State::Ended
            } else {
                State::Reading
            },
        }
    }

    /// All of it has arrived, or a message of a call that may never end.
    pub(crate) fn record_request(&self) {
        self.connection.record_request(Instant::now());
    }

    /// From now on, what has arrived takes so many bytes of memory; whether there is room for them.
    pub(crate) fn keep(&mut self, bytes: usize) -> bool {
        if bytes == self.reserved {
            return true;
        }
        let more = bytes.saturating_sub(self.reserved);
        if !self.connection.reserve(more) {
            return false;
        }
        self.connection
            .release((self.reserved + more).saturating_sub(bytes));
        self.reserved = bytes;
        true
    }

    /// Reads the next frame and reserves its bytes in the connection's budget. The last frame is
    /// withheld until the connection's quantum has room for a decision, because the service decides
    /// once the body is complete.
    fn poll_incoming(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
            None => {
                self.state = State::Waiting(None);
                return self.poll_waiting(cx);
            }
            Some(Err(error)) => {
                self.state = State::Ended;
                return Poll::Ready(Some(Err(error.into())));
            }
            Some(Ok(frame)) => frame,
        };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        if !self.connection.reserve(bytes) {
            self.state = State::Ended;
            return Poll::Ready(Some(Err(no_room().into())));
        }
        self.reserved += bytes;
        if self.incoming.is_end_stream() {
            self.state = State::Waiting(Some(frame));
            return self.poll_waiting(cx);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn poll_waiting(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let State::Waiting(frame) = &mut self.state else {
            return Poll::Ready(None);
        };
        ready!(self.connection.poll_decide(self.reserved, cx));
        let frame = frame.take();
        self.state = State::Ended;
        self.record_request();
        Poll::Ready(frame.map(Ok))
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        match this.state {
            State::Reading => this.poll_incoming(cx),
            State::Waiting(_) => this.poll_waiting(cx),
            State::Ended => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Reading => self.incoming.size_hint(),
            State::Waiting(frame) => {
                let data = frame.as_ref().and_then(Frame::data_ref);
                let bytes = data.map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(bytes).unwrap_or(u64::MAX))
            }
            State::Ended => SizeHint::with_exact(0),
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.connection.release(self.reserved);
    }
}

// === impl Content ===

impl Content {
    /// Its length, if that is known.
    pub(crate) fn len(&self) -> Option<usize> {
        let length = match self {
            Content::Whole(bytes) | Content::Message(bytes) => {
                return Some(bytes.as_ref().map_or(0, Bytes::len));
            }
            Content::Parts(body) => body.size_hint().exact()?,
        };
        Some(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// The message of a call, as gRPC frames it.
    pub(crate) const fn message(bytes: Bytes) -> Content {
        Content::Message(Some(bytes))
    }

    /// The next part; for the message of a call, that is its status once it has been sent.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = match self {
            Content::Whole(bytes) => bytes.take().map(Frame::data),
            Content::Parts(body) => return Pin::new(body).poll_frame(cx),
            Content::Message(message) => match message.take() {
                Some(message) => Some(Frame::data(message)),
                None => {
                    *self = Content::Whole(None);
                    let mut trailers = HeaderMap::with_capacity(1);
                    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
                    Some(Frame::trailers(trailers))
                }
            },
        };
        Poll::Ready(frame.map(Ok))
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Content {
        Content::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl From<Body> for Content {
    fn from(body: Body) -> Content {
        Content::Parts(body)
    }
}

// === impl ResponseBody ===

impl ResponseBody {
    /// A response that ends by itself, of which so many bytes are reserved.
    pub(crate) const fn new(
        content: Content,
        reserved: usize,
        connection: Arc<Connection>,
    ) -> ResponseBody {
        ResponseBody {
            content,
            connection,
            reserved,
            stop: None,
        }
    }

    /// The same, ended on shutdown, or once the connection drains.
    pub(crate) fn until_stop(mut self, shutdown: ShutdownSignal) -> ResponseBody {
        self.stop = Some(call_end(&self.connection, shutdown));
        self
    }

    /// The same frame, which keeps what is reserved for it.
    fn hold(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        if self.reserved == 0 {
            return frame;
        }
        frame.map_data(|bytes| {
            if bytes.len() > self.reserved {
                return bytes;
            }
            let length = bytes.len();
            self.reserved -= length;
            hold(bytes, length, Arc::clone(&self.connection))
        })
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let polled = this.content.poll_frame(cx);
        let polled = polled.map(|frame| frame.map(|frame| frame.map(|frame| this.hold(frame))));
        if polled.is_pending()
            && let Some(stop) = &mut this.stop
            && let Poll::Ready(status) = stop.as_mut().poll(cx)
        {
            this.stop = None;
            this.content = Content::Whole(None);
            return Poll::Ready(Some(Ok(Frame::trailers(trailers(&status)))));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_none(),
            Content::Parts(body) => body.is_end_stream(),
            Content::Message(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
            Content::Parts(body) => body.size_hint(),
            // No `content-length`, which calls do not have.
            Content::Message(_) => SizeHint::default(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.connection.release(self.reserved);
    }
}
