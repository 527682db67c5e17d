//! The service: a request is decided on, and then passed on or answered.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::body::ResponseBody;
use super::gate::Outcome;
use super::response::{Decoration, ResponseFuture};
use super::terms::Terms;

/// A service whose requests are limited; made by
/// [`RateLimitLayer`](super::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    terms: Arc<Terms>,
}

// === impl RateLimit ===

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    ReqBody: Send + 'static,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, ResBody, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    /// Decides on the request. Unless it is passed on at once, what made the inner service ready is
    /// released.
    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (head, body) = request.into_parts();
        let terms = &self.terms;
        let decided = match terms.decide(&head) {
            Outcome::Unlimited => None,
            Outcome::Decided(decided) => Some(decided),
            Outcome::Failed(problem) => {
                let own = terms.responder.fail(&problem, &head.method, &head.headers);
                self.release_inner();
                return ResponseFuture::own(own);
            }
            Outcome::Delayed(decided) => {
                let terms = Arc::clone(terms);
                self.release_inner();
                let mut inner = self.inner.clone();
                return ResponseFuture::delay(async move {
                    let decided = match decided.await {
                        Ok(decided) => decided,
                        Err(problem) => {
                            let own = terms.responder.fail(&problem, &head.method, &head.headers);
                            return Ok(own.map(ResponseBody::own));
                        }
                    };
                    if let Some(denial) = decided.denial(&terms.responder, &head) {
                        return Ok(denial.map(ResponseBody::own));
                    }
                    poll_fn(|context| inner.poll_ready(context)).await?;
                    let response = inner.call(Request::from_parts(head, body)).await?;
                    Ok(Decoration::new(terms, decided).apply(response))
                });
            }
        };
        if let Some(decided) = &decided
            && let Some(denial) = decided.denial(&terms.responder, &head)
        {
            self.release_inner();
            return ResponseFuture::own(denial);
        }
        let decoration = decided.map(|decided| Decoration::new(Arc::clone(terms), decided));
        let future = self.inner.call(Request::from_parts(head, body));
        ResponseFuture::forward(future, decoration)
    }
}

impl<S> RateLimit<S> {
    pub(super) const fn new(inner: S, terms: Arc<Terms>) -> RateLimit<S> {
        RateLimit { inner, terms }
    }
}

impl<S: Clone> RateLimit<S> {
    /// Releases what made the inner service ready, such as a permit of a concurrency limit: the
    /// request does not need it, or not yet, and others do. The clone that takes its place must be
    /// polled to readiness before it is called.
    fn release_inner(&mut self) {
        self.inner = self.inner.clone();
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
