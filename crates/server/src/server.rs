//! From a configuration to open doors, and to the end.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tollgate_core::{Clock, Sharing};
use tollgate_engine::{
    Engine, ORDERS_MAX, Order, Outcome, Reloader, Stores, watch_rules, watch_stores,
};
use tollgate_listen::{
    Budget, ConnectionLimits, Limits, Listener, Protocol, Shutdown, ShutdownSignal, open_files,
    shutdown_channel,
};
use tollgate_memory::SystemClock;
use tollgate_redis::InvalidConfig;
use tollgate_rules::{Diagnostic, ReadError};
use tracing::{info, warn};

use crate::config::Config;
use crate::exchange::ExchangeHandler;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::reclaim::reclaim;
use crate::reload::{ConfiguredRules, known_limits};
use crate::{admin, grpc, http, stores};

/// Why the service does not run.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The rules cannot be read.
    Unreadable(ReadError),
    /// Not one domain is without mistakes. All mistakes, by file and line.
    NoRules(Vec<Diagnostic>),
    /// A store cannot be used as the settings say.
    Store {
        /// What it is called there, or `default`.
        name: String,
        /// What is wrong.
        source: InvalidConfig,
    },
    /// A door cannot be opened.
    Listen {
        /// Its name in the configuration.
        door: &'static str,
        /// Where it was to be.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Signals cannot be heard.
    Signals(io::Error),
}

/// A service that runs. Dropped, it is cut off: [`Running::stop`] ends it well.
#[derive(Debug)]
pub struct Running {
    grpc: Option<SocketAddr>,
    http: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    health: Option<grpc::Health>,
    orders: mpsc::Sender<Order>,
    shutdown: Shutdown,
    limits: Limits,
    doors: JoinSet<()>,
    rule_watch: JoinHandle<()>,
    store_health: JoinHandle<()>,
    memory_reclaim: JoinHandle<()>,
    stores: Arc<Stores>,
}

/// The doors, listening and not yet serving.
struct Listeners {
    grpc: Option<Listener>,
    http: Option<Listener>,
    admin: Option<Listener>,
}

/// What all listeners share.
struct Context {
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    budget: Arc<Budget>,
    shutdown: ShutdownSignal,
}

