//! The gateway: requests in, responses out.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use http::header::{CONNECTION, EXPECT, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tollgate_core::{Clock, Timeline};
use tollgate_engine::{Engine, Pace, Why};
use tollgate_http::{InvalidFraming, InvalidSetting, InvalidSettings, check_framing};
use tollgate_listen::Connection;
use tollgate_telemetry::{HttpRequest, Tracing};

use crate::access_log::AccessLog;
use crate::active::Active;
use crate::exchange::{Arrival, Terms, exchange, http_peer};
use crate::failure::Failure;
use crate::forwarding::{is_loop, join_cookies, merge_lengths, remove_named};
use crate::lists::Lists;
use crate::load_trend::LoadSettings;
use crate::log_record::LogRecord;
use crate::metrics::Metrics;
use crate::response_body::ResponseBody;
use crate::route::Route;
use crate::settings::GatewaySettings;

mod proxy_header;

/// The longest body that usually comes with its head.
const UNREAD_BYTES_MAX: u64 = 16 * 1024;

/// Limits requests, and passes the allowed ones on.
pub struct Gateway {
    active: ArcSwap<Active>,
    /// Held while what is active is replaced.
    replacing: Mutex<()>,
    metrics: Metrics,
    terms: Terms,
    log: Option<Arc<AccessLog>>,
    tracing: Tracing,
}

// === impl Gateway ===

impl Gateway {
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub fn new(
        settings: &GatewaySettings,
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
    ) -> Result<Gateway, InvalidSettings> {
        let metrics = Metrics::new();
        let active = Active::new(settings, &metrics, None)?;
        let log = settings.access_log.as_ref();
        let log = log.map(|log| AccessLog::open(log, &metrics).map(Arc::new));
        let lists = Lists::open(&settings.lists, settings.descriptor_keys(), metrics.lists())?;
        Ok(Gateway {
            log: log.transpose()?,
            active: ArcSwap::from_pointee(active),
            replacing: Mutex::default(),
            metrics,
            terms: Terms::new(engine, lists, clock),
            tracing: Tracing::default(),
        })
    }

    /// The same gateway with a span for each request, which is the parent of what the upstream
    /// does. Without tracing, the trace context of a request is passed on as it is.
    #[must_use]
    pub fn with_tracing(self, tracing: Tracing) -> Gateway {
        Gateway { tracing, ..self }
    }

