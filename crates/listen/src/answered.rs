//! A service whose exchanges the connection knows.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use hyper::service::Service;
use pin_project_lite::pin_project;

use crate::connection::Connection;

/// Answers as `S` does; each [`crate::exchange::Exchange`] is recorded in the connection.
pub(crate) struct Answered<S> {
    pub(crate) service: S,
    pub(crate) connection: Arc<Connection>,
}

pin_project! {
    /// An answer to come.
    pub(crate) struct Answer<F> {
        #[pin]
        answer: F,
        exchange: Option<Open>,
    }
}

pin_project! {
    /// The body of a response.
    pub(crate) struct AnswerBody<B> {
        #[pin]
        body: B,
        exchange: Option<Open>,
    }
}

/// An exchange that is complete once this is dropped.
struct Open(Arc<Connection>);

// === impl Open ===

impl Drop for Open {
    fn drop(&mut self) {
        self.0.exchange().complete();
    }
}

// === impl Answered ===

impl<S: Service<R, Response = Response<B>>, R, B> Service<R> for Answered<S> {
    type Response = Response<AnswerBody<B>>;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn call(&self, request: R) -> Self::Future {
        self.connection.exchange().begin();
        let exchange = Some(Open(Arc::clone(&self.connection)));
        Answer {
            answer: self.service.call(request),
            exchange,
        }
    }
}

// === impl Answer ===

impl<F: Future<Output = Result<Response<B>, E>>, B, E> Future for Answer<F> {
    type Output = Result<Response<AnswerBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.answer.poll(cx))?;
        let exchange = this.exchange.take();
        Poll::Ready(Ok(response.map(|body| AnswerBody { body, exchange })))
    }
}

// === impl AnswerBody ===

impl<B: Body> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
