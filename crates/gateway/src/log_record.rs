//! What the access log and the span will say of a request, while it is being answered.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, REFERER, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use tokio::time::Instant;
use tollgate_core::{Answer, RuleName};
use tollgate_telemetry::{RequestSpan, Value, attribute};

use crate::access_log::AccessLog;
use crate::denial::{REQUEST_ID, request_id};
use crate::log_line::LogLine;

/// The outcome of a request until it has another one: its client has gone.
const CANCELED: &str = "canceled";
/// The most bytes of a target or a header in a line; what is longer is cut off.
const FIELD_BYTES_MAX: usize = 4096;

/// Collects a line of the access log and the attributes of a span, and writes them when it is
/// dropped. Without an access log and tracing it does nothing, and owns no memory.
#[derive(Default)]
pub(crate) struct LogRecord {
    open: Option<Box<Open>>,
    span: RequestSpan,
}

struct Open {
    log: Arc<AccessLog>,
    began: Instant,
    line: LogLine,
}

// === impl LogRecord ===

impl LogRecord {
    /// For a request that arrived now. Until it has another outcome, its client has gone.
    pub(crate) fn new(
        log: &Arc<AccessLog>,
        at: Duration,
        peer: Option<IpAddr>,
        head: &Parts,
    ) -> LogRecord {
        let header = |name: HeaderName| Some(cut(head.headers.get(name)?.as_bytes()));
        let authority = || Some(cut(head.uri.authority()?.as_str().as_bytes()));
        let target = head.uri.path_and_query().map(|target| target.as_str());
        // `CONNECT` has no path.
        let target = target.or_else(|| Some(head.uri.authority()?.as_str()));
        let line = LogLine {
            at,
            took: Duration::ZERO,
            client: peer.map(|peer| peer.to_canonical()),
            method: cut_method(&head.method),
            target: cut(target.unwrap_or_default().as_bytes()),
            version: head.version,
            host: header(HOST).or_else(authority),
            user_agent: header(USER_AGENT),
            referer: header(REFERER),
            request_id: request_id(&head.headers).map(|id| cut(id.as_bytes())),
            route: None,
            upstream: None,
            outcome: CANCELED,
            status: None,
            bytes: 0,
            is_complete: false,
            rule: None,
            retry_after: None,
        };
        let open = Box::new(Open {
            log: Arc::clone(log),
            began: Instant::now(),
            line,
        });
        LogRecord {
            open: Some(open),
            span: RequestSpan::OFF,
        }
    }

    /// The same for a request with this span.
    pub(crate) fn with_span(mut self, mut span: RequestSpan) -> LogRecord {
        span.set(attribute::GATEWAY_OUTCOME, || Value::Text(CANCELED.into()));
        self.span = span;
        self
    }

    /// The span of the request.
    pub(crate) const fn span(&mut self) -> &mut RequestSpan {
        &mut self.span
    }

    fn update(&mut self, update: impl FnOnce(&mut LogLine)) {
        if let Some(open) = &mut self.open {
            update(&mut open.line);
        }
    }

    /// Its route, and the client that the route's settings find.
    pub(crate) fn set_route(&mut self, name: &str, client: Option<IpAddr>) {
        self.update(|line| {
            line.route = Some(name.to_owned());
            line.client = client.or(line.client);
        });
        self.span.set_target(name);
        self.span
            .set(attribute::ROUTE, || Value::Text(name.to_owned().into()));
    }

    /// Where it is sent, with these headers, in which its span becomes the parent.
    pub(crate) fn send_to(&mut self, address: &str, headers: &mut HeaderMap) {
        self.set_upstream(address);
        self.span.propagate(headers);
    }

    /// Where it is sent.
    pub(crate) fn set_upstream(&mut self, address: &str) {
        self.update(|line| {
            if line.upstream.as_deref() != Some(address) {
                line.upstream = Some(address.to_owned());
            }
        });
        self.span.set(attribute::UPSTREAM, || {
            Value::Text(address.to_owned().into())
        });
    }

    /// It was not sent, after all.
    pub(crate) fn clear_upstream(&mut self) {
        self.update(|line| line.upstream = None);
    }

    /// The rule that denies it, and the headers of its denial.
    pub(crate) fn set_denial(&mut self, answer: &Answer, headers: &HeaderMap) {
        let id = headers.get(REQUEST_ID);
        if let Some(id) = id.and_then(|id| id.to_str().ok()) {
            let id = || Value::Text(id.to_owned().into());
            self.span.set(attribute::REQUEST_ID, id);
        }
        self.update(|line| {
            line.request_id = id.map(|id| cut(id.as_bytes())).or(line.request_id.take());
            line.rule = answer.denied_by().map(|limited| Arc::clone(&limited.rule));
            let wait = answer.denial.as_ref().map(|denial| denial.wait);
            line.retry_after = wait.and_then(|wait| wait.as_secs_ceil());
        });
    }

    /// The rule that denies it, of which there is no answer.
    pub(crate) fn set_rule(&mut self, rule: impl FnOnce() -> RuleName) {
        self.update(|line| line.rule = Some(Arc::new(rule())));
    }

    pub(crate) fn set_outcome(&mut self, outcome: &'static str) {
        self.update(|line| line.outcome = outcome);
        self.span
            .set(attribute::GATEWAY_OUTCOME, || Value::Text(outcome.into()));
    }

    /// The response begins.
    pub(crate) fn set_status(&mut self, status: StatusCode) {
        self.update(|line| {
            line.status = Some(status.as_u16());
            // The body of its response is not sent.
            line.is_complete = line.method == Method::HEAD;
        });
        self.span.set_http_status(status);
    }

    /// A part of the response's body is on its way to the client.
    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.update(|line| line.bytes = line.bytes.saturating_add(bytes));
    }

    /// The response has its end.
    pub(crate) fn complete(&mut self) {
        self.update(|line| line.is_complete = true);
    }
}

fn cut(bytes: &[u8]) -> Box<[u8]> {
    bytes[..bytes.len().min(FIELD_BYTES_MAX)].into()
}

/// A client may invent a method as long as the head may be.
fn cut_method(method: &Method) -> Method {
    let cut = cut(method.as_str().as_bytes());
    Method::from_bytes(&cut).unwrap_or_default()
}

impl Drop for LogRecord {
    fn drop(&mut self) {
        if let Some(mut open) = self.open.take() {
            open.line.took = open.began.elapsed();
            open.log.push(open.line.format(open.log.format()));
        }
    }
}

impl fmt::Debug for LogRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.open.as_ref().map(|open| &open.line);
        let mut shown = f.debug_struct("LogRecord");
        shown.field("line", &line).field("span", &self.span);
        shown.finish()
    }
}
