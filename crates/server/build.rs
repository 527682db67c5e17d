//! Makes the gRPC services of the messages in `tollgate-rls`.

use tonic_build::manual::{Builder, Method, Service};

/// Writes the code of both services, for the codec of this crate.
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
    let method = Method::builder()
        .name("check")
        .route_name("Check")
        .input_type("crate::decisions::RawCheck")
        .output_type("bytes::Bytes")
        .codec_path("crate::decisions::RawMessages")
        .client_streaming()
        .server_streaming()
        .build();
    let decisions = Service::builder()
        .package("tollgate.v1")
        .name("Decisions")
        .method(method)
        .build();
    Builder::new()
        .build_client(false)
        .build_transport(false)
        .compile(&[service, decisions]);
}
