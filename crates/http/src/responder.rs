//! Answers become responses: which status, headers and body a client sees.

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use tollgate_core::Answer;

use crate::dialect::Dialect;
use crate::grpc::{self, NO_STORE};
use crate::headers::{DELAY_MS, retry_headers};
use crate::media_range::preferred_offer;
use crate::policy::policies;
use crate::problem::{MEDIA_TYPE, Problem};
use crate::rejection::Rejection;
use crate::setting::{InvalidSetting, InvalidSettings};

mod cors;

mod placeholder;

mod settings;

pub use cors::{CORS_ORIGINS_MAX, CorsSettings};
pub use settings::{BodySettings, HeadersOn, ResponseSettings};

use cors::Cors;

/// The most `bodies`.
pub const BODIES_MAX: usize = 16;
/// The longest text of a body, in bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Makes responses of answers. Those to HEAD have the length of their body, and not the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Responder {
    status: StatusCode,
    dialects: Vec<Dialect>,
    headers_on: HeadersOn,
    bodies: Vec<Body>,
    cors: Cors,
}

/// The body of denials for clients that prefer a media type.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Body {
    media_type: String,
    content_type: HeaderValue,
    text: String,
}

// === impl Responder ===

impl Responder {
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub fn new(settings: &ResponseSettings) -> Result<Responder, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let status = StatusCode::from_u16(settings.status).ok();
        let status = status.filter(|status| status.is_client_error() || status.is_server_error());
        let status = status.ok_or_else(|| {
            let problem = format!("{} is not an error status", settings.status);
            InvalidSetting::new("status", problem, "write 429, or another from 400 to 599")
        });
        let status = errors.take(status);
        errors.take(check_dialects(&settings.headers));
        let count = settings.bodies.len();
        let checked = InvalidSetting::check_at_most("bodies", count, "bodies", BODIES_MAX);
        let bodies = errors.take(checked).map_or_else(Vec::new, |()| {
            errors.take_each("bodies", &settings.bodies, Body::new)
        });
        let mut exposed = vec![RETRY_AFTER, DELAY_MS];
        exposed.extend(settings.headers.iter().flat_map(|dialect| dialect.names()));
        let cors = errors.take_below("cors", Cors::new(&settings.cors, &exposed));
        let (Some(status), Some(cors), true) = (status, cors, errors.is_empty()) else {
            return Err(errors);
        };
        Ok(Responder {
            status,
            dialects: settings.headers.clone(),
            headers_on: settings.headers_on,
            bodies,
            cors,
        })
    }

    /// Adds the headers of an allowed answer to the response to the request. `now` is the
    /// wall-clock time since 1970. If the response has such headers already, those of another
    /// limiter, `RateLimit` and `RateLimit-Policy` name the limits of both, and the other dialects
    /// the limit with the least remaining.
    pub fn decorate(&self, answer: &Answer, now: Duration, response: &mut HeaderMap) {
        if self.headers_on == HeadersOn::Always {
            self.write(answer, now, response);
            self.cors.expose(response);
        }
    }

    /// The response to a request that is denied; `None` if it is allowed. `method` and `request`
    /// are the request's method and headers, `now` is the wall-clock time since 1970. A gRPC
    /// request, which is a POST, gets `RESOURCE_EXHAUSTED`, and
    /// [`GRPC_RETRY_PUSHBACK_MS`](crate::GRPC_RETRY_PUSHBACK_MS).
    pub fn deny(
        &self,
        answer: &Answer,
        now: Duration,
        method: &Method,
        request: &HeaderMap,
    ) -> Option<Response<String>> {
        let mut problem = Problem::denial(answer)?;
        if let (true, Some(denial)) = (grpc::is_request(method, request), answer.denial) {
            let mut response = grpc::respond(&problem);
            grpc::push_back(denial.wait, response.headers_mut());
            self.write(answer, now, response.headers_mut());
            return Some(response);
        }
        problem.status = self.status;
        let mut response = self.respond(&problem, answer.retry_after_secs(), method, request);
        self.write(answer, now, response.headers_mut());
        Some(response)
    }

    /// The response to a request that is denied without an answer of the rules: the configured
    /// status and bodies, and no headers about limits.
    pub fn deny_with(
        &self,
        mut problem: Problem,
        method: &Method,
        request: &HeaderMap,
    ) -> Response<String> {
        if grpc::is_request(method, request) {
            return grpc::respond(&problem);
        }
        problem.status = self.status;
        self.respond(&problem, None, method, request)
    }

    /// The response to a request that could not be described.
    pub fn reject(
        &self,
        rejection: &Rejection,
        method: &Method,
        request: &HeaderMap,
    ) -> Response<String> {
        self.fail(&rejection.problem(), method, request)
    }

    /// The response to a request that was not decided, because of this problem.
    pub fn fail(
        &self,
        problem: &Problem,
        method: &Method,
        request: &HeaderMap,
    ) -> Response<String> {
        if grpc::is_request(method, request) {
            return grpc::respond(problem);
        }
        let mut response = Response::new(problem.json().to_string());
        self.complete(
            problem.status,
            HeaderValue::from_static(MEDIA_TYPE),
            request,
            &mut response,
        );
        omit_body(method, &mut response);
        response
    }

    fn write(&self, answer: &Answer, now: Duration, headers: &mut HeaderMap) {
        retry_headers(answer, headers);
        if self.dialects.is_empty() {
            return;
        }
        let policies = policies(answer);
        for dialect in &self.dialects {
            dialect.write(answer, &policies, now, headers);
        }
    }

    /// A response with the body that the client prefers. A body that names the retry time is not
    /// for denials without one.
    fn respond(
        &self,
        problem: &Problem,
        retry_after: Option<u64>,
        method: &Method,
        request: &HeaderMap,
    ) -> Response<String> {
        let fits =
            |body: &&Body| retry_after.is_some() || !placeholder::has_retry_after(&body.text);
        let bodies: Vec<&Body> = self.bodies.iter().filter(fits).collect();
        let replaced = bodies.iter().any(|body| body.media_type == MEDIA_TYPE);
        let default = (!replaced).then_some(MEDIA_TYPE);
        let offers = default
            .into_iter()
            .chain(bodies.iter().map(|body| body.media_type.as_str()));
        let chosen = preferred_offer(request, offers).unwrap_or(0);
        let chosen = chosen.checked_sub(usize::from(!replaced));
        let (content_type, text) = match chosen.and_then(|index| bodies.get(index)) {
            Some(body) => (
                body.content_type.clone(),
                placeholder::fill(&body.text, self.status, retry_after),
            ),
            None => (
                HeaderValue::from_static(MEDIA_TYPE),
                problem.json().to_string(),
            ),
        };
        let mut response = Response::new(text);
        self.complete(self.status, content_type, request, &mut response);
        omit_body(method, &mut response);
        response
    }

    /// Adds what all responses of our own have, except those of gRPC.
    fn complete(
        &self,
        status: StatusCode,
        content_type: HeaderValue,
        request: &HeaderMap,
        response: &mut Response<String>,
    ) {
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, content_type);
        headers.insert(CACHE_CONTROL, NO_STORE);
        self.cors.allow(request, headers);
        self.cors.expose(headers);
    }
}

