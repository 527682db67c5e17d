//! The span of a request: what it was, how it was decided, and how long that took.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use tollgate_core::{Answer, Status};

use crate::trace_context::{SpanId, TraceContext, TraceId};
use crate::tracer::Tracer;

/// The longest text of an attribute, in bytes; a longer one is cut off.
const TEXT_BYTES_MAX: usize = 256;
/// The most texts of an attribute that is a list.
const TEXTS_MAX: usize = 16;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(Cow<'static, str>),
    /// A list of texts.
    Texts(Vec<String>),
    /// A whole number.
    Number(i64),
    /// Seconds.
    Seconds(Duration),
}

/// An HTTP request, as its span shows it.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'r> {
    /// The listener, as metrics have it.
    pub listener: &'static str,
    /// Its method.
    pub method: &'r Method,
    /// What it is for: a route, of which there are few. Empty until it is known.
    pub target: &'r str,
    /// Its path, without the query.
    pub path: &'r str,
    /// `http` or `https`.
    pub scheme: &'static str,
}

/// The methods that spans show. Others would be as many as clients like.
static METHODS: [Method; 9] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::HEAD,
    Method::OPTIONS,
    Method::PATCH,
    Method::TRACE,
    Method::CONNECT,
];

/// The span of a request, from when it arrives until this is dropped, even if its client has gone.
///
/// Without tracing, this is nothing, and everything that is set is ignored.
#[derive(Debug, Default)]
pub struct RequestSpan(Kind);

#[derive(Debug, Default)]
enum Kind {
    #[default]
    Off,
    /// Not recorded, but passed on, so that other processes do not record it either.
    Unsampled(TraceContext, bool),
    Sampled(Box<Open>),
}

/// A span that is recorded.
pub(crate) struct Open {
    tracer: Arc<Tracer>,
    began: Instant,
    span: FinishedSpan,
}

/// A span that waits to be sent.
#[derive(Debug)]
pub(crate) struct FinishedSpan {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<SpanId>,
    /// A span of another trace that led to this one.
    pub(crate) link: Option<TraceContext>,
    pub(crate) state: Option<String>,
    pub(crate) name: Cow<'static, str>,
    /// The time since 1970.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) is_error: bool,
    pub(crate) attributes: Vec<(&'static str, Value)>,
}

// === impl RequestSpan ===

impl RequestSpan {
    /// What a process without tracing has in place of a span.
    pub const OFF: RequestSpan = RequestSpan(Kind::Off);

    pub(crate) const fn pass_on(context: TraceContext, has_valid_parent: bool) -> RequestSpan {
        RequestSpan(Kind::Unsampled(context, has_valid_parent))
    }

    pub(crate) fn record(open: Open) -> RequestSpan {
        RequestSpan(Kind::Sampled(Box::new(open)))
    }

    /// Whether it is recorded.
    pub const fn is_sampled(&self) -> bool {
        matches!(self.0, Kind::Sampled(_))
    }

    /// What an exemplar says of a span that ends now: its trace, its id, and the time since 1970.
    /// `None` if it is not recorded.
    pub fn exemplar(&self) -> Option<(TraceId, SpanId, Duration)> {
        let Kind::Sampled(open) = &self.0 else {
            return None;
        };
        let TraceContext { trace, span, .. } = open.span.context;
        Some((
            trace,
            span,
            open.span.at.saturating_add(open.began.elapsed()),
        ))
    }

    /// Makes this the parent in a request that is made for this one. Without tracing, the headers
    /// stay as they are.
    pub fn propagate(&self, headers: &mut HeaderMap) {
        match &self.0 {
            Kind::Off => {}
            Kind::Unsampled(context, has_valid_parent) => context.write(headers, *has_valid_parent),
            Kind::Sampled(open) => open.span.context.write(headers, open.span.parent.is_some()),
        }
    }

    /// Sets an attribute, in place of its former value.
    pub fn set(&mut self, key: &'static str, value: impl FnOnce() -> Value) {
        if let Kind::Sampled(open) = &mut self.0 {
            open.set(key, value());
        }
    }

    /// The domain whose rules decide on the request. Invalid UTF-8 is replaced.
    pub fn set_domain(&mut self, domain: &[u8]) {
        self.set(attribute::DOMAIN, || {
            Value::Text(String::from_utf8_lossy(domain).into_owned().into())
        });
    }

    /// What an HTTP request is: its method, what it is for, and how it came.
    pub fn describe_http(&mut self, http: HttpRequest<'_>) {
        let Kind::Sampled(open) = &mut self.0 else {
            return;
        };
        let HttpRequest {
            listener,
            method,
            target,
            path,
            scheme,
        } = http;
        // Clients may invent methods.
        let (shown, named) = match METHODS.contains(method) {
            true => (method.as_str().to_owned(), method.as_str()),
            false => ("_OTHER".to_owned(), "HTTP"),
        };
        open.span.name = match target {
            "" => named.to_owned().into(),
            target => cut(format!("{named} {target}").into()),
        };
        open.set(attribute::LISTENER, Value::Text(listener.into()));
        open.set(attribute::HTTP_METHOD, Value::Text(shown.into()));
        open.set(attribute::URL_PATH, Value::Text(path.to_owned().into()));
        open.set(attribute::URL_SCHEME, Value::Text(scheme.into()));
    }

    /// What an HTTP request is for, which was not known when it arrived.
    pub fn set_target(&mut self, target: &str) {
        if let Kind::Sampled(open) = &mut self.0 {
            let name = format!("{} {target}", open.span.name);
            open.span.name = cut(name.into());
        }
    }

    /// How long the store took for a request that it did not decide.
    pub fn set_store_time(&mut self, store_time: Duration) {
        self.set(attribute::STORE_TIME, || Value::Seconds(store_time));
    }