    /// Checks settings without using them. Of files it reads those with the keys of tokens.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub fn check(settings: &GatewaySettings) -> Result<(), InvalidSettings> {
        let mut errors = InvalidSettings::default();
        errors.take(Active::new(settings, &Metrics::new(), None));
        errors.take(settings.lists.check_paths());
        let log = settings.access_log.as_ref();
        if log.is_some_and(|log| log.path.as_os_str().is_empty()) {
            let instead = "name a file, or '-' for standard output";
            let empty = InvalidSetting::new("access_log.path", "it is empty", instead);
            errors.push(empty);
        }
        errors.check()
    }

    /// Checks the health of addresses from now on, until the gateway is dropped.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub fn start_health_checks(&self) {
        self.active.load().routes.start_health_checks();
    }

    /// What decides on its requests.
    pub const fn engine(&self) -> &Arc<Engine> {
        self.terms.engine()
    }

    /// Takes a sample of the load of upstreams on which limits in effect depend, and tells the
    /// engine which domains have headroom. Call it again and again, more often than
    /// `pace.sample_age_max`.
    pub fn sample_load(&self, settings: &LoadSettings, pace: Pace) {
        // So that no sample is taken of upstreams that are removed meanwhile.
        let _alone = self.lock_replacing();
        let engine = self.terms.engine();
        let domains = engine.domains_with_upstream_headroom();
        let now = self.terms.clock().on(Timeline::Monotonic);
        let active = self.active.load();
        let domains = active.routes.sample_load(&domains, settings, pace, now);
        engine.set_upstream_headroom(domains, pace.sample_age_max);
    }

    /// Replaces routes, upstreams and what applies to them, for every request that comes from now
    /// on; the access log stays what it is. Metrics of what is removed are removed with it.
    /// Requests in flight end under the former settings, and count for concurrency limits that
    /// stay. Upstreams whose settings and files stay keep their connections, and what is known of
    /// their health.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used; nothing is replaced then.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub fn replace(&self, settings: &GatewaySettings) -> Result<(), InvalidSettings> {
        let _alone = self.lock_replacing();
        let former = self.active.load_full();
        let active = Active::new(settings, &self.metrics, Some(&former));
        let active = active.inspect_err(|_| {
            // Those that could be used have series by now.
            self.metrics.retain(&former.routes.owner_names());
        })?;
        let active = Arc::new(active);
        self.active.store(Arc::clone(&active));
        // The former checks end before others say how the same addresses are.
        former.routes.retire(&active.routes);
        active.routes.start_health_checks();
        self.metrics.retain(&active.routes.owner_names());
        if let Some(lists) = self.terms.lists() {
            lists.set_keys(settings.descriptor_keys());
        }
        self.metrics.count_reload(true);
        Ok(())
    }

    fn lock_replacing(&self) -> MutexGuard<'_, ()> {
        let replacing = self.replacing.lock();
        replacing.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether files that these settings name have changed since settings took effect: those of
    /// TLS to upstreams, and keys of tokens. [`Gateway::replace`] reads them again.
    pub fn has_changed_files(&self, settings: &GatewaySettings) -> bool {
        self.active.load().files != settings.hash_files()
    }

    /// Counts changed settings that cannot be used, so that the former stay in effect.
    pub fn count_failed_reload(&self) {
        self.metrics.count_reload(false);
    }

    /// Registers [`REQUESTS`], [`UPSTREAM_ERRORS`] and [`UPSTREAM_SECONDS`] alone, to read them
    /// back.
    ///
    /// [`REQUESTS`]: crate::REQUESTS
    /// [`UPSTREAM_ERRORS`]: crate::UPSTREAM_ERRORS
    /// [`UPSTREAM_SECONDS`]: crate::UPSTREAM_SECONDS
    pub fn register_main(&self, registry: &mut Registry) {
        self.metrics.register_main(registry);
    }

    /// Registers the metrics, whose names begin with `gateway`.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Opens the file of the access log again, which may have been renamed.
    pub fn reopen_access_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Reads the allow and deny lists again, if they have changed or an operator asked for it.
    /// Those in effect stay if one of them cannot be used.
    pub fn reload_lists(&self, why: Why) {
        if let Some(lists) = self.terms.lists() {
            lists.reload(why);
        }
    }

    /// Waits until the access log is written, for at most two seconds.
    pub async fn flush_access_log(&self) {
        if let Some(log) = &self.log {
            log.flush().await;
        }
    }

    /// Answers a request that came by `connection`. `scheme` is `http` or `https`.
    pub async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
        scheme: &'static str,
    ) -> Response<ResponseBody> {
        connection.record_request(Instant::now());
        let (mut head, body) = request.into_parts();
        let mut record = self.begin_record(&head, connection, scheme);
        // The HTTP library drops `Content-Length` beside `Transfer-Encoding`, so that nobody can
        // see it. A proxy before us may have believed it, and what follows on the connection may
        // be a part of this request to it (RFC 9112, section 6.1).
        let mut is_last = head.headers.contains_key(TRANSFER_ENCODING);
        let is_unread = has_much_to_come(&head.headers, &body);
        let is_http2 = head.version == Version::HTTP_2;
        // First of all, so that routes and limits see what the upstream will see.
        remove_named(&mut head.headers);
        if is_http2 {
            join_cookies(&mut head.headers);
        }
        // The HTTP library has rejected different numbers. Servers disagree about what `010` is.
        let is_one_length = merge_lengths(&mut head.headers);
        let active = self.active.load_full();
        let found = match is_one_length {
            true => find_route(&active, &head),
            false => Err(Failure::Framing(InvalidFraming::Lengths)),
        };
        let mut response = match found {
            Ok(route) => {
                let arrival = Arrival { connection, scheme };
                let request = (&mut head, body);
                exchange(&self.terms, route, arrival, request, &mut record).await
            }
            Err(failure) => {
                is_last |= failure.is_ambiguous();
                self.metrics.count_failure(failure.kind());
                record.set_outcome(failure.kind());
                let response =
                    active
                        .responder
                        .fail(&failure.problem(), &head.method, &head.headers);
                response.map(ResponseBody::own)
            }
        };
        // The HTTP library closes a connection on which much of a body has not come.
        let is_switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        is_last |= is_unread && response.body().is_own() && !is_switching;
        if is_last && !is_http2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        record.set_status(response.status());
        response.map(|body| body.with_record(record))
    }

    /// Begins the line in the access log and the span of a request, as far as there are any.
    fn begin_record(
        &self,
        head: &Parts,
        connection: &Connection,
        scheme: &'static str,
    ) -> LogRecord {
        let record = match &self.log {
            None => LogRecord::default(),
            Some(log) => {
                let peer = http_peer(connection);
                LogRecord::new(log, self.terms.wall_clock(), peer, head)
            }
        };
        if !self.tracing.is_on() {
            return record;
        }
        let mut span = self.tracing.begin("HTTP", &head.headers);
        span.describe_http(HttpRequest {
            listener: "gateway",
            method: &head.method,
            target: "",
            path: head.uri.path(),
            scheme,
        });
        record.with_span(span)
    }
}

/// Whether so much of a request's body may not have come yet that the HTTP library closes the
/// connection rather than read it.
fn has_much_to_come(headers: &HeaderMap, body: &Incoming) -> bool {
    let is_expected = !body.is_end_stream() && headers.contains_key(EXPECT);
    is_expected || body.size_hint().lower() > UNREAD_BYTES_MAX
}

fn find_route<'a>(active: &'a Active, head: &Parts) -> Result<&'a Route, Failure> {
    check_method(&head.method)?;
    check_framing(head).map_err(Failure::Framing)?;
    if is_loop(&head.headers) {
        return Err(Failure::Loop);
    }
    active.routes.find(head)
}

/// Rejects `CONNECT`, and `HEAD` in small letters. Many servers take any spelling for the method
/// that they know: one would send no body, and we and the client would wait for it.
fn check_method(method: &Method) -> Result<(), Failure> {
    let name = method.as_str();
    if name.eq_ignore_ascii_case("CONNECT") {
        return Err(Failure::Connect);
    }
    match method != Method::HEAD && name.eq_ignore_ascii_case("HEAD") {
        true => Err(Failure::RespelledMethod),
        false => Ok(()),
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Gateway");
        shown.field("active", &self.active).finish_non_exhaustive()
    }
}
