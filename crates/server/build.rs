//! Makes the gRPC service of Envoy's messages.

use tonic_build::manual::{Builder, Method, Service};

/// Writes its code, for the codec of this crate.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let method = Method::builder()
        .name("should_rate_limit")
        .route_name("ShouldRateLimit")
        .input_type("tollgate_rls::BoundedRequest")
        .output_type("tollgate_rls::RateLimitResponse")
        .codec_path("crate::codec::Messages")
        .build();
    let service = Service::builder()
        .package("envoy.service.ratelimit.v3")
        .name("RateLimitService")
        .method(method)
        .build();
    Builder::new()
        .build_client(false)
        .build_transport(false)
        .compile(&[service]);
}
