//! The middleware in an axum service, in this process.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::Response;
use axum::routing::get;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use tollgate::tower::{ClientAddress, Extensions, RateLimitLayer};
use tollgate::{Limit, Limiter};
use tower_service::Service;

/// Requests of one round.
const REQUESTS: u32 = 200_000;
/// Clients that send them in turn.
const CLIENTS: u32 = 1000;

/// Processor time of a request, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerFigures {
    pub(crate) without: f64,
    pub(crate) with: f64,
}

/// Measures the same service with and without the middleware, in turns; the medians of the rounds.
pub(crate) fn measure(rounds: u32) -> LayerFigures {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime can be built");
    let plain = Router::new().route("/", get(async || "hello\n"));
    let limiter = Arc::new(Limiter::new(Limit::per(
        u32::MAX,
        Duration::from_secs(86400),
    )));
    let peer = |extensions: &Extensions| {
        let info = extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(info.0.ip().into())
    };
    let layer = RateLimitLayer::by_client_address(limiter, ClientAddress::default(), peer);
    let mut limited = plain.clone().layer(layer);
    let mut plain = plain;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    // The first round warms up.
    for _round in 0..=rounds {
        without.push(runtime.block_on(round(&mut plain)));
        with.push(runtime.block_on(round(&mut limited)));
    }
    LayerFigures {
        without: median(without.split_off(1)),
        with: median(with.split_off(1)),
    }
}

async fn round(service: &mut Router) -> f64 {
    let before = thread_time();
    for number in 0..REQUESTS {
        let octets = (number % CLIENTS).to_be_bytes();
        let client = SocketAddr::from(([10, octets[1], octets[2], octets[3]], 1));
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(ConnectInfo(client));
        let response: Result<Response, Infallible> = service.call(request).await;
        let response = response.unwrap_or_else(|never| match never {});
        assert!(response.status().is_success(), "the limit is larger");
        black_box(response);
    }
    (thread_time() - before).as_secs_f64() * 1e9 / f64::from(REQUESTS)
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it is not negative")
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}
