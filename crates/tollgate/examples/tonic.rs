//! A tonic service, gRPC's health check, whose clients may send three requests in ten seconds each:
//! the fourth is `RESOURCE_EXHAUSTED`.
//!
//! ```sh
//! cargo run -p tollgate --example tonic --features tower
//! grpcurl -plaintext localhost:50051 grpc.health.v1.Health/Check
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tollgate::tower::{ClientAddress, Extensions, RateLimitLayer};
use tollgate::{Limit, Limiter};
use tonic::transport::Server;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    serve(TcpListener::bind("127.0.0.1:50051").await?).await
}

async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let limiter = Arc::new(Limiter::new(Limit::per(3, Duration::from_secs(10))));
    let peer = |extensions: &Extensions| {
        let info = extensions.get::<TcpConnectInfo>()?;
        Some(info.remote_addr()?.ip().into())
    };
    let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Ok(server.serve_with_incoming(incoming).await?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tonic::Code;
    use tonic::transport::Endpoint;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;

    #[tokio::test]
    async fn calls_are_answered_until_one_is_denied() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { serve(listener).await.unwrap() });
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        // Three at least: on a slow machine, a unit comes back meanwhile.
        let mut allowed = 0;
        let denied = loop {
            let request = HealthCheckRequest {
                service: String::new(),
            };
            match client.check(request).await {
                Ok(_) => allowed += 1,
                Err(status) => break status,
            }
        };
        assert!(allowed >= 3, "{allowed}");
        assert_eq!(denied.code(), Code::ResourceExhausted, "{denied:?}");
        serving.abort();
    }
}
