//! The service's listeners: opened first, then served, each with the routes of its kind.

use std::sync::Arc;

use axum::Router;
use tokio::task::JoinSet;
use tollgate_engine::Engine;
use tollgate_gateway::Gateway;
use tollgate_listen::{
    Address, Budget, Http, Limits, Listener, Session, ShutdownSignal, Streams, Tls,
};
use tollgate_telemetry::Tracing;
use tracing::info;

use crate::admin_tokens::AdminTokens;
use crate::auth::ActiveAuth;
use crate::config::{Listen, ListenerKind};
use crate::dashboard::Dashboard;
use crate::exchange::ExchangeHandler;
use crate::gateway::GatewayHandler;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::redis_protocol::RedisHandler;
use crate::serve_error::ServeError;
use crate::{admin, grpc, http};

/// Listeners that accept connections and do not serve them yet.
pub(crate) struct Opened(Vec<(ListenerKind, Listener, Option<Tls>)>);

/// What all listeners share.
pub(crate) struct Context {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) options: Options,
    pub(crate) auth: Option<Arc<ActiveAuth>>,
    pub(crate) tracing: Tracing,
    pub(crate) admin_tokens: Option<Arc<AdminTokens>>,
    pub(crate) gateway: Option<Arc<Gateway>>,
    pub(crate) redis: Option<RedisHandler>,
    pub(crate) limits: Limits,
    pub(crate) shutdown: ShutdownSignal,
}

/// What answers the requests of a listener.
enum Routes {
    Own(Own),
    Gateway(Arc<Gateway>),
    Redis(RedisHandler),
}

/// The routes of a listener, and what answers `/v1/check` and `ShouldRateLimit` without them, if
/// they are there.
struct Own {
    router: Router,
    checks: Option<Arc<http::AppState>>,
    calls: Option<Arc<grpc::Calls>>,
}

/// Listeners that serve.
#[derive(Debug)]
pub(crate) struct Serving {
    addresses: Vec<(ListenerKind, Address)>,
    /// The health services of the gRPC listeners.
    health: Vec<grpc::Health>,
    tasks: JoinSet<()>,
}

// === impl Opened ===

impl Opened {
    /// Opens every listener, so that an address in use is an error before any is served. Each has
    /// its handshake, or is plain text.
    pub(crate) async fn open(
        listen: &[Listen],
        handshakes: Vec<Option<Tls>>,
    ) -> Result<Opened, ServeError> {
        let mut opened = Vec::with_capacity(listen.len());
        for (Listen { kind, address, tls }, handshake) in listen.iter().zip(handshakes) {
            let kind = *kind;
            let listener = kind.name();
            let open = Listener::open(listener, address, kind.protocol());
            let open = open.await.map_err(|source| ServeError::Listen {
                listener,
                address: address.clone(),
                source,
            })?;
            let tls = tls.as_ref().map(|files| match files.client_ca {
                None => "on",
                Some(_) => "with client certificates",
            });
            info!(listener, address = %open.address(), tls, "listening");
            opened.push((kind, open, handshake));
        }
        Ok(Opened(opened))
    }

    /// Serves every listener until shutdown.
    pub(crate) async fn serve(self, context: &Context) -> Serving {
        let mut serving = Serving {
            addresses: Vec::new(),
            health: Vec::new(),
            tasks: JoinSet::new(),
        };
        for (kind, listener, tls) in self.0 {
            serving.serve(kind, listener, tls, context).await;
        }
        serving
    }
}

// === impl Serving ===

