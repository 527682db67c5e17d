//! Starts the service from its settings, and stops it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollgate_backends::backend_names;
use tollgate_core::{Clock, Sharing};
use tollgate_engine::{Engine, ORDERS_MAX, Order, Outcome, Reloader, watch_rules, watch_stores};
use tollgate_gateway::Gateway;
use tollgate_listen::{
    Address, Budget, Limits, Shutdown, ShutdownSignal, open_files, shutdown_channel,
};
use tollgate_memory::SystemClock;
use tollgate_telemetry::{Telemetry, TelemetryConfig};
use tracing::{info, warn};

use crate::admin_tokens::{AdminTokens, InvalidTokens};
use crate::auth::ActiveAuth;
use crate::certificates::Certificates;
use crate::config::{Config, ListenerKind, find_exposed_admin};
use crate::host::{HostPressure, HostSampler};
use crate::listener::{Context, Opened, Serving};
use crate::load_sampler::sample_load;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::reclaim::reclaim;
use crate::redis_protocol::{RedisHandler, ThrottleStore};
use crate::reload::{ConfiguredRules, known_limits};
use crate::serve_error::ServeError;
use crate::stores;

/// How long tasks in the background may take to end. One that waits for a thread, which reads a
/// file or looks up a name, is left.
const BACKGROUND_ENDS_WITHIN: Duration = Duration::from_secs(1);

/// A running service. Dropping it closes connections at once; [`Running::stop`] is graceful.
#[derive(Debug)]
pub struct Running {
    orders: mpsc::Sender<Order>,
    shutdown: Shutdown,
    limits: Limits,
    listeners: Serving,
    /// What runs until shutdown, and has nothing to finish then.
    background: JoinSet<()>,
    engine: Arc<Engine>,
    gateway: Option<Arc<Gateway>>,
    telemetry: Telemetry,
}

