//! The parts of a route, read from its settings and those of the gateway.

use std::sync::Arc;

use tollgate_core::DOMAIN_BYTES_MAX;
use tollgate_http::{AddressSource, Classifier, IdentitySettings, InvalidSetting, InvalidSettings};

use super::Upstreams;
use crate::matcher::Matcher;
use crate::pricing::Pricing;
use crate::settings::{GatewaySettings, RouteSettings, UpstreamProtocol};
use crate::upgrade::Protocols;
use crate::upstream::Upstream;

/// The longest name of a route or an upstream.
const NAME_BYTES_MAX: usize = 64;
/// The name of a route without a name or a condition.
const DEFAULT_NAME: &str = "default";

/// What names may be.
pub(super) const NAMES: &str = "write up to 64 letters, digits, - and _";

pub(super) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// What describes the requests of a route, and what they cost. The client can be the one that a
/// PROXY protocol header names only if the gateway reads these headers.
pub(super) fn classify(
    identity: &IdentitySettings,
    reads_proxy_headers: bool,
) -> Result<(Classifier, Option<Arc<Pricing>>), InvalidSettings> {
    let mut errors = InvalidSettings::default();
    let source = identity.client_address.source;
    if source == AddressSource::ProxyProtocol && !reads_proxy_headers {
        errors.push(InvalidSetting::new(
            "client_address.source",
            "the gateway reads no PROXY protocol, which comes before any route is known",
            "write `source: proxy-protocol` in the gateway's own `identity` as well",
        ));
    }
    let classifier = errors.take(Classifier::with_responses(identity));
    errors.take(Pricing::check(identity));
    match classifier {
        Some(classifier) if errors.is_empty() => {
            let pricing = Pricing::new(identity, &classifier);
            Ok((classifier, pricing.map(Arc::new)))
        }
        _ => Err(errors),
    }
}

/// The name of a route: its own, or its first condition.
pub(super) fn name_of(
    settings: &RouteSettings,
    matcher: Option<&Matcher>,
) -> Result<String, InvalidSetting> {
    match &settings.name {
        Some(name) if !is_name(name) => {
            let problem = format!("{name:?} is not a valid route name");
            Err(InvalidSetting::new("name", problem, NAMES))
        }
        Some(name) => Ok(name.clone()),
        None => {
            let condition = matcher.and_then(Matcher::first_condition);
            Ok(condition.unwrap_or(DEFAULT_NAME).to_owned())
        }
    }
}

/// The upstream of a route, which needs no name if it is the only one.
pub(super) fn find_upstream(
    settings: &RouteSettings,
    gateway: &GatewaySettings,
    upstreams: &Upstreams,
) -> Result<Arc<Upstream>, InvalidSetting> {
    let names = gateway.upstreams.keys().map(String::as_str);
    let names = names.collect::<Vec<_>>();
    let names = names.join("`, `");
    match &settings.upstream {
        Some(name) => upstreams.get(name).map(Arc::clone).ok_or_else(|| {
            let problem = format!("there is no upstream {name:?}");
            InvalidSetting::new("upstream", problem, format!("write one of `{names}`"))
        }),
        None if upstreams.len() == 1 => {
            let only = upstreams.values().next().map(Arc::clone);
            Ok(only.expect("there is one"))
        }
        None => Err(InvalidSetting::new(
            "upstream",
            "nothing says which upstream requests go to",
            match upstreams.is_empty() {
                true => "write `upstreams: {NAME: {addresses: [HOST:PORT]}}`".to_owned(),
                false => format!("write routes, each with `upstream:` and one of `{names}`"),
            },
        )),
    }
}

/// What the requests of a route may switch to. Upstreams of HTTP/2 have no upgrades, so those that
/// a gateway with several routes allows do not concern them. Without an upstream, which is an error
/// of its own, the names are checked.
pub(super) fn find_protocols(
    settings: &RouteSettings,
    gateway: &GatewaySettings,
    upstream: Option<&Upstream>,
) -> Result<Protocols, InvalidSettings> {
    let names = settings.upgrades.as_ref().unwrap_or(&gateway.upgrades);
    let protocols = Protocols::new(names)?;
    let has_upgrades = |upstream: &Upstream| upstream.protocol() == UpstreamProtocol::Http1;
    if upstream.is_none_or(has_upgrades) || names.is_empty() {
        return Ok(protocols);
    }
    if settings.upgrades.is_none() && !gateway.routes.is_empty() {
        return Ok(Protocols::default());
    }
    let problem = "its upstream speaks HTTP/2, which has no upgrades";
    let instead = "remove it, or write `protocol: http1` for the upstream";
    Err(InvalidSetting::new("upgrades", problem, instead).into())
}

pub(super) fn find_domain(
    settings: &RouteSettings,
    gateway: &GatewaySettings,
) -> Result<String, InvalidSetting> {
    let instead = "write `domain: NAME`, with the domain of a rules file";
    let domain = gateway
        .domain_of(settings)
        .ok_or_else(|| InvalidSetting::new("domain", "nothing says whose rules apply", instead))?;
    if !(1..=DOMAIN_BYTES_MAX).contains(&domain.len()) {
        let problem = format!(
            "{} bytes, and 1 to {DOMAIN_BYTES_MAX} are possible",
            domain.len()
        );
        return Err(InvalidSetting::new("domain", problem, instead));
    }
    Ok(domain.to_owned())
}
