//! Routes: which requests go where, under which rules.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use tollgate_core::Moment;
use tollgate_engine::Pace;
use tollgate_http::{
    Classifier, InvalidSetting, InvalidSettings, PathSettings, Responder, is_respelled,
};

use crate::concurrency_limit::{ConcurrencyLimitReader, ConcurrencyLimits};
use crate::failure::Failure;
use crate::load_trend::LoadSettings;
use crate::matcher::{Matcher, Target, host};
use crate::metrics::{Metrics, RouteMetrics};
use crate::permit_table::{KEYS_MAX, PermitTable};
use crate::pricing::Pricing;
use crate::settings::{GatewaySettings, ROUTES_MAX, RouteSettings, UPSTREAMS_MAX};
use crate::upgrade::Protocols;
use crate::upstream::Upstream;
use crate::upstream_load::UpstreamLoad;

mod bounds;

mod parts;

mod successor;

pub(crate) use bounds::Bounds;
use bounds::check_timeouts;
use parts::{NAMES, classify, find_domain, find_protocols, find_upstream, is_name, name_of};

/// All routes.
#[derive(Debug)]
pub(crate) struct RouteTable {
    routes: Vec<Route>,
    upstreams: Upstreams,
    in_flight: Arc<PermitTable>,
    normal_form: PathSettings,
    needs_host: bool,
    needs_path: bool,
    /// The headers by which they are found.
    headers: Vec<HeaderName>,
    /// Those of them whose values are compared.
    compared_headers: Vec<HeaderName>,
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
    /// Every setting that cannot be used.
    pub(crate) fn new(
        settings: &GatewaySettings,
        metrics: &Metrics,
        former: Option<&RouteTable>,
    ) -> Result<RouteTable, InvalidSettings> {
        let mut errors = check_timeouts(settings);
        let former_upstreams = former.map(|former| &former.upstreams);
        let upstreams = open_upstreams(settings, metrics, former_upstreams, &mut errors);
        let permits = former.map(|former| Arc::clone(&former.in_flight));
        let permits = permits.unwrap_or_else(|| PermitTable::new(KEYS_MAX));
        let mut table = RouteTable {
            routes: Vec::with_capacity(settings.routes.len()),
            normal_form: settings.identity.path,
            needs_host: false,
            needs_path: false,
            headers: Vec::new(),
            compared_headers: Vec::new(),
            upstreams,
            in_flight: permits,
        };
        let added = table.add_routes(settings, metrics, &mut errors);
        errors.take(added);
        errors.check()?;
        Ok(table)
    }

    /// Adds all routes. One that cannot be used adds to `errors`; an error is one of all routes.
    fn add_routes(
        &mut self,
        settings: &GatewaySettings,
        metrics: &Metrics,
        errors: &mut InvalidSettings,
    ) -> Result<(), InvalidSetting> {
        let permits = Arc::clone(&self.in_flight);
        let mut in_flight = ConcurrencyLimitReader::new(&permits, metrics);
        errors.take(in_flight.read_gateway(&settings.in_flight));
        let everything = [RouteSettings::default()];
        let routes = match settings.routes.as_slice() {
            [] => &everything,
            routes => routes,
        };
        InvalidSetting::check_at_most("routes", routes.len(), "routes", ROUTES_MAX)?;
        // Where those that could be added are in the settings.
        let mut places = Vec::with_capacity(routes.len());
        for (index, route) in routes.iter().enumerate() {
            let made = Route::new(route, settings, &self.upstreams, &mut in_flight, metrics);
            // Without routes in the settings, what is wrong is at the gateway itself.
            let locate = |invalid: InvalidSetting| match settings.routes.is_empty() {
                true => invalid,
                false => route.locate(invalid, index),
            };
            let made = made.map_err(|all| all.into_iter().map(locate).collect());
            let made = made.and_then(|made| {
                self.check_reachable(index, &made, &places)?;
                Ok(made)
            });
            match made {
                Ok(made) => {
                    self.needs_host |= made.matcher.needs_host();
                    self.needs_path |= made.matcher.needs_path();
                    add_names(&mut self.headers, made.matcher.header_names());
                    add_names(&mut self.compared_headers, made.matcher.compared_headers());
                    self.routes.push(made);
                    places.push(index);
                }
                Err::<_, InvalidSettings>(all) => {
                    let all = all.into_iter();
                    let own = all.filter(|invalid| !self.follows(invalid, route, settings));
                    own.for_each(|invalid| errors.push(invalid));
                }
            }
        }
        Ok(())
    }

    /// Whether the error of a route follows from an upstream that cannot be used, which is reported
    /// already.
    fn follows(
        &self,
        invalid: &InvalidSetting,
        route: &RouteSettings,
        settings: &GatewaySettings,
    ) -> bool {
        let named = route.upstream.as_ref();
        self.upstreams.len() < settings.upstreams.len()
            && invalid.at.ends_with("upstream")
            && named.is_none_or(|name| settings.upstreams.contains_key(name))
    }