/// Runs the service until SIGTERM or SIGINT. A second signal ends it at once; SIGHUP reloads rules,
/// certificates and the gateway's settings, and opens the access log again; SIGUSR1 does only the
/// latter. What `telemetry` does not set comes from the environment.
///
/// # Errors
///
/// [`ServeError`], before anything is served.
pub async fn serve(config: &Config) -> Result<(), ServeError> {
    let mut hangup = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    let mut reopen = signal(SignalKind::user_defined1()).map_err(ServeError::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    open_files::raise();
    // Not a part of the settings, which are compared with the file later.
    let telemetry = config.telemetry.clone();
    let telemetry = telemetry.with_environment(variable);
    let telemetry = telemetry.map_err(ServeError::Telemetry)?;
    if telemetry.is_on() {
        for (variable, instead) in config.telemetry.find_ignored_variables(variable) {
            warn!(
                variable,
                instead,
                "the variable is ignored, because `telemetry` of the settings names an endpoint"
            );
        }
    }
    let running = start_with(config, &telemetry, SystemClock::new()).await?;
    loop {
        tokio::select! {
            _ = hangup.recv() => tokio::select! {
                outcome = running.reload() => log_reload(outcome),
                // A file may take long to read.
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
            },
            _ = reopen.recv() => {
                running.reopen_access_log();
                info!("SIGUSR1: the access log, if there is one, is opened again");
            }
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    info!("stopping; another signal stops at once");
    tokio::select! {
        () = running.stop() => info!("stopped"),
        _ = terminate.recv() => warn!("stopped at once: requests in flight are cut off"),
        _ = interrupt.recv() => warn!("stopped at once: requests in flight are cut off"),
    }
    Ok(())
}

/// A variable of the environment.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn log_reload(outcome: Outcome) {
    let name = outcome.name();
    // The outcome is that of the rules; what is wrong with the other files is not part of it.
    match outcome {
        Outcome::InEffect => info!(
            outcome = name,
            "SIGHUP: rules reloaded; certificates, tokens, gateway settings and lists were read \
             again, and errors in them, if any, are logged above"
        ),
        Outcome::Failed => warn!(
            outcome = name,
            "SIGHUP: domains with errors keep their previous rules, as do all domains if the rules \
             cannot be read; the errors are logged above"
        ),
    }
}

/// Starts the service. State in memory uses `clock`; a shared store has a clock of its own. The
/// environment is not read.
///
/// # Errors
///
/// [`ServeError`]. An error in one domain is not one: the domain is left out and logged.
pub async fn start(config: &Config, clock: impl Clock + 'static) -> Result<Running, ServeError> {
    start_with(config, &config.telemetry, clock).await
}

/// The same, with what the environment adds to the settings of telemetry.
async fn start_with(
    config: &Config,
    telemetry: &TelemetryConfig,
    clock: impl Clock + 'static,
) -> Result<Running, ServeError> {
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let auth = open_auth(config, &clock)?;
    let engine = open_engine(config, &clock)?;
    let mut telemetry = Telemetry::start(telemetry, &clock).map_err(ServeError::Telemetry)?;
    let gateway = open_gateway(config, &engine, &telemetry, Arc::clone(&clock))?;
    let limits = fit_open_files(config);
    let budget = Arc::new(Budget::new(&limits));
    let throttles = ThrottleStore::open(config, &clock)?;
    let counts = (gateway.as_deref(), throttles.as_ref());
    let host = Arc::new(HostPressure::default());
    let metrics = Metrics::new(&engine, &budget, &limits, &host, counts.0, counts.1);
    let metrics = Arc::new(metrics.with_telemetry(telemetry.counts()));
    telemetry.export_metrics(metrics.source());
    let redis = RedisHandler::open(config, &engine, throttles, &metrics, &telemetry.tracer());
    let redis = redis.map_err(|_| ServeError::NoRandomness)?;
    let certificates = load_certificates(config, Arc::clone(&clock), &metrics)?;
    let tls = certificates.handshakes();
    let admin_tokens = load_admin_tokens(config)?;
    let source = ConfiguredRules::new(
        config.clone(),
        certificates,
        admin_tokens.clone(),
        auth.clone(),
        gateway.clone(),
        Arc::clone(&metrics),
    );
    let mut reloader = Reloader::new(Arc::clone(&engine), source);
    load_rules(&mut reloader, &engine)?;
    let opened = Opened::open(&config.listen, tls).await?;
    let (shutdown, signal) = shutdown_channel();
    let (orders, received) = mpsc::channel(ORDERS_MAX);
    let mut background = JoinSet::new();
    background.spawn(watch_rules(reloader, received, until(&signal)));
    background.spawn(watch_stores(Arc::clone(&engine), until(&signal)));
    background.spawn(reclaim(Arc::clone(&budget), signal.clone()));
    let sampler = HostSampler::new(&engine, clock, &config.headroom, &host);
    background.spawn(sampler.run(signal.clone()));
    if let Some(gateway) = &gateway {
        gateway.start_health_checks();
        background.spawn(sample_load(gateway, &config.headroom, &signal));
    }
    let context = Context {
        engine: Arc::clone(&engine),
        metrics,
        budget,
        options: options(config),
        auth,
        tracing: telemetry.tracer(),
        admin_tokens,
        gateway: gateway.clone(),
        redis,
        limits,
        shutdown: signal,
    };
    Ok(Running {
        listeners: opened.serve(&context).await,
        orders,
        shutdown,
        limits,
        background,
        engine,
        gateway,
        telemetry,
    })
}

/// What `/v1/auth` decides, if anything.
fn open_auth(
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<ActiveAuth>>, ServeError> {
    let auth = config.auth.as_ref();
    let auth = auth.map(|auth| ActiveAuth::new(auth, Arc::clone(clock)).map(Arc::new));
    auth.transpose()
        .map_err(|invalid| ServeError::Auth(invalid.below("auth")))
}

/// Loads the rules for the first time. There must be some.
fn load_rules(reloader: &mut Reloader<ConfiguredRules>, engine: &Engine) -> Result<(), ServeError> {
    let diagnostics = reloader.load().map_err(ServeError::Unreadable)?;
    if engine.rules().is_empty() {
        return Err(ServeError::NoRules(diagnostics));
    }
    Ok(())
}

/// The stores, and the engine over them, which has no rules yet.
fn open_engine(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<Engine>, ServeError> {
    let stores = stores::open(config, &known_limits(config), Arc::clone(clock))?;
    if !stores.has_shared() {
        let (own, default) = (config.sharing, Sharing::default());
        for (key, is_set) in [
            ("mode", own.mode != default.mode),
            (
                "on_store_error",
                own.on_store_error != default.on_store_error,
            ),
            ("instances", own.instances != default.instances),
        ] {
            if is_set {
                let backends = backend_names();
                warn!("`store.{key}` has no effect: no store is in {backends}");
            }
        }
    }
    let engine = Engine::new(stores).with_reservations(config.reservations);
    let engine = engine.with_denied_requests(config.explain.denied_requests);
    Ok(Arc::new(engine))
}

fn options(config: &Config) -> Options {
    Options {
        allow_refund: config.allow_refund,
        dynamic_metadata: config.dynamic_metadata,
        show_values: config.explain.show_values,
    }
}

/// The gateway, if there is a listener for it.
fn open_gateway(
    config: &Config,
    engine: &Arc<Engine>,
    telemetry: &Telemetry,
    clock: Arc<dyn Clock>,
) -> Result<Option<Arc<Gateway>>, ServeError> {
    let mut kinds = config.listen.iter().map(|listen| listen.kind);
    if !kinds.any(|kind| kind == ListenerKind::Gateway) {
        return Ok(None);
    }
    let settings = config.gateway.clone().unwrap_or_default();
    let opened = Gateway::new(&settings, Arc::clone(engine), clock);
    let tracing = telemetry.tracer();
    let tracing = tracing.for_listener(ListenerKind::Gateway.name());
    let opened = opened.map(|gateway| Arc::new(gateway.with_tracing(tracing)));
    opened
        .map(Some)
        .map_err(|invalid| ServeError::Gateway(invalid.below("gateway")))
}

/// The limits, with no more connections than open files allow. A gateway also connects to its
/// upstreams.
fn fit_open_files(config: &Config) -> Limits {
    let kinds = || config.listen.iter().map(|listen| listen.kind);
    let listeners = kinds().filter(|kind| kind.decides()).count();
    let has_gateway = kinds().any(|kind| kind == ListenerKind::Gateway);
    let gateway = config.gateway.as_ref().filter(|_| has_gateway);
    let onward = gateway.map_or(0, |gateway| gateway.upstream_connections_max());
    open_files::fit(config.limits, listeners, onward)
}

/// The tokens of the admin listener, if it demands one.
fn load_admin_tokens(config: &Config) -> Result<Option<Arc<AdminTokens>>, ServeError> {
    let loaded = AdminTokens::load(&config.admin);
    let loaded = loaded.map_err(|InvalidTokens { key, problem, help }| {
        ServeError::AdminTokens(format!("admin.{key}: {problem}; {help}"))
    })?;
    let mut listeners = config.listen.iter();
    let plain = listeners.find(|one| one.kind == ListenerKind::Admin && one.tls.is_none());
    let plain = plain.filter(|one| !one.address.is_local());
    if let (Some(_), Some(listen)) = (&loaded, plain) {
        let address = &listen.address;
        warn!(
            %address,
            "the tokens of the admin listener are sent in plain text; give `listen.admin` a `tls`"
        );
    }
    if let Some(exposed) = find_exposed_admin(&config.listen, &config.admin) {
        warn!(help = exposed.help, "{}", exposed.message);
    }
    Ok(loaded.map(Arc::new))
}

fn load_certificates(
    config: &Config,
    clock: Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> Result<Certificates, ServeError> {
    let loaded = Certificates::load(&config.listen, clock, Arc::clone(metrics));
    loaded.map_err(|(kind, source)| ServeError::Tls {
        listener: kind.name(),
        source,
    })
}

/// Ready on shutdown.
fn until(signal: &ShutdownSignal) -> impl Future<Output = ()> + Send + 'static {
    let mut signal = signal.clone();
    async move { signal.wait().await }
}

// === impl Running ===

impl Running {
    /// The kind and the address of each listener, in the order of the settings.
    pub fn addresses(&self) -> impl Iterator<Item = (ListenerKind, &Address)> {
        self.listeners.addresses()
    }

    /// The IP address of the listener of a kind, if one is open and has one.
    pub fn address(&self, kind: ListenerKind) -> Option<SocketAddr> {
        let mut addresses = self.addresses();
        let (_, address) = addresses.find(|(other, _)| *other == kind)?;
        address.tcp()
    }

    /// Reads the rules again now, and opens the gateway's access log again, as SIGHUP does.
    pub async fn reload(&self) -> Outcome {
        self.reopen_access_log();
        let (order, outcome) = oneshot::channel();
        if self.orders.send(order).await.is_err() {
            return Outcome::Failed;
        }
        outcome.await.unwrap_or(Outcome::Failed)
    }

    /// Opens the file of the gateway's access log again, which may have been renamed, as SIGUSR1
    /// does.
    pub fn reopen_access_log(&self) {
        if let Some(gateway) = &self.gateway {
            gateway.reopen_access_log();
        }
    }

    /// Ends the service gracefully: fails readiness checks, waits for [`Limits::stop_delay`],
    /// closes its listeners, finishes what is in flight within [`Limits::drain_timeout`], returns
    /// what it has leased and reports what it has counted within [`crate::CLOSE_WITHIN`], and
    /// exports the last spans and metrics within [`crate::FLUSH_WITHIN`].
    pub async fn stop(mut self) {
        self.shutdown.fail_readiness();
        self.listeners.fail_health_checks().await;
        sleep(self.limits.stop_delay).await;
        self.shutdown.begin_drain();
        self.listeners.wait_until_drained().await;
        // They end at the same signal, unless they wait for a thread.
        let ended = async { while self.background.join_next().await.is_some() {} };
        if timeout(BACKGROUND_ENDS_WITHIN, ended).await.is_err() {
            self.background.abort_all();
        }
        self.engine.close().await;
        if let Some(gateway) = &self.gateway {
            gateway.flush_access_log().await;
        }
        self.telemetry.close().await;
    }
}
