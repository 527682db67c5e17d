//! Domains of the gateway that nothing limits.

use tollgate_engine::Engine;
use tollgate_gateway::GatewaySettings;
use tracing::warn;

/// Warns that nothing limits the requests of a domain without rules.
pub(crate) fn warn(gateway: &GatewaySettings, engine: &Engine) {
    let rules = engine.rules();
    let has_rules = |domain: &str| rules.domains().any(|known| known == domain);
    for domain in gateway.domains().into_iter().filter(|one| !has_rules(one)) {
        warn!(
            domain,
            "no rules file has this domain of the gateway: nothing limits its requests"
        );
    }
}
