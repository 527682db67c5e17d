//! Requests that no rule limits, because settings and rules do not fit together.

use std::collections::BTreeSet;

use tollgate_gateway::GatewaySettings;
use tollgate_http::{DescriptorSettings, IdentitySettings};
use tollgate_rules::{Loaded, RuleSet, nearest};
use tracing::warn;

use crate::config::Auth;
use crate::setting_warning::SettingWarning;

/// An identity of the settings, and the domain whose rules apply to its requests.
struct Identified<'s> {
    section: &'static str,
    /// The keys that lead to it in the section.
    at: String,
    domain: &'s str,
    identity: &'s IdentitySettings,
}

/// What `auth` and `gateway` identify, and no rule limits, and entries of the gateway's lists that
/// list nobody: a warning each, once.
///
/// A descriptor whose requests a concurrency limit counts needs no rule.
pub fn find_unlimited(
    auth: Option<&Auth>,
    gateway: Option<&GatewaySettings>,
    loaded: &Loaded,
) -> BTreeSet<SettingWarning> {
    let has_errors = |domain: &str| loaded.has_errors_in(domain);
    let mut found = find_without_rule(auth, gateway, &loaded.rules, &has_errors);
    let unlisted = gateway.map(|one| one.lists.find_doubts(&one.descriptor_keys()));
    let unlisted = unlisted.unwrap_or_default();
    found.extend(unlisted.into_iter().map(|(at, entry)| SettingWarning {
        path: format!("gateway.{at}"),
        code: "unlisted",
        message: format!("{}: {}", entry.place(), entry.problem),
        help: entry.instead,
    }));
    found
}

/// What they identify, and no rule limits.
fn find_without_rule(
    auth: Option<&Auth>,
    gateway: Option<&GatewaySettings>,
    rules: &RuleSet,
    has_errors: &dyn Fn(&str) -> bool,
) -> BTreeSet<SettingWarning> {
    let auth_identity = auth.map(|auth| Identified {
        section: "auth",
        at: "identity".to_owned(),
        domain: &auth.domain,
        identity: &auth.identity,
    });
    let gateway_identities = gateway.into_iter().flat_map(GatewaySettings::identities);
    let gateway_identities = gateway_identities.map(|(at, domain, identity)| Identified {
        section: "gateway",
        at,
        domain,
        identity,
    });
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
    for identified in auth_identity.into_iter().chain(gateway_identities) {
        let domain = identified.domain;
        if !rules.has_domain(domain.as_bytes()) {
            let path = path_of_domain(&identified, gateway);
            let asks = format!("`{}` asks for the domain `{domain}`", identified.section);
            found.insert(match has_errors(domain) {
                true => SettingWarning::broken_rules(path, &asks, rules),
                false => {
                    let message = format!("{asks}, which has no rules, so it allows everything");
                    SettingWarning::no_rules(path, domain, message, rules)
                }
            });
            continue;
        }
        let descriptors = identified.identity.descriptors.iter().enumerate();
        let without_rule = descriptors.filter(|(_, one)| {
            let has_rule = rules.has_rule(domain, |keys| one.may_have_keys(keys));
            !has_rule && !is_counted(one)
        });
        found.extend(without_rule.map(|(index, one)| no_rule(&identified, index, one, rules)));
    }
    found
}

/// The setting that names the domain.
fn path_of_domain(identified: &Identified<'_>, gateway: Option<&GatewaySettings>) -> String {
    let Identified {
        section, domain, ..
    } = identified;
    let gateway =
        gateway.filter(|one| *section == "gateway" && one.domain.as_deref() != Some(domain));
    let mut routes = gateway.map_or(&[][..], |one| &one.routes).iter();
    match routes.position(|route| route.domain.as_deref() == Some(domain)) {
        Some(index) => format!("{section}.routes[{index}].domain"),
        None => format!("{section}.domain"),
    }
}

/// The warning about a descriptor for which there is no rule, whatever its values.
fn no_rule(
    identified: &Identified<'_>,
    index: usize,
    descriptor: &DescriptorSettings,
    rules: &RuleSet,
) -> SettingWarning {
    let Identified {
        section,
        at,
        domain,
        ..
    } = identified;
    let entries = descriptor.entries.iter();
    let keys: Vec<&str> = entries.map(|entry| &*entry.key).collect();
    let known: Vec<&str> = rules.keys_of(domain).into_iter().collect();
    let unknown = keys.iter().find(|key| !known.contains(key));
    let help = match unknown.map(|key| (key, nearest(key, &known))) {
        Some((_, Some(meant))) => format!("did you mean `{meant}`, which the rules have?"),
        Some((key, None)) => format!("write a rule with `key: {key}`, or remove the descriptor"),
        None => "nest these keys in a rule, or remove the descriptor".to_owned(),
    };
    SettingWarning {
        path: format!("{section}.{at}.descriptors[{index}]"),
        code: "no-rule",
        message: format!(
            "no rule of the domain `{domain}` is for the descriptor `{}` of `{section}.{at}`, so \
             it limits nothing",
            keys.join("`, `")
        ),
        help,
    }
}

/// Logs what `auth` and `gateway` identify, and no rule limits. The gateway itself logs what is
/// wrong with its lists.
pub(crate) fn warn(auth: Option<&Auth>, gateway: Option<&GatewaySettings>, rules: &RuleSet) {
    if rules.is_empty() {
        // Nothing is served, and the error says why.
        return;
    }
    for found in find_without_rule(auth, gateway, rules, &|_| false) {
        let SettingWarning {
            path,
            message,
            help,
            ..
        } = found;
        warn!(setting = path, help, "{message}");
    }
}