impl Serving {
    /// The kind and the address of each listener.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (ListenerKind, &Address)> {
        let addresses = self.addresses.iter();
        addresses.map(|(kind, address)| (*kind, address))
    }

    /// Answers gRPC's health checks with "not serving" from now on.
    pub(crate) async fn fail_health_checks(&self) {
        for health in &self.health {
            health.set_not_serving().await;
        }
    }

    /// Waits until all listeners have closed and drained their connections.
    pub(crate) async fn wait_until_drained(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Serves a listener until shutdown.
    async fn serve(
        &mut self,
        kind: ListenerKind,
        listener: Listener,
        tls: Option<Tls>,
        context: &Context,
    ) {
        self.addresses.push((kind, listener.address().clone()));
        let Context {
            metrics,
            limits,
            shutdown,
            ..
        } = context;
        let scheme = if tls.is_some() { "https" } else { "http" };
        match self.routes(kind, scheme, context).await {
            Routes::Own(Own {
                router,
                checks,
                calls,
            }) => {
                let handler = ExchangeHandler::new(&listener, router, limits, metrics, shutdown);
                let handler = handler.with_short_ways(checks, calls);
                self.spawn(kind, (listener, tls), Http(handler), context);
            }
            Routes::Gateway(gateway) => {
                // An upstream must not work for a client that has gone.
                let listener = listener.without_half_close();
                let listener = listener.with_proxy_headers(Arc::clone(&gateway));
                let handler = GatewayHandler::new(gateway, metrics, shutdown, scheme);
                self.spawn(kind, (listener, tls), Http(handler), context);
            }
            Routes::Redis(handler) => {
                self.spawn(kind, (listener, tls), Streams(handler), context);
            }
        }
    }

    /// Serves a listener, over TLS if it has any, in a task of its own.
    fn spawn(
        &mut self,
        kind: ListenerKind,
        (listener, tls): (Listener, Option<Tls>),
        session: impl Session,
        context: &Context,
    ) {
        let limits = context.limits;
        let (bounds, budget) = (kind.connection_limits(&limits), Arc::clone(&context.budget));
        let shutdown = context.shutdown.clone();
        match tls {
            None => {
                let serve = listener.serve(session, bounds, limits, budget, shutdown);
                self.tasks.spawn(serve)
            }
            Some(tls) => {
                let listener = listener.with_handshake(tls);
                let serve = listener.serve(session, bounds, limits, budget, shutdown);
                self.tasks.spawn(serve)
            }
        };
    }

    /// The routes of a kind of listener, whose clients send requests over `scheme`.
    async fn routes(
        &mut self,
        kind: ListenerKind,
        scheme: &'static str,
        context: &Context,
    ) -> Routes {
        let (engine, metrics) = (Arc::clone(&context.engine), Arc::clone(&context.metrics));
        let (limits, shutdown) = (&context.limits, context.shutdown.clone());
        let (mut checks, mut calls) = (None, None);
        let router = match kind {
            ListenerKind::Gateway => {
                let gateway = context.gateway.as_ref();
                let gateway = gateway.expect("`start` opens no listener without what it serves");
                return Routes::Gateway(Arc::clone(gateway));
            }
            ListenerKind::Redis => {
                let redis = context.redis.clone();
                return Routes::Redis(redis.expect("`start` makes one for each such listener"));
            }
            ListenerKind::Grpc => {
                let answers = Arc::new(grpc::Calls {
                    engine,
                    metrics,
                    options: context.options,
                    tracing: context.tracing.for_listener(kind.name()),
                    body_timeout: limits.body_timeout,
                });
                calls = Some(Arc::clone(&answers));
                let (router, health) = grpc::routes(answers, limits, &shutdown).await;
                self.health.push(health);
                router
            }
            ListenerKind::Http => {
                let state = Arc::new(http::AppState {
                    engine,
                    metrics,
                    options: context.options,
                    auth: context.auth.clone(),
                    tracing: context.tracing.for_listener(kind.name()),
                    scheme,
                    shutdown,
                    body_timeout: limits.body_timeout,
                    body_bytes: limits.body_bytes,
                });
                checks = Some(Arc::clone(&state));
                http::routes(state)
            }
            ListenerKind::Admin => admin::routes(admin::AdminState {
                dashboard: Arc::new(Dashboard::new(
                    Arc::clone(&engine),
                    Arc::clone(&metrics),
                    context.options,
                )),
                engine,
                metrics,
                options: context.options,
                tokens: context.admin_tokens.clone(),
                shutdown,
                limits: *limits,
            }),
        };
        Routes::Own(Own {
            router,
            checks,
            calls,
        })
    }
}
