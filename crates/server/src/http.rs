//! The HTTP listener: Envoy's `/json`, Tollgate's `/v1/check`, `/v1/settle` and `/v1/auth`, health
//! checks and their description.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::response::Response;
use axum::routing::{any, get, post};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use hyper::body::Body as HttpBody;
use tollgate_core::Request;
use tollgate_engine::{Decided, Engine};
use tollgate_gateway::{keep_denial, request_id};
use tollgate_listen::ShutdownSignal;
use tollgate_telemetry::{RequestSpan, Tracing, Value, attribute};

use crate::auth::{self, ActiveAuth};
use crate::body::BoxError;
use crate::config::ListenerKind;
use crate::media_type::{is_json, is_not_from_page};
use crate::metrics::{ListenerName, Metrics};
use crate::options::Options;
use crate::reply::{self, Failure, problem, reply};
use crate::settle::{Settle, settlement};
use crate::trace::{self, CANCELED, UNLIMITED};

mod checks;

/// The name of this listener in the settings and in metrics.
pub(crate) const NAME: &str = ListenerKind::Http.name();

/// Where Envoy's service answers, and where Tollgate does.
const ENVOY_PATH: &str = "/json";
/// Readiness, where probes of Envoy's ratelimit service look for it.
pub(crate) const ENVOY_HEALTH_PATH: &str = "/healthcheck";
pub(crate) const CHECK_PATH: &str = "/v1/check";

/// The most characters of a client's path or method that an answer repeats.
const TEXT_SHOWN: usize = 200;

const OPENAPI: &str = include_str!("openapi.json");

/// What the routes of this listener share.
pub(crate) struct AppState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) options: Options,
    pub(crate) auth: Option<Arc<ActiveAuth>>,
    pub(crate) tracing: Tracing,
    /// What clients send requests over: `http` or `https`.
    pub(crate) scheme: &'static str,
    pub(crate) shutdown: ShutdownSignal,
    /// How long a body may take to arrive.
    pub(crate) body_timeout: Duration,
    /// The largest body that is read.
    pub(crate) body_bytes: usize,
}

/// The routes of this listener.
pub(crate) fn routes(state: Arc<AppState>) -> Router {
    let metrics = Arc::clone(&state.metrics);
    let routes = Router::new()
        .route(ENVOY_PATH, post(envoy))
        .route(CHECK_PATH, post(check))
        .route("/v1/settle", post(settle))
        .route(auth::PATH, any(forward_auth))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(ENVOY_HEALTH_PATH, get(readyz))
        .route("/openapi.json", get(openapi))
        .with_state(state);
    with_fallback_routes(routes, NAME, metrics)
}

/// Adds the responses to paths and methods that a listener does not have.
pub(crate) fn with_fallback_routes(
    routes: Router,
    listener: ListenerName,
    metrics: Arc<Metrics>,
) -> Router {
    let missing = Arc::clone(&metrics);
    routes
        .fallback(move |uri: Uri| {
            let detail = format!(
                "the `{listener}` listener has no {}; /openapi.json at the `http` listener \
                 describes requests, and /metrics is at the `admin` listener",
                shorten(uri.path())
            );
            let failure = Failure::new("not_found", StatusCode::NOT_FOUND, detail);
            std::future::ready(count_and_respond::<Body>(&missing, listener, &failure))
        })
        .method_not_allowed_fallback(move |method: Method, uri: Uri| {
            let detail = format!(
                "{} does not accept {}; the Allow header lists what it accepts",
                shorten(uri.path()),
                shorten(method.as_str())
            );
            let status = StatusCode::METHOD_NOT_ALLOWED;
            let failure = Failure::new("method_not_allowed", status, detail);
            std::future::ready(count_and_respond::<Body>(&metrics, listener, &failure))
        })
}

