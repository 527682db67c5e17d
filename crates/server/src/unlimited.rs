//! Requests that no rule limits, because settings and rules do not fit together.

use std::collections::BTreeSet;

use tollgate_gateway::GatewaySettings;
use tollgate_http::{DescriptorSettings, IdentitySettings};
use tollgate_rules::RuleSet;
use tracing::warn;

use crate::config::Auth;

/// What `auth` and `gateway` identify, and no rule limits: each in a sentence, once.
///
/// A descriptor whose requests a concurrency limit counts needs no rule.
pub fn find_unlimited(
    auth: Option<&Auth>,
    gateway: Option<&GatewaySettings>,
    rules: &RuleSet,
) -> BTreeSet<String> {
    let auth_identity =
        auth.map(|auth| ("auth", "identity".to_owned(), &*auth.domain, &auth.identity));
    let gateway_identities = gateway.into_iter().flat_map(GatewaySettings::identities);
    let gateway_identities =
        gateway_identities.map(|(at, domain, identity)| ("gateway", at, domain, identity));
    let is_counted = |descriptor: &DescriptorSettings| {
        let mut counted = gateway
            .into_iter()
            .flat_map(GatewaySettings::in_flight_keys);
        counted.any(|keys| {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            descriptor.may_have_keys(&keys)
        })
    };
    let mut found = BTreeSet::new();
    for (section, at, domain, identity) in auth_identity.into_iter().chain(gateway_identities) {
        if !rules.domains().any(|known| known == domain) {
            found.insert(format!(
                "`{section}` asks for the domain `{domain}`, which has no rules, so it allows \
                 everything"
            ));
            continue;
        }
        for descriptor in
            descriptors_without_rule(identity, domain, rules).filter(|one| !is_counted(one))
        {
            let entries = descriptor.entries.iter();
            let keys: Vec<&str> = entries.map(|entry| &*entry.key).collect();
            found.insert(format!(
                "no rule of the domain `{domain}` is for the descriptor `{}` of \
                 `{section}.{at}`, so it limits nothing",
                keys.join("`, `")
            ));
        }
    }
    found
}

/// The descriptors for which there is no rule, whatever their values.
fn descriptors_without_rule<'a>(
    identity: &'a IdentitySettings,
    domain: &str,
    rules: &RuleSet,
) -> impl Iterator<Item = &'a DescriptorSettings> {
    let descriptors = identity.descriptors.iter();
    descriptors.filter(|one| !rules.has_rule(domain, |keys| one.may_have_keys(keys)))
}

/// Logs what `auth` and `gateway` identify, and no rule limits.
pub(crate) fn warn(auth: Option<&Auth>, gateway: Option<&GatewaySettings>, rules: &RuleSet) {
    for found in find_unlimited(auth, gateway, rules) {
        warn!("{found}");
    }
}
