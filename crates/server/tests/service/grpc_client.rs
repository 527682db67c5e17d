//! A gRPC client of the rate limit service, as Envoy is.

use std::net::SocketAddr;

use prost::Message;
use tollgate_rls::{RateLimitRequest, RateLimitResponse};
use tonic::client::Grpc;
use tonic::codec::Codec;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_prost::ProstCodec;

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Client(pub(crate) Channel);

// === impl Client ===

impl Client {
    pub(crate) async fn to(address: SocketAddr) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        Client(endpoint.connect().await.unwrap())
    }

    pub(crate) async fn ask(&self, json: &str) -> Result<RateLimitResponse, Status> {
        let request: RateLimitRequest = serde_json::from_str(json).unwrap();
        self.send(request).await
    }

    pub(crate) async fn send(
        &self,
        request: RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        self.call(path, request).await
    }

    /// Calls any method.
    pub(crate) async fn call<Out, In>(&self, path: &str, request: Out) -> Result<In, Status>
    where
        Out: Message + 'static,
        In: Message + Default + 'static,
    {
        let codec: ProstCodec<Out, In> = ProstCodec::default();
        self.call_in(path, request, codec).await
    }

    /// Begins a call and never sends its message.
    pub(crate) async fn ask_without_end(&self) -> Result<RateLimitResponse, Status> {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.unwrap();
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        let path = PathAndQuery::from_static(path);
        let codec: ProstCodec<RateLimitRequest, RateLimitResponse> = ProstCodec::default();
        let never = tokio_stream::pending::<RateLimitRequest>();
        let response = grpc
            .client_streaming(Request::new(never), path, codec)
            .await?;
        Ok(response.into_inner())
    }

    /// Watches health for as long as the connection lasts.
    pub(crate) async fn watch_health(&self, service: &str) -> Streaming<HealthCheckResponse> {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.unwrap();
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
        let codec: ProstCodec<HealthCheckRequest, HealthCheckResponse> = ProstCodec::default();
        let service = service.to_owned();
        let request = Request::new(HealthCheckRequest { service });
        let response = grpc.server_streaming(request, path, codec).await.unwrap();
        response.into_inner()
    }

    pub(crate) async fn call_in<C: Codec>(
        &self,
        path: &str,
        request: C::Encode,
        codec: C,
    ) -> Result<C::Decode, Status>
    where
        C::Encode: Send + Sync + 'static,
        C::Decode: Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.unwrap();
        let path = PathAndQuery::try_from(path).unwrap();
        let response = grpc.unary(Request::new(request), path, codec).await?;
        Ok(response.into_inner())
    }
}
