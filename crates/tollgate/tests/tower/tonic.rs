//! In front of a service of tonic.

use http::Request;
use tollgate::tower::{ClientAddress, Peer, RateLimitLayer};
use tollgate::{Algorithm, Limit};
use tonic::Code;
use tonic::body::Body;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::server::health_reporter;
use tower::{Layer, ServiceBuilder};

use crate::limiter;

fn check() -> HealthCheckRequest {
    HealthCheckRequest {
        service: String::new(),
    }
}

/// Adds the peer that a server of tonic would know.
fn with_peer(mut request: Request<Body>) -> Request<Body> {
    let address: std::net::IpAddr = [192, 0, 2, 7].into();
    request.extensions_mut().insert(Peer::from(address));
    request
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_is_resource_exhausted_with_the_time_to_retry() {
    let (_reporter, health) = health_reporter();
    let peer = |extensions: &http::Extensions| extensions.get::<Peer>().copied();
    let limiter = limiter(Limit::per_second(1).burst(2));
    let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
    let service = ServiceBuilder::new()
        .map_request(with_peer)
        .layer(layer)
        .service(health);
    let mut client = HealthClient::new(service);
    for remaining in ["r=1", "r=0"] {
        let response = client.check(check()).await.unwrap();
        let metadata = response.metadata().get("ratelimit").unwrap();
        assert!(
            metadata.to_str().unwrap().contains(remaining),
            "{metadata:?}"
        );
    }
    let status = client.check(check()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(
        status
            .message()
            .contains("limit \"per client\" is exceeded"),
        "{status}"
    );
    assert_eq!(
        status.metadata().get("grpc-retry-pushback-ms").unwrap(),
        "1000"
    );
    assert_eq!(status.metadata().get("retry-after").unwrap(), "1");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    client.check(check()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_peer_is_internal() {
    let (_reporter, health) = health_reporter();
    let limiter = limiter(Limit::per_hour(1).counted_by(Algorithm::SlidingLog));
    let peer = |extensions: &http::Extensions| extensions.get::<Peer>().copied();
    let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
    let mut client = HealthClient::new(layer.layer(health));
    let status = client.check(check()).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(
        status
            .message()
            .contains("does not know the client's address"),
        "{status}"
    );
}
