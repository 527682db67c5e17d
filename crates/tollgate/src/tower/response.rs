//! The response to a request: awaited, or made here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::body::ResponseBody;
use super::gate::Decided;
use super::terms::Terms;

/// The response to a request that was held first.
type Delayed<B, E> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<B>>, E>> + Send>>;

pin_project! {
    /// The response of [`RateLimit`](super::RateLimit).
    pub struct ResponseFuture<F, B, E> {
        #[pin]
        state: State<F, B, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B, E> {
        Forward { #[pin] future: F, decoration: Option<Decoration> },
        Own { response: Option<Response<String>> },
        Delayed { future: Delayed<B, E> },
    }
}

/// What the response to an allowed request gets: the headers of its answer.
pub(super) struct Decoration {
    terms: Arc<Terms>,
    decided: Decided,
}

// === impl ResponseFuture ===

impl<F, B, E> ResponseFuture<F, B, E> {
    pub(super) const fn forward(
        future: F,
        decoration: Option<Decoration>,
    ) -> ResponseFuture<F, B, E> {
        ResponseFuture {
            state: State::Forward { future, decoration },
        }
    }

    pub(super) const fn own(response: Response<String>) -> ResponseFuture<F, B, E> {
        ResponseFuture {
            state: State::Own {
                response: Some(response),
            },
        }
    }

    pub(super) fn delay(
        future: impl Future<Output = Result<Response<ResponseBody<B>>, E>> + Send + 'static,
    ) -> ResponseFuture<F, B, E> {
        ResponseFuture {
            state: State::Delayed {
                future: Box::pin(future),
            },
        }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<ResponseBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Forward { future, decoration } => {
                let response = ready!(future.poll(cx))?;
                Poll::Ready(Ok(match decoration.take() {
                    Some(decoration) => decoration.apply(response),
                    None => response.map(ResponseBody::inner),
                }))
            }
            StateProjection::Own { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response.map(ResponseBody::own))),
                None => panic!("polled again after it was ready"),
            },
            StateProjection::Delayed { future } => future.as_mut().poll(cx),
        }
    }
}

impl<F, B, E> std::fmt::Debug for ResponseFuture<F, B, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

// === impl Decoration ===

impl Decoration {
    pub(super) const fn new(terms: Arc<Terms>, decided: Decided) -> Decoration {
        Decoration { terms, decided }
    }

    pub(super) fn apply<B>(self, mut response: Response<B>) -> Response<ResponseBody<B>> {
        self.decided
            .decorate(&self.terms.responder, response.headers_mut());
        response.map(ResponseBody::inner)
    }
}
