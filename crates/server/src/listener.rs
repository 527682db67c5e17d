//! The service's listeners: opened first, then served, each with the routes of its kind.

use std::sync::Arc;

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
use crate::decisions::DecisionCalls;
use crate::exchange::{ExchangeHandler, GrpcRoutes, HttpRoutes, Routes};
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

/// What serves the connections of a listener.
enum Service {
    Own(Routes),
    Gateway(Arc<Gateway>),
    Redis(RedisHandler),
}

/// Listeners that serve.
#[derive(Debug)]
pub(crate) struct Serving {
    addresses: Vec<(ListenerKind, Address)>,
    /// The health services of the listeners with gRPC.
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
        // The certificate proves to a browser which names are ours.
        let address = listener.address().tcp();
        let has_loopback = address.is_some_and(|address| {
            let ip = address.ip().to_canonical();
            ip.is_loopback() || ip.is_unspecified()
        });
        let is_rebindable = has_loopback && tls.is_none();
        match self.service(kind, (scheme, is_rebindable), context).await {
            Service::Own(routes) => {
                let handler = ExchangeHandler::new(&listener, routes, limits, metrics, shutdown);
                let listener = match &context.auth {
                    // Proxies ask there about their clients.
                    Some(auth) if kind == ListenerKind::Http => {
                        listener.with_proxies(Arc::clone(auth))
                    }
                    _ => listener,
                };
                self.spawn(kind, (listener, tls), Http(handler), context);
            }
            Service::Gateway(gateway) => {
                // An upstream must not work for a client that has gone.
                let listener = listener.without_half_close();
                let listener = listener.with_proxy_headers(Arc::clone(&gateway));
                let listener = listener.with_proxies(Arc::clone(&gateway));
                let handler = GatewayHandler::new(gateway, metrics, shutdown, scheme);
                self.spawn(kind, (listener, tls), Http(handler), context);
            }
            Service::Redis(handler) => {
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

    /// What serves a kind of listener, whose clients send requests over `scheme`, and which web
    /// pages may reach under their own names.
    async fn service(
        &mut self,
        kind: ListenerKind,
        (scheme, is_rebindable): (&'static str, bool),
        context: &Context,
    ) -> Service {
        Service::Own(match kind {
            ListenerKind::Gateway => {
                let gateway = context.gateway.as_ref();
                let gateway = gateway.expect("`start` opens no listener without what it serves");
                return Service::Gateway(Arc::clone(gateway));
            }
            ListenerKind::Redis => {
                let redis = context.redis.clone();
                return Service::Redis(redis.expect("`start` makes one for each such listener"));
            }
            ListenerKind::Grpc => Routes::Grpc(self.grpc_routes(kind, context).await),
            ListenerKind::Http => {
                let http = http_routes(kind, scheme, context);
                Routes::Both(http, self.grpc_routes(kind, context).await)
            }
            ListenerKind::Admin => Routes::Http(admin_routes(is_rebindable, context)),
        })
    }

    /// The services of gRPC, whose health is this service's.
    async fn grpc_routes(&mut self, kind: ListenerKind, context: &Context) -> Arc<GrpcRoutes> {
        let limits = &context.limits;
        let options = match kind {
            ListenerKind::Grpc => context.options.with_refunds(),
            _ => context.options,
        };
        let calls = Arc::new(grpc::Calls {
            listener: kind.name(),
            engine: Arc::clone(&context.engine),
            metrics: Arc::clone(&context.metrics),
            options,
            tracing: context.tracing.for_listener(kind.name()),
            body_timeout: limits.body_timeout,
        });
        let (router, health) = grpc::routes(Arc::clone(&calls), limits).await;
        self.health.push(health);
        let decisions = DecisionCalls::new(&calls, context.shutdown.clone());
        Arc::new(GrpcRoutes::new(router, calls, decisions))
    }
}

fn http_routes(kind: ListenerKind, scheme: &'static str, context: &Context) -> Arc<HttpRoutes> {
    let state = Arc::new(http::AppState {
        engine: Arc::clone(&context.engine),
        metrics: Arc::clone(&context.metrics),
        options: context.options,
        auth: context.auth.clone(),
        tracing: context.tracing.for_listener(kind.name()),
        scheme,
        shutdown: context.shutdown.clone(),
        body_timeout: context.limits.body_timeout,
        body_bytes: context.limits.body_bytes,
    });
    let router = http::routes(Arc::clone(&state));
    Arc::new(HttpRoutes::new(router, Some(state)))
}

fn admin_routes(is_rebindable: bool, context: &Context) -> Arc<HttpRoutes> {
    let (engine, metrics) = (&context.engine, &context.metrics);
    let dashboard = Dashboard::new(Arc::clone(engine), Arc::clone(metrics), context.options);
    let router = admin::routes(admin::AdminState {
        dashboard: Arc::new(dashboard),
        engine: Arc::clone(engine),
        metrics: Arc::clone(metrics),
        options: context.options,
        tokens: context.admin_tokens.clone(),
        is_rebindable,
        shutdown: context.shutdown.clone(),
        limits: context.limits,
    });
    Arc::new(HttpRoutes::new(router, None))
}
