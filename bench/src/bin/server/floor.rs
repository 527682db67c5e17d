//! Servers that decide nothing: what the protocol alone costs with the libraries that Tollgate has.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use axum::serve::ListenerExt;
use pbjson_types::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tollgate_rls::rate_limit_response::rate_limit::Unit;
use tollgate_rls::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use tollgate_rls::{RateLimitRequest, RateLimitResponse, SERVICE};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::budget::Budget;

/// A response of `/v1/check`.
const BODY: &str = concat!(
    r#"{"allowed":true,"domain":"bench","limits":[{"algorithm":"token_bucket","limit":86400,"#,
    r#""outcome":"allowed","remaining":999999999,"reset":"1s","rule":"large","window":"1d"}],"#,
    r#""matched":true}"#
);

/// A floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Floor {
    /// A handler of axum that reads the body and answers another.
    Http,
    /// A service of tonic that reads Envoy's message and answers another.
    Grpc,
}

/// The service of tonic.
#[derive(Clone, Debug)]
struct Empty;

// === impl Floor ===

impl Floor {
    pub(crate) const ALL: [(&str, Floor); 2] = [("http", Floor::Http), ("grpc", Floor::Grpc)];

    /// The word that names it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Floor::Http => "http",
            Floor::Grpc => "grpc",
        }
    }

    /// Serves until the process is ended.
    pub(crate) fn serve(self, port: u16) -> Result<(), Box<dyn Error>> {
        // As many threads as there are cores that it may use, as `tollgate serve` has.
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        runtime.block_on(async {
            match self {
                Floor::Http => serve_http(address).await,
                Floor::Grpc => {
                    let server = Server::builder().add_service(Empty).serve(address);
                    Ok(server.await?)
                }
            }
        })
    }
}

async fn serve_http(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let answer = async |body: Bytes| {
        debug_assert!(!body.is_empty(), "requests have a body");
        ([(CONTENT_TYPE, "application/json")], BODY)
    };
    let routes = Router::new().route("/v1/check", post(answer));
    let listener = TcpListener::bind(address).await?;
    let listener = listener.tap_io(|stream| {
        // Without effect at worst, and then the figures of small responses show it.
        let _set = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, routes).await?)
}

// === impl Empty ===

impl NamedService for Empty {
    const NAME: &'static str = SERVICE;
}

impl Service<http::Request<Body>> for Empty {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::default());
            Ok(grpc.unary(Empty, request).await)
        })
    }
}

impl UnaryService<RateLimitRequest> for Empty {
    type Response = RateLimitResponse;
    type Future = Ready<Result<Response<RateLimitResponse>, Status>>;

    fn call(&mut self, request: Request<RateLimitRequest>) -> Self::Future {
        let statuses = request.get_ref().descriptors.iter().map(|_| status());
        ready(Ok(Response::new(RateLimitResponse {
            overall_code: Code::Ok.into(),
            statuses: statuses.collect(),
            ..RateLimitResponse::default()
        })))
    }
}

/// What Tollgate answers for one descriptor that is allowed.
fn status() -> DescriptorStatus {
    let budget = Budget::Large;
    DescriptorStatus {
        code: Code::Ok.into(),
        current_limit: Some(RateLimit {
            requests_per_unit: budget.count(),
            unit: Unit::Day.into(),
            ..RateLimit::default()
        }),
        limit_remaining: budget.capacity() - 1,
        duration_until_reset: Some(Duration {
            seconds: 1,
            nanos: 0,
        }),
    }
}
