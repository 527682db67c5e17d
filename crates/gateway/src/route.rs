//! Routes: which requests go where, under which rules.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use http::request::Parts;
use tollgate_core::{DOMAIN_BYTES_MAX, Moment};
use tollgate_engine::Pace;
use tollgate_http::{AddressSource, Classifier, InvalidSetting, PathSettings, Responder};

use crate::concurrency_limit::{ConcurrencyLimitReader, ConcurrencyLimits};
use crate::failure::Failure;
use crate::load_trend::LoadSettings;
use crate::matcher::{Matcher, Target, host};
use crate::metrics::{Metrics, RouteMetrics};
use crate::permit_table::{KEYS_MAX, PermitTable};
use crate::pricing::Pricing;
use crate::settings::{
    GatewaySettings, ROUTES_MAX, RouteSettings, UPSTREAMS_MAX, UpstreamProtocol,
};
use crate::upgrade::Protocols;
use crate::upstream::Upstream;
use crate::upstream_load::UpstreamLoad;

mod bounds;

pub(crate) use bounds::Bounds;
use bounds::check_timeouts;

/// The longest name of a route or an upstream.
const NAME_BYTES_MAX: usize = 64;
/// The name of a route without a name or a condition.
const DEFAULT_NAME: &str = "default";

/// All routes.
#[derive(Debug)]
pub(crate) struct RouteTable {
    routes: Vec<Route>,
    upstreams: Upstreams,
    in_flight: Arc<PermitTable>,
    normal_form: PathSettings,
    needs_path: bool,
}

/// Where some requests go, and under which rules.
#[derive(Debug)]
pub(crate) struct Route {
    matcher: Matcher,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) domain: String,
    pub(crate) classifier: Classifier,
    /// `None` if no response changes what its request costs.
    pub(crate) pricing: Option<Arc<Pricing>>,
    pub(crate) responder: Responder,
    /// What its requests may switch to.
    pub(crate) protocols: Protocols,
    pub(crate) in_flight: ConcurrencyLimits,
    pub(crate) bounds: Bounds,
    pub(crate) metrics: RouteMetrics,
}

type Upstreams = BTreeMap<String, Arc<Upstream>>;

// === impl RouteTable ===

impl RouteTable {
    /// The routes of `settings`, with what stays as it is in `former`: upstreams, and what counts
    /// requests in flight.
    ///
    /// # Errors
    ///
    /// The settings that cannot be used: one of each upstream and of each route.
    pub(crate) fn new(
        settings: &GatewaySettings,
        metrics: &Metrics,
        former: Option<&RouteTable>,
    ) -> Result<RouteTable, Vec<InvalidSetting>> {
        let mut errors = check_timeouts(settings);
        let former_upstreams = former.map(|former| &former.upstreams);
        let upstreams = open_upstreams(settings, metrics, former_upstreams, &mut errors);
        let permits = former.map(|former| Arc::clone(&former.in_flight));
        let permits = permits.unwrap_or_else(|| PermitTable::new(KEYS_MAX));
        let mut table = RouteTable {
            routes: Vec::with_capacity(settings.routes.len()),
            normal_form: settings.identity.path,
            needs_path: false,
            upstreams,
            in_flight: permits,
        };
        if let Err(invalid) = table.add_routes(settings, metrics, &mut errors) {
            errors.push(invalid);
        }
        match errors.is_empty() {
            true => Ok(table),
            false => Err(errors),
        }
    }