    /// Reports a route that no request reaches. `places` is where the routes so far are in the
    /// settings: those with errors are not among them.
    fn check_reachable(
        &self,
        index: usize,
        route: &Route,
        places: &[usize],
    ) -> Result<(), InvalidSetting> {
        let mut earlier = self.routes.iter().zip(places);
        match earlier.find(|(one, _)| one.matcher.covers(&route.matcher)) {
            None => Ok(()),
            Some((_, before)) => Err(InvalidSetting::new(
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

    /// Whether the identity of each route lists the address among its trusted proxies.
    pub(crate) fn lists_proxy(&self, address: IpAddr) -> bool {
        let mut routes = self.routes.iter();
        routes.all(|route| route.classifier.client_address().lists_proxy(address))
    }

    /// The first route that fits a request.
    ///
    /// # Errors
    ///
    /// [`Failure`] if none does, or if the path or a header may mean several.
    pub(crate) fn find(&self, head: &Parts) -> Result<&Route, Failure> {
        let path = match self.needs_path {
            true => Some(self.normal_form.normalize(head.uri.path().as_bytes())),
            false => None,
        };
        let path = path.transpose().map_err(Failure::Path)?;
        self.check_headers(&head.headers)?;
        let target = Target {
            host: self.needs_host.then(|| host(head)).flatten(),
            path: path.as_ref(),
            method: &head.method,
            headers: &head.headers,
        };
        let mut routes = self.routes.iter();
        let found = routes.find(|route| route.matcher.matches(&target));
        found.ok_or(Failure::NoRoute)
    }

    /// Checks that no header is one of those by which routes are found, in another spelling, and
    /// that none that is compared has different values: the upstream might take another one than
    /// that which fits.
    fn check_headers(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let mut names = self.headers.iter();
        if let Some(name) = names.find(|name| is_respelled(headers, name)) {
            return Err(Failure::Respelled(name.clone()));
        }
        let has_several = |name: &&HeaderName| {
            let mut values = headers.get_all(*name).iter();
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        match self.compared_headers.iter().find(has_several) {
            Some(name) => Err(Failure::Repeated(name.clone())),
            None => Ok(()),
        }
    }
}

/// Adds names that are not there yet, because each is looked for in every request.
fn add_names<'a>(names: &mut Vec<HeaderName>, more: impl Iterator<Item = &'a HeaderName>) {
    for name in more {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
}

/// Opens the upstreams that can be used, and adds what is wrong with others to `errors`.
/// Connections are opened for requests.
fn open_upstreams(
    settings: &GatewaySettings,
    metrics: &Metrics,
    former: Option<&Upstreams>,
    errors: &mut InvalidSettings,
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
    let opened = settings.upstreams.iter().filter_map(|(name, upstream)| {
        if !is_name(name) {
            let problem = format!("{name:?} is not a valid upstream name");
            errors.push(InvalidSetting::new("upstreams", problem, NAMES));
            return None;
        }
        let connect = settings.timeouts.connect.into();
        let same = former.and_then(|former| former.get(name));
        if let Some(same) = same.filter(|former| former.is_as(upstream, connect)) {
            return Some((name.clone(), Arc::clone(same)));
        }
        // What is usual for its servers stays known while its settings change.
        let load = same.map(|same| Arc::clone(&same.load));
        let load = load.unwrap_or_else(|| Arc::new(UpstreamLoad::new(name, metrics.load(name))));
        let opened = Upstream::new(name, upstream, connect, metrics.upstream(name), load);
        let opened = errors.take_below(&format!("upstreams.{name}"), opened)?;
        Some((name.clone(), Arc::new(opened)))
    });
    opened.collect()
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
    ) -> Result<Route, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let matcher = Matcher::new(&settings.matches, gateway.identity.path);
        let matcher = errors.take_below("match", matcher);
        let identity = settings.identity.as_ref().unwrap_or(&gateway.identity);
        let responses = settings.responses.as_ref().unwrap_or(&gateway.responses);
        let classified = classify(identity, gateway.reads_proxy_headers());
        let classified = errors.take_below("identity", classified);
        let responder = errors.take_below("responses", Responder::new(responses));
        let name = errors.take(name_of(settings, matcher.as_ref()));
        let domain = errors.take(find_domain(settings, gateway));
        let upstream = errors.take(find_upstream(settings, gateway, upstreams));
        let protocols = errors.take(find_protocols(settings, gateway, upstream.as_deref()));
        let own_limits = settings.in_flight.as_deref();
        let in_flight = name
            .as_deref()
            .and_then(|name| errors.take(in_flight.of_route(name, own_limits, identity)));
        let (
            Some(matcher),
            Some((classifier, pricing)),
            Some(responder),
            Some(name),
            Some(domain),
            Some(upstream),
            Some(protocols),
            Some(in_flight),
        ) = (
            matcher, classified, responder, name, domain, upstream, protocols, in_flight,
        )
        else {
            return Err(errors);
        };
        Ok(Route {
            protocols,
            bounds: Bounds::of(gateway, settings, upstream.protocol()),
            upstream,
            domain,
            in_flight,
            classifier,
            pricing,
            responder,
            metrics: metrics.route(&name),
            matcher,
        })
    }
}

#[cfg(test)]
mod tests;
