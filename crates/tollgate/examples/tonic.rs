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

use tollgate::tower::{ClientAddress, Extensions, RateLimitLayer};
use tollgate::{Limit, Limiter};
use tonic::transport::Server;
use tonic::transport::server::TcpConnectInfo;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Arc::new(Limiter::new(Limit::per(3, Duration::from_secs(10))));
    let peer = |extensions: &Extensions| {
        let info = extensions.get::<TcpConnectInfo>()?;
        Some(info.remote_addr()?.ip().into())
    };
    let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    Ok(server.serve("127.0.0.1:50051".parse()?).await?)
}
