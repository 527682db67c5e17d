//! Spans as messages of OTLP.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::message::{
    Any, AnyValue, Array, Attribute, ERROR, Link, Resource, ResourceSpans, SERVER, Scope,
    ScopeSpans, Span, Status, TraceRequest,
};
use crate::span::{FinishedSpan, Value};
use crate::trace_context::TraceContext;

/// The bits of a span's flags that say whether its parent is in another process: known, and yes.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// What the process says about itself.
pub(crate) fn resource(attributes: &BTreeMap<String, String>) -> Resource {
    let attributes = attributes.iter();
    let attributes = attributes.map(|(key, value)| Attribute::text(key.clone(), value.clone()));
    Resource {
        attributes: attributes.collect(),
    }
}

/// The request that exports these spans.
pub(crate) fn trace_request(resource: &Resource, spans: &[FinishedSpan]) -> TraceRequest {
    let scope = ScopeSpans {
        scope: Some(Scope::own()),
        spans: spans.iter().map(message).collect(),
    };
    TraceRequest {
        resources: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scopes: vec![scope],
        }],
    }
}

/// A span as OTLP has it.
fn message(span: &FinishedSpan) -> Span {
    let bytes = |id: u64| id.to_be_bytes().to_vec();
    let remote = span.parent.map_or(0, |_| IS_REMOTE);
    let link = |link: TraceContext| Link {
        trace_id: link.trace.0.to_be_bytes().to_vec(),
        span_id: bytes(link.span.0),
        flags: u32::from(link.flags) | HAS_IS_REMOTE | IS_REMOTE,
    };
    Span {
        trace_id: span.context.trace.0.to_be_bytes().to_vec(),
        span_id: bytes(span.context.span.0),
        trace_state: span.state.clone().unwrap_or_default(),
        parent_span_id: span.parent.map(|id| bytes(id.0)).unwrap_or_default(),
        name: span.name.clone().into_owned(),
        kind: SERVER,
        start_nanos: nanos(span.at),
        end_nanos: nanos(span.at.saturating_add(span.took)),
        attributes: span.attributes.iter().map(attribute).collect(),
        links: span.link.map(link).into_iter().collect(),
        status: span.is_error.then_some(Status { code: ERROR }),
        flags: u32::from(span.context.flags) | HAS_IS_REMOTE | remote,
    }
}

fn attribute((key, value): &(&'static str, Value)) -> Attribute {
    let text = |text: &str| Any::Text(text.to_owned());
    let value = match value {
        Value::Text(value) => text(value),
        Value::Number(number) => Any::Number(*number),
        Value::Seconds(time) => Any::Double(time.as_secs_f64()),
        Value::Texts(texts) => {
            let values = texts.iter().map(|one| AnyValue {
                value: Some(text(one)),
            });
            Any::Array(Array {
                values: values.collect(),
            })
        }
    };
    Attribute::new(*key, value)
}

/// Nanoseconds since 1970, until the year 2554.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