/// The beginning of a text of a client, for an answer.
fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(TEXT_SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

pub(crate) fn count_and_respond<B: From<String>>(
    metrics: &Metrics,
    listener: ListenerName,
    failure: &Failure,
) -> http::Response<B> {
    metrics.count_error(listener, failure.kind);
    problem(&failure.problem)
}

/// Liveness: the process runs.
pub(crate) async fn healthz() -> Response {
    reply(StatusCode::OK, "text/plain", "OK\n".to_owned())
}

async fn readyz(State(state): State<Arc<AppState>>) -> Response {
    readiness(&state.shutdown)
}

/// Readiness: whether the service accepts requests.
pub(crate) fn readiness(shutdown: &ShutdownSignal) -> Response {
    if shutdown.is_ready() {
        return reply(StatusCode::OK, "text/plain", "OK\n".to_owned());
    }
    let status = StatusCode::SERVICE_UNAVAILABLE;
    reply(status, "text/plain", "stopping\n".to_owned())
}

async fn openapi() -> Response {
    reply(StatusCode::OK, "application/json", OPENAPI)
}

async fn envoy(State(state): State<Arc<AppState>>, request: HttpRequest) -> Response {
    let mut span = state.begin_span(request.method(), request.headers(), ENVOY_PATH);
    let answered = state.envoy(request, &mut span).await;
    state.finish(answered, &mut span)
}

async fn check(State(state): State<Arc<AppState>>, request: HttpRequest) -> Response {
    let (head, mut body) = request.into_parts();
    state.answer_check(&head, &mut body).await.map(Body::from)
}

async fn settle(State(state): State<Arc<AppState>>, request: HttpRequest) -> Response {
    let answered = state.settle(request).await;
    answered.unwrap_or_else(|failure| count_and_respond(&state.metrics, NAME, &failure))
}

async fn forward_auth(State(state): State<Arc<AppState>>, request: HttpRequest) -> Response {
    let mut span = state.begin_span(request.method(), request.headers(), auth::PATH);
    let answered = state.forward_auth(request, &mut span).await;
    state.finish(answered, &mut span)
}

// === impl AppState ===

impl AppState {
    /// Envoy's service answers 200, 429 or 400 here, and 400 also if its store fails. This one
    /// answers 503 then, so that a failed store does not look like an invalid request.
    async fn envoy(
        &self,
        request: HttpRequest,
        span: &mut RequestSpan,
    ) -> Result<Response, Failure> {
        is_not_from_page(request.headers())?;
        let (head, body) = request.into_parts();
        let body = self.read(&head, body).await?;
        let read =
            tollgate_rls::read(&body).map_err(|error| Failure::bad_request(error.to_string()))?;
        let request = tollgate_rls::request(&read.message)?;
        self.metrics.count_left_out(NAME, read.left_out);
        self.check_refund(&request)?;
        let decided = self.decide(&request, span).await?;
        let mut json = self.options.json(&request, &decided);
        json.push(b'\n');
        let status = tollgate_http::status(&decided.answer);
        let mut response = reply(status, "application/json", json);
        let headers = response.headers_mut();
        if let Some(millis) = tollgate_http::delay_ms(&decided.answer) {
            headers.insert(tollgate_http::DELAY_MS, HeaderValue::from(millis));
        }
        if decided.answer.is_store_unavailable() {
            let unavailable = HeaderValue::from_static(tollgate_http::STORE_UNAVAILABLE);
            headers.insert(tollgate_http::STORE, unavailable);
        }
        let id = request_id(&head.headers);
        keep_denial(&self.engine, id, &request, &decided.answer, headers);
        Ok(response)
    }

    /// Reads the body of a request within the limits of this listener.
    async fn read<B>(&self, head: &Parts, body: B) -> Result<Bytes, Failure>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        reply::body(&head.headers, body, self.body_bytes, self.body_timeout).await
    }

    /// Settles a reservation of `/v1/check`.
    async fn settle(&self, request: HttpRequest) -> Result<Response, Failure> {
        has_no_query(request.uri())?;
        is_json(request.headers())?;
        let (head, body) = request.into_parts();
        let body = self.read(&head, body).await?;
        let actual = Settle::read(&body)?.actual_cost()?;
        let settled = self.engine.settle(actual.id, actual.units).await?;
        Ok(settlement(actual.id, &settled))
    }

    /// Decides on the request that a proxy asks about. The body is not read.
    async fn forward_auth(
        &self,
        request: HttpRequest,
        span: &mut RequestSpan,
    ) -> Result<Response, Failure> {
        let auth = self.auth.as_ref().ok_or_else(auth::not_configured)?.load();
        let mut head = request.into_parts().0;
        let peer = auth.restore(&mut head)?;
        let (client, unnamed) = auth.client(&head, peer);
        if let Some(reason) = unnamed {
            self.metrics.count_auth_fallback(reason);
        }
        let identity = auth.identify(&head, (peer, client))?;
        let mut kept = HeaderMap::new();
        let answer = match auth.request(&identity) {
            Some(request) => {
                let answer = self.decide(&request, span).await?.answer;
                let id = request_id(&head.headers);
                keep_denial(&self.engine, id, &request, &answer, &mut kept);
                Some(answer)
            }
            None => {
                span.set_outcome(UNLIMITED);
                None
            }
        };
        let mut response = auth.respond(answer.as_ref(), &head);
        response.headers_mut().extend(kept);
        Ok(response)
    }

    async fn decide(
        &self,
        request: &Request<'_>,
        span: &mut RequestSpan,
    ) -> Result<Decided, Failure> {
        let began = Instant::now();
        let decided = trace::decide(&self.engine, request, span).await?;
        self.metrics.record_decision(NAME, began.elapsed(), span);
        Ok(decided)
    }

    /// Begins the span of a request for the endpoint at `path`.
    fn begin_span(&self, method: &Method, headers: &HeaderMap, path: &'static str) -> RequestSpan {
        let mut span = self.tracing.begin(path, headers);
        span.describe_http(tollgate_telemetry::HttpRequest {
            listener: NAME,
            method,
            target: path,
            path,
            scheme: self.scheme,
        });
        span.set(attribute::HTTP_ROUTE, || Value::Text(path.into()));
        span.set_outcome(CANCELED);
        span
    }

    /// The response, and what the span says about it.
    fn finish<B: From<String>>(
        &self,
        answered: Result<http::Response<B>, Failure>,
        span: &mut RequestSpan,
    ) -> http::Response<B> {
        match answered {
            Ok(response) => {
                trace::describe_response(span, &response);
                response
            }
            Err(failure) => {
                let response = count_and_respond(&self.metrics, NAME, &failure);
                trace::describe_response(span, &response);
                trace::describe_failure(span, &failure);
                response
            }
        }
    }

    /// Rejects a refund, unless the operator allows clients to return units.
    fn check_refund(&self, request: &Request<'_>) -> Result<(), Failure> {
        let checked = self.options.check_refund(request);
        checked.map_err(|detail| Failure::new("refund", StatusCode::BAD_REQUEST, detail))
    }
}

/// Rejects parameters in the URL of an endpoint that takes them in its body: `?peek=true` would
/// charge.
fn has_no_query(uri: &Uri) -> Result<(), Failure> {
    match uri.query() {
        None | Some("") => Ok(()),
        Some(query) => Err(Failure::bad_request(format!(
            "`?{}`, but {} takes no parameters in the URL; write them into the body",
            shorten(query),
            uri.path()
        ))),
    }
}

#[cfg(test)]
mod tests;
