//! The admin listener: the dashboard, metrics, the rules in effect, explanations, and reports of
//! headroom.
//!
//! With tokens in the settings, everything that shows keys or rules, or changes what they allow,
//! demands one. Health checks and metrics do not: probes and scrapers have none, and neither shows
//! a key that the rules do not name as a metric.
//!
//! Without tokens, every client is trusted, and on a loopback address, which is one of all
//! addresses (0.0.0.0), that includes every web page that a browser of this host shows: a name that
//! a page was loaded from may resolve to 127.0.0.1 later (DNS rebinding). Such requests still have
//! that name as their `Host`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use http::header::{HOST, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tollgate_engine::Engine;
use tollgate_http::{Peer, Problem, accepts_by_name};
use tollgate_listen::{Limits, ShutdownSignal};
use tollgate_rules::RuleView;

use crate::admin_tokens::{AdminTokens, Unauthorized};
use crate::config::ListenerKind;
use crate::dashboard;
use crate::dashboard::Dashboard;
use crate::explain;
use crate::headroom;
use crate::http::{count_and_respond, healthz, readiness, with_fallback_routes};
use crate::media_type::is_json;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::reply::{self, Failure};

/// The name of this listener in the settings and in metrics.
pub(crate) const NAME: &str = ListenerKind::Admin.name();

const HEALTH_PATH: &str = "/healthz";
const READINESS_PATH: &str = "/readyz";

/// The media type of the text form of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The media type of Prometheus's text format.
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the routes of this listener share.
pub(crate) struct AdminState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) options: Options,
    /// One of them is demanded; `None` demands none.
    pub(crate) tokens: Option<Arc<AdminTokens>>,
    /// Whether web pages of this host may reach it under their own names: a loopback address is
    /// among those that it has, and it has no TLS.
    pub(crate) is_rebindable: bool,
    pub(crate) dashboard: Arc<Dashboard>,
    pub(crate) shutdown: ShutdownSignal,
    /// Those of bodies.
    pub(crate) limits: Limits,
}

/// The routes of this listener.
pub(crate) fn routes(state: AdminState) -> Router {
    let state = Arc::new(state);
    let protected = Router::new()
        .route("/v1/rules", get(rules))
        .route("/v1/explain", get(explain))
        .route("/v1/headroom", get(show_headroom).put(report_headroom))
        .route("/v1/dashboard/events", get(dashboard_events))
        .route_layer(from_fn_with_state(Arc::clone(&state), demand_token));
    let routes = Router::new()
        .route(HEALTH_PATH, get(healthz))
        .route(READINESS_PATH, get(readyz))
        .route("/metrics", get(scrape))
        .merge(dashboard::assets())
        .merge(protected)
        .with_state(Arc::clone(&state));
    let routes = with_fallback_routes(routes, NAME, Arc::clone(&state.metrics));
    match state.is_rebindable && state.tokens.is_none() {
        true => routes.layer(from_fn_with_state(state, demand_local_host)),
        false => routes,
    }
}

/// Passes on requests that name this host, and those of probes, which get nothing that is secret.
async fn demand_local_host(
    State(state): State<Arc<AdminState>>,
    request: Request,
    next: Next,
) -> Response {
    let is_probe = matches!(request.uri().path(), HEALTH_PATH | READINESS_PATH);
    let peer = request.extensions().get::<Peer>().copied();
    let is_from_here = is_this_host(peer.unwrap_or_default());
    if is_probe || !is_from_here || names_this_host(request.headers()) {
        return next.run(request).await;
    }
    let detail = "without tokens, this listener answers only requests to `localhost` or an IP \
        address: ask http://localhost, with its port, or set `admin.token_file` or \
        `admin.token_env`, with which it answers to every name";
    let failure = Failure::new("foreign_host", StatusCode::MISDIRECTED_REQUEST, detail);
    count_and_respond(&state.metrics, NAME, &failure)
}

/// Whether this peer connects to a loopback address, as a browser of this host may. A page could
/// also name another address of the host: only tokens protect from that.
fn is_this_host(peer: Peer) -> bool {
    let ip = peer.socket.map(|ip| ip.to_canonical());
    ip.is_none_or(|ip| ip.is_loopback())
}

/// Whether a request is for `localhost` or for an IP address, which no one can make resolve to
/// another one. Browsers always send the header.
fn names_this_host(headers: &HeaderMap) -> bool {
    headers.get_all(HOST).iter().all(|value| {
        let Ok(authority) = Authority::try_from(value.as_bytes()) else {
            return false;
        };
        let host = authority.host();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
    })
}

/// Passes on requests with one of the tokens, if any is demanded.
async fn demand_token(
    State(state): State<Arc<AdminState>>,
    request: Request,
    next: Next,
) -> Response {
    let (challenge, detail) = match state.authorize(request.headers()) {
        Ok(()) => return next.run(request).await,
        Err(Unauthorized::Missing) => (
            r#"Bearer realm="tollgate admin""#,
            "send one of the tokens of the setting `admin`, as `Authorization: Bearer TOKEN`",
        ),
        Err(Unauthorized::Wrong) => (
            r#"Bearer realm="tollgate admin", error="invalid_token""#,
            "this token is not one of those that the setting `admin` names",
        ),
    };
    let failure = Failure::new("unauthorized", StatusCode::UNAUTHORIZED, detail);
    let mut response = count_and_respond(&state.metrics, NAME, &failure);
    let challenge = HeaderValue::from_static(challenge);
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}

async fn readyz(State(state): State<Arc<AdminState>>) -> Response {
    readiness(&state.shutdown)
}

