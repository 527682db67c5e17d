//! Settings of `auth`, `gateway` and `telemetry` that have no effect, because another one is
//! missing or wins.

use std::collections::BTreeSet;

use tollgate_http::{CostSource, EntrySettings, IdentitySettings, ResponseSettings};
use tollgate_server::{Config, GatewaySettings, RouteSettings, SettingWarning, TelemetryConfig};

/// A warning about each of them, once.
pub(super) fn find(config: &Config) -> BTreeSet<SettingWarning> {
    let mut found = BTreeSet::new();
    if let Some(auth) = &config.auth {
        check_identity("auth.identity", &auth.identity, &mut found);
        check_responses("auth.responses", &auth.responses, &mut found);
    }
    if let Some(gateway) = &config.gateway {
        check_responses("gateway.responses", &gateway.responses, &mut found);
        for (index, route) in gateway.routes.iter().enumerate() {
            if let Some(responses) = &route.responses {
                let path = format!("gateway.routes[{index}].responses");
                check_responses(&path, responses, &mut found);
            }
        }
        check_defaults(gateway, &mut found);
        for (at, _, identity) in gateway.identities() {
            check_identity(&format!("gateway.{at}"), identity, &mut found);
        }
    }
    check_telemetry(&config.telemetry, &mut found);
    found
}

/// Warns about settings for routes without their own, if every route has its own.
fn check_defaults(gateway: &GatewaySettings, found: &mut BTreeSet<SettingWarning>) {
    type HasOwn = fn(&RouteSettings) -> bool;
    let descriptors = IdentitySettings::default().descriptors;
    let is_identity_set = gateway.identity.descriptors != descriptors;
    let defaults: [(&str, bool, HasOwn); 4] = [
        ("identity.descriptors", is_identity_set, |route| {
            route.identity.is_some()
        }),
        ("upgrades", !gateway.upgrades.is_empty(), |route| {
            route.upgrades.is_some()
        }),
        ("in_flight", !gateway.in_flight.is_empty(), |route| {
            route.in_flight.is_some()
        }),
        ("body_rate", gateway.body_rate.is_some(), |route| {
            route.body_rate.is_some()
        }),
    ];
    for (key, is_set, has_own) in defaults {
        if is_set && !gateway.routes.is_empty() && gateway.routes.iter().all(has_own) {
            found.insert(warning(
                format!("gateway.{key}"),
                &format!("`{key}` has no effect: every route has its own"),
                "remove it here, or in the routes that it is meant for",
            ));
        }
    }
}

/// Warns about a token without claims, about routes that are not read, and about descriptors that
/// charge nothing.
fn check_identity(path: &str, identity: &IdentitySettings, found: &mut BTreeSet<SettingWarning>) {
    let entries = || identity.descriptors.iter().flat_map(|one| &one.entries);
    if !identity.routes.is_empty() && !entries().any(EntrySettings::uses_route) {
        found.insert(warning(
            format!("{path}.routes"),
            "`routes` has no effect: no descriptor has `from: route`",
            "write an entry such as `{key: route, from: route, if_missing: skip}`, or remove \
             `routes`",
        ));
    }
    if identity.token.is_some() && !entries().any(EntrySettings::uses_claim) {
        found.insert(warning(
            format!("{path}.token"),
            "`token` has no effect: no descriptor has a claim of it, so requests without a valid \
             token are not denied",
            "write an entry such as `{key: user, from: {claim: sub}, if_missing: deny}`, or \
             remove `token`",
        ));
    }
    for (index, descriptor) in identity.descriptors.iter().enumerate() {
        let source = descriptor.cost.as_ref().map(|cost| &cost.from);
        if source == Some(&CostSource::Constant(0)) {
            found.insert(warning(
                format!("{path}.descriptors[{index}].cost.from.constant"),
                "requests cost 0 units, so the limits of this descriptor count none of them",
                "write at least 1, or remove the descriptor",
            ));
        }
    }
}

fn check_responses(path: &str, responses: &ResponseSettings, found: &mut BTreeSet<SettingWarning>) {
    if responses.cors.allow_credentials && responses.cors.allow_origins.is_empty() {
        found.insert(warning(
            format!("{path}.cors.allow_credentials"),
            "`allow_credentials` has no effect: no origin is allowed",
            "write `allow_origins: [https://app.example]` beside it, or remove it",
        ));
    }
}

/// Warns about what is sent nowhere, and about authorities of certificates that nobody checks. With
/// no endpoint at all, the environment may have some.
fn check_telemetry(telemetry: &TelemetryConfig, found: &mut BTreeSet<SettingWarning>) {
    let signals = [
        ("traces", &telemetry.traces),
        ("metrics", &telemetry.metrics),
    ];
    for (index, (key, signal)) in signals.iter().enumerate() {
        let (other, other_signal) = signals[1 - index];
        let is_sent = telemetry.endpoint.is_some() || signal.endpoint.is_some();
        if signal.is_on == Some(true) && !is_sent && other_signal.endpoint.is_some() {
            found.insert(warning(
                format!("telemetry.{key}"),
                &format!("`{key}` has no effect: the only endpoint is that of `{other}`"),
                "write `endpoint` in it, or for both in `telemetry`; or remove it",
            ));
        }
    }
    if telemetry.ca.is_some() && telemetry.is_on() && !telemetry.uses_tls() {
        found.insert(warning(
            "telemetry.ca".to_owned(),
            "`ca` has no effect: no endpoint begins with https://",
            "write https:// in the endpoint, or remove `ca`",
        ));
    }
}

fn warning(path: String, message: &str, help: &str) -> SettingWarning {
    SettingWarning {
        path,
        code: "no-effect",
        message: message.to_owned(),
        help: help.to_owned(),
    }
}
