//! An axum service of several processes, whose clients may send three requests in ten seconds each,
//! to all processes together.
//!
//! ```sh
//! redis-server --port 6379 --save '' &
//! cargo run -p tollgate --example axum_redis --features redis,tower 127.0.0.1:3000 &
//! cargo run -p tollgate --example axum_redis --features redis,tower 127.0.0.1:3001 &
//! for port in 3000 3001 3000 3001; do curl -i localhost:$port; done
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::Limit;
use tollgate::redis::Redis;
use tollgate::tower::{ClientAddress, Extensions, RateLimitLayer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next();
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:3000")).await?;
    let url = arguments.next();
    let redis = Redis::open(url.as_deref().unwrap_or("redis://localhost:6379"))?;
    serve(listener, &redis).await
}

async fn serve(listener: TcpListener, redis: &Redis) -> Result<(), Box<dyn Error>> {
    let limit = Limit::per(3, Duration::from_secs(10));
    let limiter = Arc::new(redis.limiter("per client", limit)?);
    let peer = |extensions: &Extensions| {
        let info = extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(info.0.ip().into())
    };
    let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
    let app = Router::new()
        .route("/", get(async || "hello\n"))
        .layer(layer);
    // This is what puts `ConnectInfo` into requests.
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, app).await?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tollgate::Span;
    use tollgate::redis::Config;

    use super::*;

    /// A process of its own, but for the process.
    async fn start(url: &str) -> SocketAddr {
        let timeout = Span::from_secs(20);
        let config = Config::from_url(url).unwrap();
        let redis = Redis::builder(Config { timeout, ..config }).open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { serve(listener, &redis).await.unwrap() });
        address
    }

    #[tokio::test]
    async fn two_processes_share_the_limit() {
        let server = tollgate_testbed::Redis::start();
        let url = format!("redis://{}", server.address());
        let addresses = [start(&url).await, start(&url).await];
        let mut statuses = Vec::new();
        for address in addresses.repeat(2) {
            let mut client = TcpStream::connect(address).await.unwrap();
            let text = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            client.write_all(text).await.unwrap();
            let mut response = String::new();
            client.read_to_string(&mut response).await.unwrap();
            statuses.push(response[9..12].to_owned());
        }
        assert_eq!(statuses, ["200", "200", "200", "429"]);
    }
}
