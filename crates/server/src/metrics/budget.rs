//! What connections may take up, and what they have taken, at each scrape.

use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::budget::Budget;
use crate::config::Limits;
use crate::open_files;

/// Reads [`Budget`] at each scrape.
#[derive(Debug)]
pub(super) struct Scrape {
    budget: Arc<Budget>,
    limits: Limits,
}

// === impl Scrape ===

impl Scrape {
    pub(super) fn new(budget: &Arc<Budget>, limits: &Limits) -> Scrape {
        Scrape {
            budget: Arc::clone(budget),
            limits: *limits,
        }
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let (limits, budget) = (&self.limits, &self.budget);
        let streams = usize::try_from(limits.streams_per_connection).unwrap_or(usize::MAX);
        let gauges = [
            (
                "connections_max",
                "Connections that each of the doors grpc and http may have",
                limits.connections,
            ),
            (
                "connections_per_address_max",
                "Connections that one address may have at each of these doors",
                limits.connections_per_address,
            ),
            (
                "request_bytes_held",
                "Bytes of unfinished requests, beyond those that each connection may always have",
                budget.bytes(),
            ),
            (
                "request_bytes_held_max",
                "The most of these bytes that there may be",
                limits.buffer,
            ),
            (
                "streams_promised",
                "Calls at once that gRPC connections may have, beyond those that each always may",
                budget.streams(),
            ),
            (
                "streams_promised_max",
                "The most of these calls that may be promised",
                limits.streams,
            ),
            (
                "streams_per_connection_max",
                "The most calls at once on one gRPC connection",
                streams,
            ),
            (
                "open_files_max",
                "Files and connections that the system lets this process have open",
                open_files::limit().map_or(0, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            ),
        ];
        for (name, help, value) in gauges {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        Ok(())
    }
}