/// Answers `GET /metrics`, in OpenMetrics if the client accepts it by name and does not prefer
/// Prometheus's text format, and otherwise in that.
async fn scrape(State(state): State<Arc<AdminState>>, headers: HeaderMap) -> Response {
    // Prometheus requests OpenMetrics by its media type; curl, browsers and promtool do not.
    let is_open = accepts_by_name(&headers, "application/openmetrics-text", &["text/plain"]);
    // Encode on a thread that may block: a store may have to count its keys one by one.
    let text = spawn_blocking(move || match is_open {
        true => (OPEN_METRICS, state.metrics.text()),
        false => (PLAIN_METRICS, state.metrics.plain_text()),
    });
    match text.await {
        Ok((media_type, text)) => reply::reply(StatusCode::OK, media_type, text),
        Err(error) => {
            let detail = format!("the metrics could not be written: {error}");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            reply::problem(&Problem::new(status, detail))
        }
    }
}

async fn dashboard_events(State(state): State<Arc<AdminState>>, headers: HeaderMap) -> Response {
    let checked = Arc::clone(&state);
    let is_authorized = move || checked.authorize(&headers).is_ok();
    let events = state
        .dashboard
        .events(state.shutdown.clone(), is_authorized);
    events.unwrap_or_else(|failure| count_and_respond(&state.metrics, NAME, &failure))
}

async fn explain(State(state): State<Arc<AdminState>>, uri: Uri, headers: HeaderMap) -> Response {
    let query = uri.query().unwrap_or_default();
    let explained = explain::explain(&state.engine, query, &headers, state.options).await;
    explained.unwrap_or_else(|failure| count_and_respond(&state.metrics, NAME, &failure))
}

async fn show_headroom(State(state): State<Arc<AdminState>>, uri: Uri) -> Response {
    match has_no_parameters(&uri) {
        Ok(()) => headroom::reports(&state.engine),
        Err(failure) => count_and_respond(&state.metrics, NAME, &failure),
    }
}

async fn report_headroom(State(state): State<Arc<AdminState>>, request: Request) -> Response {
    let reported = state.report_headroom(request).await;
    reported.unwrap_or_else(|failure| count_and_respond(&state.metrics, NAME, &failure))
}

async fn rules(State(state): State<Arc<AdminState>>, uri: Uri) -> Response {
    if let Err(failure) = has_no_parameters(&uri) {
        return count_and_respond(&state.metrics, NAME, &failure);
    }
    let rules = state.engine.rules();
    let list: Vec<Value> = rules.rules().map(|view| rule_json(&view)).collect();
    let domains: Vec<&str> = rules.domains().collect();
    let body = json!({"domains": domains, "rules": list});
    reply::json(StatusCode::OK, &body)
}

/// Rejects parameters in the URL of an endpoint that takes none: a filter that does not exist would
/// look like one that matches everything.
fn has_no_parameters(uri: &Uri) -> Result<(), Failure> {
    let query = uri.query().unwrap_or_default();
    match form_urlencoded::parse(query.as_bytes()).next() {
        None => Ok(()),
        Some((name, _)) => Err(Failure::bad_request(format!(
            "there is no parameter `{name}`; {} takes none",
            uri.path()
        ))),
    }
}

// === impl AdminState ===

impl AdminState {
    /// Whether a request with these headers has one of the tokens, if any is demanded.
    fn authorize(&self, headers: &HeaderMap) -> Result<(), Unauthorized> {
        match &self.tokens {
            Some(tokens) => tokens.authorize(headers),
            None => Ok(()),
        }
    }

    /// Takes a report of headroom.
    async fn report_headroom(&self, request: Request) -> Result<Response, Failure> {
        has_no_parameters(request.uri())?;
        is_json(request.headers())?;
        let limits = &self.limits;
        let (head, body) = request.into_parts();
        let (bytes_max, timeout) = (limits.body_bytes, limits.body_timeout);
        let body = reply::body(&head.headers, body, bytes_max, timeout).await?;
        headroom::report(&self.engine, &body)
    }
}

/// One rule in the response to `GET /v1/rules`. A rule without a limit has no members about one.
fn rule_json(view: &RuleView) -> Value {
    let mut json = json!({
        "domain": view.rule.domain,
        "rule": view.rule.path,
        "text": view.text,
        "enforcement": view.enforcement.name(),
        "chargeDenied": view.charge_denied.map(|said| said.to_string()),
        "changes": view.changes,
    });
    if let Some(name) = &view.rule.name {
        json["name"] = json!(name);
    }
    if let Some(percent) = view.enforce {
        json["enforce"] = json!(format!("{percent}%"));
    }
    if let Some(limit) = &view.limit {
        json["limit"] = json!(limit.count());
        json["window"] = json!(limit.window().to_string());
        json["algorithm"] = json!(limit.algorithm().to_string());
        json["capacity"] = json!(limit.capacity());
        if let Some(has_headroom) = view.has_headroom {
            json["headroom"] = json!(has_headroom);
            json["available"] = json!(view.available());
        }
        json["mode"] = json!(view.sharing.mode.to_string());
        json["onStoreError"] = json!(view.sharing.on_store_error.to_string());
        if let Some(instances) = view.sharing.instances {
            json["instances"] = json!(instances);
        }
    }
    json
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_a_peer_on_a_loopback_address_may_be_a_browser_of_this_host() {
        let is_this_host = |ip: &str| is_this_host(Peer::from(ip.parse::<IpAddr>().unwrap()));
        for ip in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert!(is_this_host(ip), "{ip}");
        }
        for ip in ["10.0.0.1", "192.0.2.1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert!(!is_this_host(ip), "{ip}");
        }
    }
}
