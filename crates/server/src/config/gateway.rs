//! `gateway`: what the listener of this name passes on.

use std::path::Path;

use tollgate_gateway::{Gateway, GatewaySettings};
use tollgate_rules::Settings;

use super::{Listen, ListenerKind};

/// Keys of upstreams that are easily written elsewhere, and where they belong.
const PLACES: [(&str, &str); 4] = [
    ("addresses", "upstreams.NAME"),
    ("health_check", "upstreams.NAME"),
    ("protocol", "upstreams.NAME"),
    ("retries", "upstreams.NAME"),
];

/// Reads the section, and its lists if they are asked for; `None` if it is missing or wrong.
pub(super) fn take(
    top: &Settings<'_>,
    listen: &[Listen],
    directory: &Path,
    reads_lists: bool,
) -> Option<GatewaySettings> {
    let mut gateway: GatewaySettings = top.value_or_place("gateway", &PLACES)?;
    for upstream in gateway.upstreams.values_mut() {
        let tls = upstream.tls.iter_mut();
        let files = tls.flat_map(|tls| [&mut tls.ca, &mut tls.cert, &mut tls.key]);
        for file in files.flatten() {
            *file = directory.join(&*file);
        }
    }
    let routes = gateway.routes.iter_mut();
    let identities = routes.filter_map(|route| route.identity.as_mut());
    for identity in identities.chain([&mut gateway.identity]) {
        identity.resolve(directory);
    }
    for invalid in Gateway::check(&gateway).err().unwrap_or_default() {
        let at = invalid.at.clone();
        let invalid = invalid.below("gateway");
        let message = format!("`{}`: {}", invalid.at, invalid.problem);
        top.report_error_at("gateway", &at, message, &invalid.instead);
    }
    // An empty path stays what it is: an error.
    let log = gateway.access_log.as_mut();
    if let Some(log) = log.filter(|log| !log.is_stdout() && !log.path.as_os_str().is_empty()) {
        log.path = directory.join(&log.path);
    }
    gateway.lists.resolve(directory);
    let lists = Some(&gateway.lists).filter(|_| reads_lists);
    let invalid = lists.and_then(|lists| lists.check().err());
    for invalid in invalid.unwrap_or_default() {
        let message = format!("{}: {}", invalid.place(), invalid.problem);
        top.report_error_at("gateway", "lists", message, &invalid.instead);
    }
    if !listen.iter().any(|one| one.kind == ListenerKind::Gateway) {
        let message = "`gateway` has no effect, because `listen.gateway` is off".to_owned();
        let help = "give `listen.gateway` an address, or remove `gateway`";
        top.report_error("gateway", message, help);
    }
    Some(gateway)
}
