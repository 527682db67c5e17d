//! What answers the requests of a listener: routes, and short ways beside them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::request::Parts;
use http::{Method, Request, Response, Version};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tonic::Status;

use super::message::Message;
use crate::auth;
use crate::body::Content;
use crate::decisions::DecisionCalls;
use crate::grpc::{Calls, DECIDE_PATH};
use crate::head::is_grpc;
use crate::http::{AppState, CHECK_PATH};

/// What answers the requests of a listener.
#[derive(Clone)]
pub(crate) enum Routes {
    /// Requests of HTTP.
    Http(Arc<HttpRoutes>),
    /// Calls of gRPC.
    Grpc(Arc<GrpcRoutes>),
    /// Both: a request of HTTP/2 with a media type of gRPC is a call, but at `/v1/auth`.
    Both(Arc<HttpRoutes>, Arc<GrpcRoutes>),
}

/// What answers requests of HTTP.
pub(crate) struct HttpRoutes {
    pub(super) router: TowerToHyperService<Router>,
    /// Answers `/v1/check` without the router, whose layers cost as much as a decision.
    checks: Option<Arc<AppState>>,
}

/// What answers calls of gRPC.
pub(crate) struct GrpcRoutes {
    pub(super) router: TowerToHyperService<Router>,
    /// Answers `ShouldRateLimit` without the router.
    calls: Arc<Calls>,
    /// Answers the stream of decisions.
    pub(super) decisions: DecisionCalls,
}

/// The routes for one request.
pub(super) enum RoutesOf<'a> {
    Http(&'a Arc<HttpRoutes>),
    Grpc(&'a Arc<GrpcRoutes>),
}

// === impl Routes ===

impl Routes {
    /// Those for a request with this head.
    pub(super) fn of<B>(&self, request: &Request<B>) -> RoutesOf<'_> {
        match self {
            Routes::Http(http) => RoutesOf::Http(http),
            Routes::Grpc(grpc) => RoutesOf::Grpc(grpc),
            Routes::Both(_, grpc) if is_call(request) => RoutesOf::Grpc(grpc),
            Routes::Both(http, _) => RoutesOf::Http(http),
        }
    }
}

/// Whether a request is a call of gRPC. One of a proxy that asks about its own request never is:
/// its media type is that of the proxy's client, who would choose what answers.
fn is_call<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_2
        && request.uri().path() != auth::PATH
        && is_grpc(request.headers())
}

// === impl HttpRoutes ===

impl HttpRoutes {
    pub(crate) fn new(router: Router, checks: Option<Arc<AppState>>) -> HttpRoutes {
        HttpRoutes {
            router: TowerToHyperService::new(router),
            checks,
        }
    }

    /// Whether they are those of the admin listener, which decides nothing.
    pub(super) fn is_admin(&self) -> bool {
        self.checks.is_none()
    }

    /// What answers a request without the router.
    pub(super) fn checks_of(&self, head: &Parts) -> Option<&Arc<AppState>> {
        let is_check = head.method == Method::POST && head.uri.path() == CHECK_PATH;
        self.checks.as_ref().filter(|_| is_check)
    }
}

// === impl GrpcRoutes ===

impl GrpcRoutes {
    pub(crate) fn new(router: Router, calls: Arc<Calls>, decisions: DecisionCalls) -> GrpcRoutes {
        GrpcRoutes {
            router: TowerToHyperService::new(router),
            calls,
            decisions,
        }
    }

    /// What answers a call without the router.
    pub(super) fn calls_of(&self, head: &Parts) -> Option<&Calls> {
        let is_decision = head.uri.path() == DECIDE_PATH;
        is_decision.then_some(&*self.calls)
    }

    /// The response to a call with this message, by `calls` if they answer it, or by the routes; an
    /// error if it is none.
    pub(super) async fn answer(
        &self,
        parts: Parts,
        message: Message<'_>,
        calls: Option<&Calls>,
    ) -> Result<Response<Content>, Status> {
        let message = match message {
            Message::Invalid(status) => return Err(status),
            Message::Request(calls, request) => {
                return Ok(calls.answer_request(&parts, &request).await);
            }
            Message::TooLarge(beginning) => beginning,
            Message::Whole(message) => {
                if let Some(calls) = calls
                    && let Some(response) = calls.answer(&parts, &message).await
                {
                    return Ok(response);
                }
                message
            }
        };
        let request = Request::from_parts(parts, Body::from(message));
        let Ok(response) = self.router.call(request).await;
        Ok(response.map(Content::from))
    }
}
