//! An axum service whose clients may send three requests in ten seconds each.
//!
//! ```sh
//! cargo run -p tollgate --example axum --features tower
//! for n in 1 2 3 4; do curl -i localhost:3000; done
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::tower::{ClientAddress, Extensions, RateLimitLayer};
use tollgate::{Limit, Limiter};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let limiter = Arc::new(Limiter::new(Limit::per(3, Duration::from_secs(10))));
    let peer = |extensions: &Extensions| {
        let info = extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(info.0.ip().into())
    };
    let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
    let app = Router::new()
        .route("/", get(async || "hello\n"))
        .layer(layer);
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    // This is what puts `ConnectInfo` into requests.
    axum::serve(
        listener,
        app.into_make_service_with_connect_info::<SocketAddr>(),
    )
    .await
}
