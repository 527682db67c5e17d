//! What of a response waits to be sent.

use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use atomic_waker::AtomicWaker;
use hyper::Response;
use hyper::body::{Body, Buf, Bytes, Frame, SizeHint};
use hyper::header::HeaderMap;
use hyper::service::Service;
use pin_project_lite::pin_project;
use tokio::task_local;

use crate::outflow::Outflow;

/// The end of a response is held back while more than these bytes of it wait.
const LAST_BYTES_MAX: u64 = 1024;

task_local! {
    /// Of the response that is made in this task.
    static BACKLOG: Arc<Backlog>;
}

/// The bytes of one response that the HTTP library was given, and those of them that it has sent.
///
/// The library asks for the next part of a response before the last one has left, and not while
/// one waits, so that the body of the response cannot tell how much has left. Its bytes can.
#[derive(Debug)]
pub(crate) struct Backlog {
    given: AtomicU64,
    sent: AtomicU64,
    outflow: Arc<Outflow>,
    /// Of the task that holds back the end.
    holder: AtomicWaker,
}

/// Part of a response, whose bytes are counted as they are sent.
pub(crate) struct Part {
    data: Bytes,
    backlog: Arc<Backlog>,
}

/// Answers as `S` does; what its responses wait for is counted.
pub(crate) struct Measured<S>(
    /// What answers.
    pub(crate) S,
);

pin_project! {
    /// An answer to come.
    pub(crate) struct MeasuredAnswer<F> {
        #[pin]
        answer: F,
    }
}

pin_project! {
    /// The body of a response.
    ///
    /// Once the library has the end of a response, the task of the stream ends, and nothing watches
    /// any more whether the rest leaves. So the end is held back until nearly all has left.
    pub(crate) struct MeasuredBody<B> {
        #[pin]
        body: B,
        backlog: Arc<Backlog>,
        end: Option<End>,
    }
}

/// How a body ended.
enum End {
    Without,
    /// In a box, which few responses need.
    Trailers(Box<HeaderMap>),
}

// === impl Backlog ===

impl Backlog {
    /// Of a response that has not begun.
    pub(crate) fn new(outflow: Arc<Outflow>) -> Arc<Backlog> {
        Arc::new(Backlog {
            given: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            outflow,
            holder: AtomicWaker::new(),
        })
    }

    /// The same task, whose response this is of.
    pub(crate) fn scope<F: Future>(self: Arc<Self>, task: F) -> impl Future<Output = F::Output> {
        BACKLOG.scope(self, task)
    }

    /// How many bytes there were.
    pub(crate) fn given_bytes(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// How many of them have left.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether bytes wait.
    pub(crate) fn waits(&self) -> bool {
        self.sent_bytes() < self.given_bytes()
    }

    /// The response has ended: also one without bytes, such as to HEAD, shows that its peer goes
    /// on.
    pub(crate) fn record_end(&self) {
        self.outflow.record_sent(1);
    }

    /// Whether nearly all has left.
    fn may_end(&self) -> bool {
        self.given_bytes().saturating_sub(self.sent_bytes()) <= LAST_BYTES_MAX
    }

    /// Ready once [`Backlog::may_end`].
    fn poll_may_end(&self, cx: &Context<'_>) -> Poll<()> {
        if self.may_end() {
            return Poll::Ready(());
        }
        self.holder.register(cx.waker());
        // Bytes may have left before the waker was known.
        match self.may_end() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn record_given(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.given.fetch_add(bytes, Ordering::Relaxed);
    }

    fn record_sent(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let before = self.sent.fetch_add(bytes, Ordering::Relaxed);
        self.outflow.record_sent(bytes);
        let was_long = self.given_bytes().saturating_sub(before) > LAST_BYTES_MAX;
        if was_long && self.may_end() {
            self.holder.wake();
        }
    }
}

// === impl Part ===

impl Part {
    fn new(data: Bytes, backlog: &Arc<Backlog>) -> Part {
        backlog.record_given(data.len());
        Part {
            data,
            backlog: Arc::clone(backlog),
        }
    }
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, parts: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(parts)
    }

    fn advance(&mut self, bytes: usize) {
        self.data.advance(bytes);
        self.backlog.record_sent(bytes);
    }
}

// === impl Measured ===

impl<S: Service<R, Response = Response<B>>, R, B> Service<R> for Measured<S> {
    type Response = Response<MeasuredBody<B>>;
    type Error = S::Error;
    type Future = MeasuredAnswer<S::Future>;

    fn call(&self, request: R) -> Self::Future {
        MeasuredAnswer {
            answer: self.0.call(request),
        }
    }
}

// === impl MeasuredAnswer ===

impl<F: Future<Output = Result<Response<B>, E>>, B, E> Future for MeasuredAnswer<F> {
    type Output = Result<Response<MeasuredBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(self.project().answer.poll(cx))?;
        let backlog = BACKLOG.with(Arc::clone);
        Poll::Ready(Ok(response.map(|body| MeasuredBody {
            body,
            backlog,
            end: None,
        })))
    }
}

// === impl MeasuredBody ===

impl<B: Body<Data = Bytes>> Body for MeasuredBody<B> {
    type Data = Part;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, B::Error>>> {
        let mut this = self.project();
        if this.end.is_none() {
            let frame = ready!(this.body.as_mut().poll_frame(cx)).transpose()?;
            match frame.map(Frame::into_data) {
                // It would be sent by itself, before the end: some peers close a connection with
                // two such frames in a row.
                Some(Ok(data)) if data.is_empty() && this.body.is_end_stream() => {
                    *this.end = Some(End::Without);
                }
                Some(Ok(data)) => {
                    let part = Part::new(data, this.backlog);
                    return Poll::Ready(Some(Ok(Frame::data(part))));
                }
                Some(Err(other)) => {
                    let trailers = other.into_trailers().unwrap_or_default();
                    *this.end = Some(End::Trailers(Box::new(trailers)));
                }
                None => *this.end = Some(End::Without),
            }
        }
        ready!(this.backlog.poll_may_end(cx));
        let end = this.end.replace(End::Without);
        Poll::Ready(match end {
            Some(End::Trailers(trailers)) => Some(Ok(Frame::trailers(*trailers))),
            Some(End::Without) | None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.backlog.may_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    /// A long part, and an empty one that is the end.
    struct Marked(usize);

    impl Body for Marked {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0 += 1;
            Poll::Ready(match self.0 {
                1 => Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 2048])))),
                2 => Some(Ok(Frame::data(Bytes::new()))),
                _ => None,
            })
        }

        fn is_end_stream(&self) -> bool {
            self.0 >= 2
        }
    }

    /// The library would send it without the mark of the end, as that is held back.
    #[test]
    fn an_empty_part_at_the_end_is_held_back_with_it() {
        let mut body = pin!(MeasuredBody {
            body: Marked(0),
            backlog: Backlog::new(Arc::default()),
            end: None,
        });
        let mut context = Context::from_waker(Waker::noop());
        let first = match body.as_mut().poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
            _ => None,
        };
        let mut first = first.expect("the long part");
        assert!(body.as_mut().poll_frame(&mut context).is_pending());
        first.advance(1024);
        assert!(matches!(
            body.as_mut().poll_frame(&mut context),
            Poll::Ready(None)
        ));
    }
}
