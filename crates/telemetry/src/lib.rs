//! OpenTelemetry for Tollgate: spans of requests and metrics, sent over OTLP.
//!
//! [`Telemetry`] exports, as a [`TelemetryConfig`] says. [`Tracing`] begins a [`RequestSpan`] for
//! each request, which continues its caller's trace (W3C Trace Context).
//!
//! A decision never waits for a collector: spans are queued without waiting, up to
//! [`QUEUED_SPANS_MAX`], and tasks of their own send them.
//!
//! Of the protocols that OTLP has, this is protobuf over HTTP/1.1, which every collector receives.

mod trace_context;

mod sampler;

mod endpoint;

mod settings;

mod message;

mod span_id_source;

mod span_queue;

mod span;

mod span_message;

mod tracer;

mod client;

mod exporter;

mod open_metrics;

mod metric_exporter;

mod telemetry;

pub use endpoint::Endpoint;
pub use sampler::Ratio;
pub use settings::{InvalidTelemetry, SignalConfig, TIMES, TelemetryConfig, header};
pub use span::{HttpRequest, RequestSpan, Value, attribute};
pub use span_queue::QUEUED_SPANS_MAX;
pub use telemetry::{FLUSH_WITHIN, Telemetry, TelemetryCounts};
pub use trace_context::{SpanId, TRACEPARENT, TRACESTATE, TraceContext, TraceId};
pub use tracer::Tracing;
