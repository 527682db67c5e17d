//! `/v1/check`: one check, or a list of them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response};
use hyper::body::Body as HttpBody;
use tollgate_core::{Request, StoreError};
use tollgate_engine::{Decided, ReservationReceipt};
use tollgate_gateway::{keep_denial, request_id};
use tollgate_telemetry::RequestSpan;

use super::{AppState, CHECK_PATH, NAME, has_no_query};
use crate::body::BoxError;
use crate::check::{Batch, BatchAnswers, Check, verdict};
use crate::media_type::is_json;
use crate::reply::Failure;
use crate::trace;

impl AppState {
    /// Answers a request of `/v1/check`, whose head was checked.
    pub(crate) async fn answer_check<B>(&self, head: &Parts, body: &mut B) -> Response<Bytes>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let mut span = self.begin_span(&head.method, &head.headers, CHECK_PATH);
        let answered = self.check(head, body, &mut span).await;
        self.finish(answered, &mut span)
    }

    /// Decides on a request of `/v1/check`, or reserves for it.
    async fn check<B>(
        &self,
        head: &Parts,
        body: &mut B,
        span: &mut RequestSpan,
    ) -> Result<Response<Bytes>, Failure>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        has_no_query(&head.uri)?;
        is_json(&head.headers)?;
        let body = self.read(head, body).await?;
        // In boxes, so that the future of every other request is small.
        if Batch::is_batch(&body) {
            return Box::pin(self.check_batch(&body, head, span)).await;
        }
        let check = Check::read(&body)?;
        if self.engine.is_in_memory()
            && !span.is_sampled()
            && !check.is_reservation()
            && let Some(answered) = self.check_at_once(&check, head, span)
        {
            return answered;
        }
        Box::pin(self.check_in_store(check, head, span)).await
    }

    /// Decides on a check that reserves nothing. `None` if the store is not in memory.
    fn check_at_once(
        &self,
        check: &Check<'_>,
        head: &Parts,
        span: &RequestSpan,
    ) -> Option<Result<Response<Bytes>, Failure>> {
        let mut answered = None;
        let requests = match self.request_of(check) {
            Ok(request) => [request],
            Err(failure) => return Some(Err(failure)),
        };
        let began = Instant::now();
        let _is_in_memory = self.engine.decide_at_once(&requests, |request, decided| {
            answered = Some(match decided {
                Ok(decided) => {
                    self.metrics.record_decision(NAME, began.elapsed(), span);
                    Ok(self.respond(head, request, &decided, None))
                }
                Err(error) => Err(error.into()),
            });
        });
        answered
    }

    /// Decides on a request of `/v1/check`, or reserves for it.
    async fn check_in_store(
        &self,
        check: Check<'_>,
        head: &Parts,
        span: &mut RequestSpan,
    ) -> Result<Response<Bytes>, Failure> {
        let request = self.request_of(&check)?;
        let (decided, receipt) = if check.is_reservation() {
            Box::pin(self.reserve(&request, span)).await?
        } else {
            (self.decide(&request, span).await?, None)
        };
        Ok(self.respond(head, &request, &decided, receipt.as_ref()))
    }

    /// The request of a check, if the operator allows it.
    fn request_of<'c>(&self, check: &'c Check<'_>) -> Result<Request<'c>, Failure> {
        let request = check.request()?;
        self.check_refund(&request)?;
        Ok(request)
    }

    fn respond(
        &self,
        head: &Parts,
        request: &Request<'_>,
        decided: &Decided,
        receipt: Option<&ReservationReceipt>,
    ) -> Response<Bytes> {
        let answer = &decided.answer;
        let mut response = verdict(request, answer, receipt);
        if !answer.is_allowed() {
            let id = request_id(&head.headers);
            keep_denial(&self.engine, id, request, answer, response.headers_mut());
        }
        response
    }

    async fn reserve(
        &self,
        request: &Request<'_>,
        span: &mut RequestSpan,
    ) -> Result<(Decided, Option<ReservationReceipt>), Failure> {
        let began = Instant::now();
        let reserved = trace::reserve(&self.engine, request, span).await?;
        self.metrics.record_decision(NAME, began.elapsed(), span);
        Ok(reserved)
    }

    /// Decides on a list of checks: on all of them, or on none if one is invalid.
    async fn check_batch(
        &self,
        body: &[u8],
        head: &Parts,
        span: &mut RequestSpan,
    ) -> Result<Response<Bytes>, Failure> {
        let batch = Batch::read(body)?;
        let requests = batch.requests(|request| self.check_refund(request))?;
        let mut answers = BatchAnswers::with_capacity(requests.len());
        let id = request_id(&head.headers).map(HeaderValue::as_bytes);
        let mut took = Duration::ZERO;
        // A span describes all checks at once.
        let size = match span.is_sampled() {
            true => usize::MAX,
            false => self.engine.batch_size(),
        };
        if requests.is_empty() {
            trace::describe_batch(span, &[], &[], Instant::now());
        }
        for requests in requests.chunks(size) {
            let began = Instant::now();
            let is_decided = !span.is_sampled()
                && self.engine.decide_at_once(requests, |request, decided| {
                    self.add_answer(request, decided, id, &mut answers);
                });
            if is_decided {
                took += began.elapsed();
                continue;
            }
            let decided = self.engine.decide_batch(requests).await;
            took += began.elapsed();
            trace::describe_batch(span, requests, &decided, began);
            for (request, decided) in requests.iter().zip(decided) {
                self.add_answer(request, decided, id, &mut answers);
            }
        }
        self.metrics.record_decision(NAME, took, span);
        Ok(answers.response())
    }

    /// Adds the answer to one check of a list. `id` is that of the HTTP request.
    fn add_answer(
        &self,
        request: &Request<'_>,
        decided: Result<Decided, StoreError>,
        id: Option<&[u8]>,
        answers: &mut BatchAnswers,
    ) {
        match decided {
            Ok(Decided { answer, .. }) => {
                let id = self.engine.keep_denial(id, request, &answer);
                answers.add(request, &answer, id.as_deref());
            }
            Err(error) => {
                let failure = Failure::from(error);
                self.metrics.count_error(NAME, failure.kind);
                answers.add_failure(&failure);
            }
        }
    }
}
