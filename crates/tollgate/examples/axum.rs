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
    serve(TcpListener::bind("127.0.0.1:3000").await?).await
}

async fn serve(listener: TcpListener) -> std::io::Result<()> {
    let limiter = Arc::new(Limiter::new(Limit::per(3, Duration::from_secs(10))));
    let peer = |extensions: &Extensions| {
        let info = extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(info.0.ip().into())
    };
    let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
    let app = Router::new()
        .route("/", get(async || "hello\n"))
        .layer(layer);
    // This is what puts `ConnectInfo` into requests.
    axum::serve(
        listener,
        app.into_make_service_with_connect_info::<SocketAddr>(),
    )
    .await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn the_fourth_request_is_denied() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener));
        // One connection, whose requests are there at once: a unit comes back after 3.3 seconds.
        let mut client = TcpStream::connect(address).await.unwrap();
        let requests = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(3)
            + "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        client.write_all(requests.as_bytes()).await.unwrap();
        let mut responses = String::new();
        client.read_to_string(&mut responses).await.unwrap();
        assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 3);
        assert_eq!(responses.matches("hello\n").count(), 3);
        let denied = responses.matches("HTTP/1.1 429 Too Many Requests");
        assert_eq!(denied.count(), 1, "{responses}");
        serving.abort();
    }
}
