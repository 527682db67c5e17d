//! Metrics that are read when they are scraped, not counted as they happen.

use std::fmt::{self, Debug, Error, Formatter};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

/// Writes metrics with a function at each scrape.
struct Scrape<F>(F);

/// Registers metrics that `write` writes at each scrape.
pub(super) fn register(
    registry: &mut Registry,
    write: impl Fn(&mut DescriptorEncoder<'_>) -> Result<(), Error> + Send + Sync + 'static,
) {
    registry.register_collector(Box::new(Scrape(write)));
}

// === impl Scrape ===

impl<F> Collector for Scrape<F>
where
    F: Fn(&mut DescriptorEncoder<'_>) -> Result<(), Error> + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.0(&mut encoder)
    }
}

// A collector has to have it, and a closure has none.
impl<F> Debug for Scrape<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}
