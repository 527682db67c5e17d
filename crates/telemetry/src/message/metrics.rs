//! The messages of metrics.

use prost::{Message, Oneof};

use super::{Attribute, Resource, Scope};

/// `AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE`.
pub(crate) const CUMULATIVE: i32 = 2;

/// `collector.metrics.v1.ExportMetricsServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resources: Vec<ResourceMetrics>,
}

/// `metrics.v1.ResourceMetrics`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scopes: Vec<ScopeMetrics>,
}

/// `metrics.v1.ScopeMetrics`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) metrics: Vec<Metric>,
}

/// `metrics.v1.Metric`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metric {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    pub(crate) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

/// `metrics.v1.Gauge`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(crate) points: Vec<NumberPoint>,
}

/// `metrics.v1.Sum`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub(crate) points: Vec<NumberPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) temporality: i32,
    #[prost(bool, tag = "3")]
    pub(crate) is_monotonic: bool,
}

/// `metrics.v1.Histogram`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Histogram {
    #[prost(message, repeated, tag = "1")]
    pub(crate) points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) temporality: i32,
}

/// `metrics.v1.NumberDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NumberPoint {
    #[prost(message, repeated, tag = "7")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(fixed64, tag = "2")]
    pub(crate) start_nanos: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) at_nanos: u64,
    #[prost(oneof = "Number", tags = "4, 6")]
    pub(crate) value: Option<Number>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum Number {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Integer(i64),
}

/// `metrics.v1.HistogramDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistogramPoint {
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(fixed64, tag = "2")]
    pub(crate) start_nanos: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) at_nanos: u64,
    #[prost(fixed64, tag = "4")]
    pub(crate) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(crate) sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    pub(crate) bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) bounds: Vec<f64>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) exemplars: Vec<Exemplar>,
}

/// `metrics.v1.Exemplar`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Exemplar {
    #[prost(fixed64, tag = "2")]
    pub(crate) at_nanos: u64,
    #[prost(oneof = "ExemplarValue", tags = "3")]
    pub(crate) value: Option<ExemplarValue>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) trace_id: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum ExemplarValue {
    #[prost(double, tag = "3")]
    Double(f64),
}