    /// Adds all routes. One that cannot be used adds to `errors`; an error is one of all routes.
    fn add_routes(
        &mut self,
        settings: &GatewaySettings,
        metrics: &Metrics,
        errors: &mut Vec<InvalidSetting>,
    ) -> Result<(), InvalidSetting> {
        let permits = Arc::clone(&self.in_flight);
        let mut in_flight = ConcurrencyLimitReader::new(&settings.in_flight, &permits, metrics)?;
        let everything = [RouteSettings::default()];
        let routes = match settings.routes.as_slice() {
            [] => &everything,
            routes => routes,
        };
        InvalidSetting::check_at_most("routes", routes.len(), "routes", ROUTES_MAX)?;
        for (index, route) in routes.iter().enumerate() {
            let made = Route::new(route, settings, &self.upstreams, &mut in_flight, metrics);
            // Without routes in the settings, what is wrong is at the gateway itself.
            let made = made.map_err(|invalid| match settings.routes.is_empty() {
                true => invalid,
                false => route.locate(invalid, index),
            });
            let made = made.and_then(|made| self.check_reachable(index, &made).map(|()| made));
            match made {
                Ok(made) => {
                    self.needs_path |= made.matcher.needs_path();
                    self.routes.push(made);
                }
                // An upstream that cannot be used is reported already, and so is what routes share.
                Err(invalid) => {
                    let named = route.upstream.as_ref();
                    let follows = self.upstreams.len() < settings.upstreams.len()
                        && invalid.at.ends_with("upstream")
                        && named.is_none_or(|name| settings.upstreams.contains_key(name));
                    if !follows && !errors.contains(&invalid) {
                        errors.push(invalid);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reports a route that no request reaches.
    fn check_reachable(&self, index: usize, route: &Route) -> Result<(), InvalidSetting> {
        let earlier = self.routes.iter();
        match earlier
            .clone()
            .position(|one| one.matcher.covers(&route.matcher))
        {
            None => Ok(()),
            Some(before) => Err(InvalidSetting::new(
                format!("routes[{index}].match"),
                format!("no request reaches this route: routes[{before}] has all of them"),
                "put it before that route, or remove it",
            )),
        }
    }

    /// Checks the health of the addresses of all upstreams from now on.
    pub(crate) fn start_health_checks(&self) {
        for upstream in self.upstreams.values() {
            upstream.start_checks();
        }
    }

    /// Which of these domains have headroom: all upstreams of their routes have. Takes a sample of
    /// these upstreams; the others rest.
    pub(crate) fn sample_load(
        &self,
        domains: &HashSet<String>,
        settings: &LoadSettings,
        pace: Pace,
        now: Moment,
    ) -> HashSet<String> {
        let mut sampled: HashMap<&str, bool> = HashMap::new();
        let mut found: HashMap<&str, bool> = HashMap::new();
        let routes = self.routes.iter();
        for route in routes.filter(|route| domains.contains(&route.domain)) {
            let upstream = &route.upstream;
            let sample = || upstream.load.sample(settings, pace, now);
            let has_headroom = *sampled.entry(upstream.name()).or_insert_with(sample);
            *found.entry(&route.domain).or_insert(true) &= has_headroom;
        }
        for upstream in self.upstreams.values() {
            if !sampled.contains_key(upstream.name()) {
                upstream.load.rest();
            }
        }
        let found = found.into_iter().filter(|(_, has_headroom)| *has_headroom);
        found.map(|(domain, _)| domain.to_owned()).collect()
    }

    /// The first route that fits a request.
    ///
    /// # Errors
    ///
    /// [`Failure`] if none does, or if the path may mean several.
    pub(crate) fn find(&self, head: &Parts) -> Result<&Route, Failure> {
        let path = match self.needs_path {
            true => Some(self.normal_form.normalize(head.uri.path().as_bytes())),
            false => None,
        };
        let path = path.transpose().map_err(Failure::Path)?;
        let target = Target {
            host: host(head),
            path: path.as_ref(),
            method: &head.method,
            headers: &head.headers,
        };
        let mut routes = self.routes.iter();
        let found = routes.find(|route| route.matcher.matches(&target));
        found.ok_or(Failure::NoRoute)
    }
}

/// Opens the upstreams that can be used, and adds what is wrong with others to `errors`.
/// Connections are opened for requests.
fn open_upstreams(
    settings: &GatewaySettings,
    metrics: &Metrics,
    former: Option<&Upstreams>,
    errors: &mut Vec<InvalidSetting>,
) -> Upstreams {
    let count = settings.upstreams.len();
    if !(1..=UPSTREAMS_MAX).contains(&count) {
        errors.push(InvalidSetting::new(
            "upstreams",
            format!("{count} upstreams"),
            format!(
                "write 1 to {UPSTREAMS_MAX}, as in `upstreams: {{api: {{addresses: \
                 ['127.0.0.1:3000']}}}}`"
            ),
        ));
        return Upstreams::default();
    }
    let opened = settings.upstreams.iter().map(|(name, upstream)| {
        let at = format!("upstreams.{name}");
        if !is_name(name) {
            let problem = format!("{name:?} is no name of an upstream");
            return Err(InvalidSetting::new("upstreams", problem, NAMES));
        }
        let connect = settings.timeouts.connect.into();
        let same = former.and_then(|former| former.get(name));
        if let Some(same) = same.filter(|former| former.is_as(upstream, connect)) {
            return Ok((name.clone(), Arc::clone(same)));
        }
        // What is usual for its servers stays known while its settings change.
        let load = same.map(|same| Arc::clone(&same.load));
        let load = load.unwrap_or_else(|| Arc::new(UpstreamLoad::new(name, metrics.load(name))));
        let opened = Upstream::new(name, upstream, connect, metrics.upstream(name), load);
        let opened = opened.map_err(|invalid| invalid.below(&at))?;
        Ok((name.clone(), Arc::new(opened)))
    });
    let opened = opened.filter_map(|opened| opened.map_err(|invalid| errors.push(invalid)).ok());
    opened.collect()
}

/// What names may be.
const NAMES: &str = "write up to 64 letters, digits, - and _";

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

// === impl Route ===

impl Route {
    /// Reads a route; what it does not set is as for the gateway.
    fn new(
        settings: &RouteSettings,
        gateway: &GatewaySettings,
        upstreams: &Upstreams,
        in_flight: &mut ConcurrencyLimitReader<'_>,
        metrics: &Metrics,
    ) -> Result<Route, InvalidSetting> {
        let matcher = Matcher::new(&settings.matches, gateway.identity.path);
        let matcher = matcher.map_err(|invalid| invalid.below("match"))?;
        let identity = settings.identity.as_ref().unwrap_or(&gateway.identity);
        let responses = settings.responses.as_ref().unwrap_or(&gateway.responses);
        if identity.client_address.source == AddressSource::ProxyProtocol {
            return Err(InvalidSetting::new(
                "identity.client_address.source",
                "the gateway reads no PROXY protocol",
                "write `peer`, or the header in which your proxy names the client",
            ));
        }
        let classifier = Classifier::with_responses(identity);
        let classifier = classifier.map_err(|invalid| invalid.below("identity"))?;
        let pricing = Pricing::new(identity, &classifier);
        let responder = Responder::new(responses);
        let name = match &settings.name {
            Some(name) if !is_name(name) => {
                let problem = format!("{name:?} is no name of a route");
                return Err(InvalidSetting::new("name", problem, NAMES));
            }
            Some(name) => name.as_str(),
            None => matcher.first_condition().unwrap_or(DEFAULT_NAME),
        };
        let upstream = find_upstream(settings, gateway, upstreams)?;
        let own_limits = settings.in_flight.as_deref();
        Ok(Route {
            protocols: find_protocols(settings, gateway, &upstream)?,
            bounds: Bounds::of(gateway, settings, upstream.protocol()),
            upstream,
            domain: find_domain(settings, gateway)?,
            in_flight: in_flight.of_route(name, own_limits, identity)?,
            classifier,
            pricing: pricing
                .map_err(|invalid| invalid.below("identity"))?
                .map(Arc::new),
            responder: responder.map_err(|invalid| invalid.below("responses"))?,
            metrics: metrics.route(name),
            matcher,
        })
    }
}

/// The upstream of a route, which needs no name if it is the only one.
fn find_upstream(
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
            format!("write routes, each with `upstream:` and one of `{names}`"),
        )),
    }
}

/// What the requests of a route may switch to. Upstreams of HTTP/2 have no upgrades, so those that
/// a gateway with several routes allows do not concern them.
fn find_protocols(
    settings: &RouteSettings,
    gateway: &GatewaySettings,
    upstream: &Upstream,
) -> Result<Protocols, InvalidSetting> {
    let names = settings.upgrades.as_ref().unwrap_or(&gateway.upgrades);
    let protocols = Protocols::new(names)?;
    if upstream.protocol() == UpstreamProtocol::Http1 || names.is_empty() {
        return Ok(protocols);
    }
    if settings.upgrades.is_none() && !gateway.routes.is_empty() {
        return Ok(Protocols::default());
    }
    Err(InvalidSetting::new(
        "upgrades",
        "its upstream speaks HTTP/2, which has no upgrades",
        "remove it, or write `protocol: http1` for the upstream",
    ))
}

fn find_domain(
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

#[cfg(test)]
mod tests;
