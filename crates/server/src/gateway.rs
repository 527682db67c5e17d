//! The gateway's listener: what the process adds to a gateway.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::Service;
use tollgate_gateway::{Gateway, ResponseBody};
use tollgate_http::Responder;
use tollgate_listen::{Connection, ConnectionCounts, Handler, ShutdownSignal};

use crate::config::ListenerKind;
use crate::metrics::{ListenerName, Metrics};
use crate::reply::Failure;

const NAME: ListenerName = ListenerKind::Gateway.name();

/// Serves the connections of the gateway's listener.
#[derive(Clone)]
pub(crate) struct GatewayHandler {
    gateway: Arc<Gateway>,
    metrics: Arc<Metrics>,
    shutdown: ShutdownSignal,
    /// What clients send requests over.
    scheme: &'static str,
}

/// Serves the requests of one connection.
pub(crate) struct GatewayService {
    handler: GatewayHandler,
    connection: Arc<Connection>,
}

type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send + 'static>>;

// === impl GatewayHandler ===

impl GatewayHandler {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        metrics: &Arc<Metrics>,
        shutdown: &ShutdownSignal,
        scheme: &'static str,
    ) -> GatewayHandler {
        GatewayHandler {
            gateway,
            metrics: Arc::clone(metrics),
            shutdown: shutdown.clone(),
            scheme,
        }
    }
}

impl Handler for GatewayHandler {
    type Body = ResponseBody;
    type Service = GatewayService;

    fn service(&self, connection: &Arc<Connection>) -> GatewayService {
        GatewayService {
            handler: self.clone(),
            connection: Arc::clone(connection),
        }
    }
}

impl ConnectionCounts for GatewayHandler {
    fn count_open(&self) {
        self.metrics.connections(NAME).inc();
    }

    fn count_end(&self) {
        self.metrics.connections(NAME).dec();
    }

    fn count_close(&self, reason: &'static str) {
        self.metrics.count_close(NAME, reason);
    }

    fn count_reset(&self) {
        self.metrics.count_reset(NAME);
    }

    fn count_error(&self, kind: &'static str) {
        self.metrics.count_error(NAME, kind);
    }
}

// === impl GatewayService ===

impl Service<Request<Incoming>> for GatewayService {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let (handler, connection) = (self.handler.clone(), Arc::clone(&self.connection));
        Box::pin(async move {
            let is_http2 = request.version() == Version::HTTP_2;
            let mut response = if connection.is_reserved() {
                handler.answer_overload(&request)
            } else {
                let gateway = &handler.gateway;
                gateway.answer(request, &connection, handler.scheme).await
            };
            let ends = connection.ends() || !handler.shutdown.is_ready();
            // The fields of a response that switches protocols say so.
            let is_tunnel = response.status() == StatusCode::SWITCHING_PROTOCOLS;
            if ends && !is_http2 && !is_tunnel {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            if connection.is_reserved() && is_http2 {
                connection.drain();
            }
            Ok(response)
        })
    }
}

impl GatewayHandler {
    /// The response to a connection for which there was no permit.
    fn answer_overload(&self, request: &Request<Incoming>) -> Response<ResponseBody> {
        let detail = "the connection limit is reached; use fewer connections, or retry in a second";
        let failure = Failure::new("overloaded", StatusCode::SERVICE_UNAVAILABLE, detail);
        self.metrics.count_error(NAME, failure.kind);
        let response =
            Responder::default().fail(&failure.problem, request.method(), request.headers());
        response.map(ResponseBody::own)
    }
}