/// Runs the service until SIGTERM or SIGINT, a second of which ends it at once; SIGHUP reads rules
/// again.
///
/// # Errors
///
/// [`ServeError`], before anything is served.
pub async fn serve(config: &Config) -> Result<(), ServeError> {
    let mut hangup = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    open_files::raise();
    let running = start(config, SystemClock::new()).await?;
    loop {
        tokio::select! {
            _ = hangup.recv() => {
                let outcome = running.reload().await;
                info!(?outcome, "SIGHUP: rules read again");
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

/// Starts the service. What it keeps in memory is kept by `clock`; Redis has its own.
///
/// # Errors
///
/// [`ServeError`]. A mistake in one domain is none: the domain is left out and the log says why.
pub async fn start(config: &Config, clock: impl Clock + 'static) -> Result<Running, ServeError> {
    let stores = stores::open(config, &known_limits(config), Arc::new(clock))
        .map_err(|(name, source)| ServeError::Store { name, source })?;
    if config.sharing != Sharing::default() && stores.shared().next().is_none() {
        warn!("`mode`, `on_store_error` and `nodes` have no effect: no store is in Redis");
    }
    let engine = Arc::new(Engine::new(stores));
    let limits = open_files::fit(config.limits, config.listen.deciding());
    let budget = Arc::new(Budget::new(&limits));
    let metrics = Arc::new(Metrics::new(&engine, &budget, &limits));
    let source = ConfiguredRules::new(config.clone());
    let mut reloader = Reloader::new(Arc::clone(&engine), source);
    let diagnostics = reloader.load().map_err(ServeError::Unreadable)?;
    if engine.rules().is_empty() {
        return Err(ServeError::NoRules(diagnostics));
    }
    let doors = Listeners::open(config).await?;
    let (stop, shutdown) = shutdown_channel();
    let (orders, received) = mpsc::channel(ORDERS_MAX);
    let rule_watch = tokio::spawn(watch_rules(reloader, received, until(&shutdown)));
    let stores = Arc::clone(engine.stores());
    let store_health = tokio::spawn(watch_stores(Arc::clone(&stores), until(&shutdown)));
    let memory_reclaim = tokio::spawn(reclaim(Arc::clone(&budget), shutdown.clone()));
    let mut running = Running {
        grpc: doors.grpc.as_ref().map(Listener::address),
        http: doors.http.as_ref().map(Listener::address),
        admin: doors.admin.as_ref().map(Listener::address),
        health: None,
        orders,
        shutdown: stop,
        limits,
        doors: JoinSet::new(),
        rule_watch,
        store_health,
        memory_reclaim,
        stores,
    };
    let context = Context {
        engine,
        metrics,
        budget,
        shutdown,
    };
    running.serve_all(doors, config, &context).await;
    Ok(running)
}

/// Ready once it is time to stop.
fn until(shutdown: &ShutdownSignal) -> impl Future<Output = ()> + Send + 'static {
    let mut shutdown = shutdown.clone();
    async move { shutdown.wait().await }
}

// === impl Listeners ===

impl Listeners {
    async fn open(config: &Config) -> Result<Listeners, ServeError> {
        let listen = config.listen;
        Ok(Listeners {
            grpc: open(grpc::NAME, listen.grpc, Protocol::Http2).await?,
            http: open(http::NAME, listen.http, Protocol::Http1).await?,
            admin: open(admin::NAME, listen.admin, Protocol::Http1).await?,
        })
    }
}

async fn open(
    door: &'static str,
    address: Option<SocketAddr>,
    protocol: Protocol,
) -> Result<Option<Listener>, ServeError> {
    let Some(address) = address else {
        return Ok(None);
    };
    match Listener::open(door, address, protocol).await {
        Ok(opened) => {
            info!(door, address = %opened.address(), "listening");
            Ok(Some(opened))
        }
        Err(source) => Err(ServeError::Listen {
            door,
            address,
            source,
        }),
    }
}

// === impl Running ===

impl Running {
    /// Where the gRPC door is, if it is open.
    pub const fn grpc(&self) -> Option<SocketAddr> {
        self.grpc
    }

    /// Where the HTTP door is, if it is open.
    pub const fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Where the admin door is, if it is open.
    pub const fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Reads the rules again now, as SIGHUP does.
    pub async fn reload(&self) -> Outcome {
        let (order, outcome) = oneshot::channel();
        if self.orders.send(order).await.is_err() {
            return Outcome::Failed;
        }
        outcome.await.unwrap_or(Outcome::Failed)
    }

    /// Ends the service: it says that it is not ready, waits for [`Limits::stop_delay`], closes its
    /// doors, finishes what is in flight within [`Limits::drain_timeout`], and gives back what it
    /// has leased and reports what it has counted within [`crate::CLOSE_WITHIN`].
    pub async fn stop(mut self) {
        self.shutdown.fail_readiness();
        if let Some(health) = &self.health {
            health.not_serving().await;
        }
        sleep(self.limits.stop_delay).await;
        self.shutdown.begin_drain();
        while self.doors.join_next().await.is_some() {}
        // They hear the same and have nothing to finish.
        let _ = (&mut self.rule_watch).await;
        let _ = (&mut self.store_health).await;
        let _ = (&mut self.memory_reclaim).await;
        Arc::clone(&self.stores).close().await;
    }

    async fn serve_all(&mut self, doors: Listeners, config: &Config, context: &Context) {
        let options = Options {
            allow_refund: config.allow_refund,
            dynamic_metadata: config.dynamic_metadata,
        };
        let limits = self.limits;
        let (engine, counted) = (|| context.engine.clone(), || context.metrics.clone());
        if let Some(door) = doors.grpc {
            let made = grpc::routes(engine(), counted(), options, &limits).await;
            let (router, health) = made;
            self.health = Some(health);
            self.serve_on(door, router, ConnectionLimits::deciding(&limits), context);
        }
        if let Some(door) = doors.http {
            let router = http::routes(http::AppState {
                engine: engine(),
                metrics: counted(),
                options,
                shutdown: context.shutdown.clone(),
                body_timeout: limits.body_timeout,
                body_bytes: limits.body_bytes,
            });
            self.serve_on(door, router, ConnectionLimits::deciding(&limits), context);
        }
        if let Some(door) = doors.admin {
            let router = admin::routes(engine(), counted(), context.shutdown.clone());
            self.serve_on(door, router, ConnectionLimits::admin(&limits), context);
        }
    }

    fn serve_on(
        &mut self,
        door: Listener,
        router: axum::Router,
        bounds: ConnectionLimits,
        context: &Context,
    ) {
        let Context {
            metrics,
            budget,
            shutdown,
            ..
        } = context;
        let handler = ExchangeHandler::new(&door, router, &self.limits, metrics, shutdown);
        let (budget, shutdown) = (Arc::clone(budget), shutdown.clone());
        self.doors
            .spawn(door.serve(handler, bounds, self.limits, budget, shutdown));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.rule_watch.abort();
        self.store_health.abort();
        self.memory_reclaim.abort();
    }
}

// === impl ServeError ===

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Unreadable(error) => write!(f, "{error}"),
            ServeError::NoRules(diagnostics) => {
                for diagnostic in diagnostics {
                    write!(f, "{diagnostic}")?;
                }
                f.write_str("no domain is without mistakes, so there is nothing to serve")
            }
            ServeError::Store { name, .. } => write!(f, "the store `{name}` cannot be used"),
            ServeError::Listen { door, address, .. } => write!(
                f,
                "the {door} door cannot listen on {address}; \
                 choose another address with `listen.{door}`"
            ),
            ServeError::Signals(_) => f.write_str("cannot hear signals"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServeError::Unreadable(error) => error.source(),
            ServeError::NoRules(_) => None,
            ServeError::Store { source, .. } => Some(source),
            ServeError::Listen { source, .. } | ServeError::Signals(source) => Some(source),
        }
    }
}