impl Default for Responder {
    fn default() -> Responder {
        Responder::new(&ResponseSettings::default()).expect("the defaults are valid")
    }
}

/// Leaves the length of a body in the response to HEAD (RFC 9110, section 9.3.2). In HTTP/2, the
/// body would be sent, and clients would take that for a broken response.
fn omit_body(method: &Method, response: &mut Response<String>) {
    if method == Method::HEAD {
        let body = std::mem::take(response.body_mut());
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, body.len().into());
    }
}

/// Two dialects with the same headers would overwrite each other.
fn check_dialects(dialects: &[Dialect]) -> Result<(), InvalidSettings> {
    let mut errors = InvalidSettings::default();
    let mut names: Vec<HeaderName> = Vec::new();
    errors.take_each("headers", dialects, |dialect| {
        let own = dialect.names();
        let twice = own.iter().find(|name| names.contains(name)).cloned();
        names.extend(own);
        twice.map_or(Ok(()), |name| {
            let problem = format!("another dialect has the header {name} too");
            Err(InvalidSetting::new("", problem, "keep one of them"))
        })
    });
    errors.check()
}

// === impl Body ===

impl Body {
    /// Checks that the media type is one, the text is not too long, and its placeholders are known.
    fn new(settings: &BodySettings) -> Result<Body, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let BodySettings { media_type, text } = settings;
        let (name, _) = media_type.split_once(';').unwrap_or((media_type, ""));
        let name = name.trim().to_ascii_lowercase();
        let is_name = |part: &str| !part.is_empty() && part != "*" && !part.contains('/');
        let is_media_type = name
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype));
        let content_type = HeaderValue::try_from(media_type).ok();
        let content_type = content_type.filter(|_| is_media_type).ok_or_else(|| {
            let problem = format!("\"{media_type}\" is not a valid media type");
            let instead = "write one such as text/html; charset=utf-8";
            InvalidSetting::new("media_type", problem, instead)
        });
        let content_type = errors.take(content_type);
        let checked = InvalidSetting::check_at_most("text", text.len(), "bytes", BODY_BYTES_MAX);
        errors.take(checked.and_then(|()| placeholder::check(text)));
        match content_type {
            Some(content_type) if errors.is_empty() => Ok(Body {
                media_type: name,
                content_type,
                text: text.clone(),
            }),
            _ => Err(errors),
        }
    }
}

#[cfg(test)]
mod tests;
