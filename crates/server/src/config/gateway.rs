//! `gateway`: what the listener of this name passes on.

use tollgate_gateway::{Gateway, GatewaySettings};
use tollgate_rules::Settings;

use super::{Listen, ListenerKind};

/// Reads the section; `None` if it is missing or wrong.
pub(super) fn take(top: &Settings<'_>, listen: &[Listen]) -> Option<GatewaySettings> {
    let gateway: GatewaySettings = top.value("gateway")?;
    if let Err(invalid) = Gateway::check(&gateway) {
        let message = format!("`{}`: {}", invalid.at, invalid.problem);
        top.report_error_at("gateway", &invalid.at, message, &invalid.instead);
    }
    if !listen.iter().any(|one| one.kind == ListenerKind::Gateway) {
        let message = "`gateway` has no effect, because `listen.gateway` is off".to_owned();
        let help = "give `listen.gateway` an address, or remove `gateway`";
        top.report_error("gateway", message, help);
    }
    Some(gateway)
}
