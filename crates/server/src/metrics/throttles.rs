//! What `CL.THROTTLE` has decided, and the memory of its keys, at each scrape.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType::{Counter, Gauge};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::redis_protocol::ThrottleStore;

/// Writes the outcomes of `CL.THROTTLE`, and how many keys its store has.
pub(super) fn write(
    store: &ThrottleStore,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let help = "Commands CL.THROTTLE, by outcome";
    let mut metric = encoder.encode_descriptor("throttle_decisions", help, None, Counter)?;
    for (outcome, count) in store.outcomes().filter(|(_, count)| *count > 0) {
        let labels = [("outcome", outcome)];
        ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
    }
    let stats = store.stats();
    let help = "Keys of CL.THROTTLE that are live";
    let metric = encoder.encode_descriptor("throttle_keys", help, None, Gauge)?;
    ConstGauge::new(i64::try_from(stats.live_keys).unwrap_or(i64::MAX)).encode(metric)?;
    let help = "Live keys of CL.THROTTLE that were evicted because there was no room";
    let metric = encoder.encode_descriptor("throttle_keys_evicted", help, None, Counter)?;
    ConstCounter::new(stats.evicted_keys).encode(metric)
}
