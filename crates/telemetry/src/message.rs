//! The messages of OTLP 1.x that are sent and received, as far as they are used: traces, metrics,
//! and what a collector answers.
//!
//! Field numbers and types are those of the published definitions, which never change for version
//! 1; the tests decode everything with the crate that OpenTelemetry publishes. That crate is no
//! dependency of the service, because it brings the SDK with it.

use prost::{Message, Oneof};

pub(crate) mod metrics;

/// `trace.v1.Span.SpanKind.SPAN_KIND_SERVER`.
pub(crate) const SERVER: i32 = 2;
/// `trace.v1.Status.StatusCode.STATUS_CODE_ERROR`.
pub(crate) const ERROR: i32 = 2;

/// `collector.trace.v1.ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TraceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resources: Vec<ResourceSpans>,
}

/// `trace.v1.ResourceSpans`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scopes: Vec<ScopeSpans>,
}

/// `trace.v1.ScopeSpans`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<Span>,
}

/// `trace.v1.Span`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(int32, tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) start_nanos: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) end_nanos: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    pub(crate) flags: u32,
}

/// `trace.v1.Span.Link`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Link {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(fixed32, tag = "6")]
    pub(crate) flags: u32,
}

/// `trace.v1.Status`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

/// `resource.v1.Resource`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<Attribute>,
}

/// `common.v1.InstrumentationScope`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

/// `common.v1.KeyValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

/// `common.v1.AnyValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 3, 4, 5")]
    pub(crate) value: Option<Any>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(Array),
}

/// `common.v1.ArrayValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Array {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<AnyValue>,
}

/// `collector.trace.v1.ExportTraceServiceResponse`, and that of metrics, which is the same on the
/// wire.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// `ExportTracePartialSuccess`, and that of metrics.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

// === impl Attribute ===

impl Attribute {
    pub(crate) fn new(key: impl Into<String>, value: Any) -> Attribute {
        Attribute {
            key: key.into(),
            value: Some(AnyValue { value: Some(value) }),
        }
    }

    pub(crate) fn text(key: impl Into<String>, value: impl Into<String>) -> Attribute {
        Attribute::new(key, Any::Text(value.into()))
    }
}

// === impl Scope ===

impl Scope {
    /// What makes the spans and the metrics.
    pub(crate) fn own() -> Scope {
        Scope {
            name: "tollgate".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}
