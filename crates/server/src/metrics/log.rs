//! Lines of the log that were lost, at each scrape.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType::Counter;
use prometheus_client::metrics::counter::ConstCounter;

use crate::log::lost_lines;

/// Writes how many lines were lost, by reason.
pub(super) fn write(encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let help = "Lines missing in the log, by reason";
    let mut metric = encoder.encode_descriptor("log_dropped", help, None, Counter)?;
    for (reason, count) in lost_lines() {
        let labels = [("reason", reason)];
        ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
