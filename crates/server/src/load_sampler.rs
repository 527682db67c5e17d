//! Samples the load of the gateway's upstreams, again and again.

use std::sync::Arc;

use tokio::time::sleep;
use tollgate_gateway::Gateway;
use tollgate_listen::ShutdownSignal;

use crate::config::HeadroomConfig;

/// Samples until shutdown.
pub(crate) fn sample_load(
    gateway: &Arc<Gateway>,
    config: &HeadroomConfig,
    shutdown: &ShutdownSignal,
) -> impl Future<Output = ()> + Send + 'static {
    let (gateway, config) = (Arc::clone(gateway), config.clone());
    let mut shutdown = shutdown.clone();
    async move {
        loop {
            gateway.sample_load(&config.upstream, config.pace());
            tokio::select! {
                () = sleep(config.interval.to_duration()) => {}
                () = shutdown.wait() => return,
            }
        }
    }
}
