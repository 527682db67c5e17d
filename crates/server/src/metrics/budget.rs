//! The limits on what connections may use, and what they use, at each scrape.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_listen::{Budget, Limits, open_files};

/// A setting of `limits` that is in effect: the gauge's name, its help, and where it is.
type Bound = (&'static str, &'static str, fn(&Limits) -> usize);

#[rustfmt::skip] // A gauge reads as one row.
const BOUNDS: [Bound; 13] = [
    ("connections_max", "The most connections of each listener but admin",
        |limits| limits.connections),
    ("connections_per_address_max",
        "The most connections from one address at each of these listeners",
        |limits| limits.connections_per_address),
    ("admin_connections_max", "The most connections of the listener admin",
        |limits| limits.admin_connections),
    ("connection_age_max_seconds", "The age at which a connection is closed gracefully",
        |limits| usize::try_from(limits.connection_age.as_secs()).unwrap_or(usize::MAX)),
    ("streams_per_connection_max", "The most concurrent calls on one HTTP/2 connection",
        |limits| wide(limits.streams_per_connection)),
    ("streams_promised_max", "The most concurrent calls that all HTTP/2 connections share",
        |limits| limits.streams),
    ("header_bytes_max", "The largest head of an HTTP request, or metadata of a gRPC call",
        |limits| wide(limits.header_bytes)),
    ("message_bytes_max", "The largest gRPC message that is read", |limits| limits.message_bytes),
    ("body_bytes_max", "The largest HTTP body that is read", |limits| limits.body_bytes),
    ("connection_bytes_held_max", "The most bytes of unfinished requests on one connection",
        |limits| limits.buffer_per_connection),
    ("request_bytes_held_max", "The most bytes of unfinished requests in the shared pool",
        |limits| limits.buffer),
    ("turn_bytes_max", "Bytes processed for one connection before other connections get a turn",
        |limits| limits.turn_bytes),
    ("control_frames_max", "The largest burst of frames without a request on an HTTP/2 connection",
        |limits| wide(limits.control_frames)),
];

/// Writes the limits, and what is used of them.
pub(super) fn write(
    limits: &Limits,
    budget: &Budget,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let pools = [
        (
            "request_bytes_held",
            "Bytes of unfinished requests in the shared pool, beyond each connection's own",
            budget.bytes(),
        ),
        (
            "streams_promised",
            "Concurrent calls granted to HTTP/2 connections from the shared pool",
            budget.streams(),
        ),
        (
            "open_files_max",
            "The most files and connections that this process may have open",
            open_files::limit().map_or(0, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        ),
    ];
    for (name, help, value) in pools {
        gauge(encoder, name, help, value)?;
    }
    for (name, help, bound) in BOUNDS {
        gauge(encoder, name, help, bound(limits))?;
    }
    Ok(())
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: usize,
) -> Result<(), Error> {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

/// 32 bits fit into what a `usize` is here.
fn wide(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