    /// How the request was decided, and how long its store took.
    pub fn set_answer(&mut self, answer: &Answer, store_time: Duration) {
        let Kind::Sampled(open) = &mut self.0 else {
            return;
        };
        open.set(attribute::OUTCOME, Value::Text(outcome(answer).into()));
        open.set(attribute::STORE_TIME, Value::Seconds(store_time));
        let rules = answer.statuses.iter().filter_map(|status| match status {
            Status::NoLimit => None,
            Status::Unlimited { rule } => Some(&rule.path),
            Status::Limited(limited) => Some(&limited.rule.path),
        });
        let rules: Vec<String> = rules.take(TEXTS_MAX).cloned().collect();
        let denier = answer.denied_by().map(|limited| limited.rule.path.clone());
        if let Some(rule) = denier.or_else(|| rules.first().cloned()) {
            open.set(attribute::RULE, Value::Text(rule.into()));
        }
        if rules.len() > 1 {
            open.set(attribute::RULES, Value::Texts(rules));
        }
    }

    /// The outcome of a request that was not decided, such as `invalid`.
    pub fn set_outcome(&mut self, outcome: &'static str) {
        self.set(attribute::OUTCOME, || Value::Text(outcome.into()));
    }

    /// The status of its HTTP response. A server's error makes the span one.
    pub fn set_http_status(&mut self, status: http::StatusCode) {
        if let Kind::Sampled(open) = &mut self.0 {
            let number = Value::Number(status.as_u16().into());
            open.set(attribute::HTTP_STATUS, number);
            if status.is_server_error() {
                open.set(
                    attribute::ERROR_TYPE,
                    Value::Text(status.as_str().to_owned().into()),
                );
                open.span.is_error = true;
            }
        }
    }

    /// Its error, which is the server's own.
    pub fn fail(&mut self, error_type: &'static str) {
        if let Kind::Sampled(open) = &mut self.0 {
            open.set(attribute::ERROR_TYPE, Value::Text(error_type.into()));
            open.span.is_error = true;
        }
    }
}

/// The names of attributes: those of OpenTelemetry's conventions, and Tollgate's own.
pub mod attribute {
    /// The listener, as metrics have it.
    pub const LISTENER: &str = "tollgate.listener";
    /// The domain of the rules.
    pub const DOMAIN: &str = "tollgate.domain";
    /// The rule that denies, or else the first that matches.
    pub const RULE: &str = "tollgate.rule";
    /// All rules that match, if there are several.
    pub const RULES: &str = "tollgate.rules";
    /// How the request was decided.
    pub const OUTCOME: &str = "tollgate.outcome";
    /// The time that the store took, in seconds.
    pub const STORE_TIME: &str = "tollgate.store.duration";
    /// How many checks a batch has.
    pub const BATCH_SIZE: &str = "tollgate.batch.size";
    /// How many of them are denied.
    pub const BATCH_DENIED: &str = "tollgate.batch.denied";
    /// By which id `tollgate explain` finds a denied request.
    pub const REQUEST_ID: &str = "tollgate.request_id";
    /// The gateway's route.
    pub const ROUTE: &str = "tollgate.route";
    /// What became of a request to the gateway, as its access log has it.
    pub const GATEWAY_OUTCOME: &str = "tollgate.gateway.outcome";
    /// The address that a request was passed on to.
    pub const UPSTREAM: &str = "tollgate.upstream";
    /// The method of an HTTP request.
    pub const HTTP_METHOD: &str = "http.request.method";
    /// The path of an HTTP endpoint.
    pub const HTTP_ROUTE: &str = "http.route";
    /// The status of an HTTP response.
    pub const HTTP_STATUS: &str = "http.response.status_code";
    /// The path of an HTTP request.
    pub const URL_PATH: &str = "url.path";
    /// `http` or `https`.
    pub const URL_SCHEME: &str = "url.scheme";
    /// `grpc`.
    pub const RPC_SYSTEM: &str = "rpc.system.name";
    /// The called method.
    pub const RPC_METHOD: &str = "rpc.method";
    /// The status of a call.
    pub const RPC_STATUS: &str = "rpc.response.status_code";
    /// What went wrong.
    pub const ERROR_TYPE: &str = "error.type";
}

/// How a request was decided.
fn outcome(answer: &Answer) -> &'static str {
    match answer {
        answer if answer.is_store_unavailable() => "store_unavailable",
        answer if !answer.is_allowed() => "denied",
        answer if answer.is_over_soft() => "over_soft",
        _ => "allowed",
    }
}

// === impl Open ===

impl Open {
    pub(crate) fn new(tracer: Arc<Tracer>, span: FinishedSpan) -> Open {
        Open {
            tracer,
            began: Instant::now(),
            span,
        }
    }

    fn set(&mut self, key: &'static str, value: Value) {
        let value = match value {
            Value::Text(text) => Value::Text(cut(text)),
            Value::Texts(texts) => {
                let texts = texts.into_iter().take(TEXTS_MAX);
                Value::Texts(texts.map(|text| cut(text.into()).into_owned()).collect())
            }
            value => value,
        };
        let attributes = &mut self.span.attributes;
        match attributes.iter_mut().find(|(other, _)| *other == key) {
            Some((_, former)) => *former = value,
            None => attributes.push((key, value)),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let span = FinishedSpan {
            took: self.began.elapsed(),
            state: self.span.state.take(),
            name: std::mem::take(&mut self.span.name),
            attributes: std::mem::take(&mut self.span.attributes),
            ..self.span
        };
        self.tracer.finish(span);
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.span.fmt(f)
    }
}

/// Cuts off what is too long, between two characters.
fn cut(text: Cow<'static, str>) -> Cow<'static, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
        .to_owned()
        .into()
}
