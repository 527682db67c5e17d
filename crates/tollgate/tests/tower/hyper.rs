//! In front of a service of hyper, over a socket.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::body::Body;
use http::{Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http2 as client;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::tower::{ClientAddress, Extensions, Peer, RateLimitLayer};
use tollgate::{Algorithm, Limit};
use tower::{ServiceBuilder, service_fn};

use crate::limiter;

async fn answer(_request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from("hello")))
}

/// Serves each connection as a program of hyper does, behind a layer with this limit.
async fn serve(limit: Limit) -> SocketAddr {
    serve_over(limit, false).await
}

/// The same over HTTP/2, or over HTTP/1.1.
async fn serve_over(limit: Limit, is_http2: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peer = |extensions: &Extensions| extensions.get::<Peer>().copied();
    let layer = RateLimitLayer::by_client_address(limiter(limit), ClientAddress::default(), peer);
    tokio::spawn(async move {
        loop {
            let (stream, from) = listener.accept().await.unwrap();
            let service = ServiceBuilder::new()
                // hyper knows no peer: the program puts it into the request.
                .map_request(move |mut request: Request<Incoming>| {
                    request.extensions_mut().insert(Peer::from(from.ip()));
                    request
                })
                .layer(layer.clone())
                .service(service_fn(answer));
            let service = TowerToHyperService::new(service);
            tokio::spawn(async move {
                let stream = TokioIo::new(stream);
                let _ended = match is_http2 {
                    true => {
                        let serving = http2::Builder::new(TokioExecutor::new());
                        serving.serve_connection(stream, service).await
                    }
                    false => {
                        let serving = http1::Builder::new();
                        serving.serve_connection(stream, service).await
                    }
                };
            });
        }
    });
    address
}

/// Sends so many requests at once on one connection, and returns the bytes that come back.
async fn ask(address: SocketAddr, requests: usize) -> String {
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let text = request.repeat(requests - 1) + last;
    client.write_all(text.as_bytes()).await.unwrap();
    let mut responses = String::new();
    client.read_to_string(&mut responses).await.unwrap();
    responses
}

#[tokio::test]
async fn a_server_of_hyper_answers_a_client_up_to_its_limit() {
    let address = serve(Limit::per_hour(2)).await;
    let responses = ask(address, 3).await;
    assert_eq!(responses.matches("HTTP/1.1 200 OK\r\n").count(), 2);
    assert_eq!(responses.matches("hello").count(), 2);
    assert!(
        responses.contains("ratelimit: \"per client\";r=1;t="),
        "{responses}"
    );
    let (_, denied) = responses.rsplit_once("HTTP/1.1 ").unwrap();
    assert!(denied.starts_with("429 Too Many Requests\r\n"), "{denied}");
    assert!(denied.contains("retry-after: "), "{denied}");
    assert!(denied.contains("application/problem+json"), "{denied}");
    // The client's other connections have the same limit.
    let other = ask(address, 1).await;
    assert!(other.starts_with("HTTP/1.1 429 "), "{other}");
}

/// hyper would send it in HTTP/2, and clients take that for a broken response.
#[tokio::test]
async fn the_denial_of_a_head_has_no_body() {
    let address = serve_over(Limit::per_hour(1), true).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let shaken = client::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = shaken.unwrap();
    tokio::spawn(connection);
    let mut ask = async |method: &str| {
        let request = Request::builder().method(method).uri("http://h/");
        let request = request.body(Body::empty()).unwrap();
        sender.send_request(request).await.unwrap()
    };
    assert_eq!(ask("GET").await.status(), 200);
    let denied = ask("GET").await;
    assert_eq!(denied.status(), 429);
    let head = ask("HEAD").await;
    assert_eq!(head.status(), 429);
    assert!(head.body().is_end_stream(), "{head:?}");
    let length = "content-length";
    assert_eq!(head.headers()[length], denied.headers()[length]);
}

/// The second one is held until its turn, and the third does not fit into the queue.
#[tokio::test]
async fn a_server_of_hyper_holds_delayed_requests() {
    let limit = Limit::per_hour(2)
        .counted_by(Algorithm::LeakyBucket)
        .burst(2);
    let address = serve(limit).await;
    assert!(ask(address, 1).await.starts_with("HTTP/1.1 200 "));
    let mut held = TcpStream::connect(address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    held.write_all(request).await.unwrap();
    // Whichever of the two comes first has the turn.
    let mut other = TcpStream::connect(address).await.unwrap();
    other.write_all(request).await.unwrap();
    let (mut one, mut two) = ([0; 12], [0; 12]);
    let denied = tokio::select! {
        read = held.read_exact(&mut one) => read.map(|_| one),
        read = other.read_exact(&mut two) => read.map(|_| two),
    };
    assert_eq!(&denied.unwrap(), b"HTTP/1.1 429");
    let unread = [held.try_read(&mut [0; 1]), other.try_read(&mut [0; 1])];
    let waiting = unread.iter().filter(|read| {
        let error = read.as_ref().err().map(std::io::Error::kind);
        error == Some(std::io::ErrorKind::WouldBlock)
    });
    assert_eq!(waiting.count(), 1, "{unread:?}");
}
