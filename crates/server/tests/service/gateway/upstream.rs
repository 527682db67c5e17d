//! Servers behind the gateway.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A real HTTP server: answers with the body of the request and the status 200, or `NNN` for a
/// target that ends with `status=NNN`.
pub(super) struct Echo {
    pub(super) address: SocketAddr,
    pub(super) seen: Arc<Mutex<Vec<Seen>>>,
    pub(super) connections: Arc<AtomicUsize>,
    task: AbortHandle,
}

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) target: String,
    /// `name: value` of each field, sorted.
    pub(super) fields: Vec<String>,
}

/// A server that the test itself plays.
pub(super) struct Stage(TcpListener);

/// A connection to it.
pub(super) struct Actor(pub(super) TcpStream);

/// Answers the requests of a connection of HTTP/2 or HTTP/1.1.
pub(super) async fn answer_all<S, A>(stream: S, is_http2: bool, answer: A)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Send,
{
    let service = service_fn(|request: Request<Incoming>| {
        let response = answer(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    let stream = TokioIo::new(stream);
    // How a connection ends does not matter here.
    let _ = match is_http2 {
        true => {
            let builder = http2::Builder::new(TokioExecutor::new());
            builder.serve_connection(stream, service).await
        }
        false => {
            let builder = http1::Builder::new();
            builder.serve_connection(stream, service).await
        }
    };
}

// === impl Echo ===

impl Echo {
    pub(super) async fn start() -> Echo {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let connections: Arc<AtomicUsize> = Arc::default();
        let task = tokio::spawn(serve(listener, Arc::clone(&seen), Arc::clone(&connections)));
        Echo {
            address,
            seen,
            connections,
            task: task.abort_handle(),
        }
    }

    pub(super) fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, seen: Arc<Mutex<Vec<Seen>>>, connections: Arc<AtomicUsize>) {
    let mut tasks = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.fetch_add(1, Ordering::Relaxed);
        let seen = Arc::clone(&seen);
        let service = service_fn(move |request| echo(request, Arc::clone(&seen)));
        tasks.spawn(async move {
            let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let _ = serving.await;
        });
    }
}

async fn echo(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(Response::new(Full::default()));
    };
    let body = body.to_bytes();
    let fields = head.headers.iter();
    let mut fields: Vec<String> = fields
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    fields.sort();
    let target = head.uri.to_string();
    seen.lock().unwrap().push(Seen {
        target: target.clone(),
        fields,
    });
    let status = target.rsplit_once("status=").map_or("200", |found| found.1);
    let response = Response::builder()
        .status(status)
        .header("x-upstream", "echo")
        .header("keep-alive", "timeout=9")
        .header("ratelimit", "the upstream's own");
    Ok(response.body(Full::new(body)).unwrap())
}

// === impl Stage ===

impl Stage {
    pub(super) async fn open() -> Stage {
        Stage(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(super) async fn accept(&self) -> Actor {
        let (stream, _) = timeout(TIMEOUT, self.0.accept()).await.unwrap().unwrap();
        Actor(stream)
    }
}

// === impl Actor ===

impl Actor {
    /// All bytes up to and with `end`.
    pub(super) async fn read_until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            read.push(timeout(TIMEOUT, self.0.read_u8()).await.unwrap().unwrap());
        }
        String::from_utf8(read).unwrap()
    }

    /// The head of the next request.
    pub(super) async fn head(&mut self) -> String {
        self.read_until("\r\n\r\n").await
    }

    pub(super) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits until the other side closes the connection.
    pub(super) async fn wait_for_end(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end as well.
        let _ = timeout(TIMEOUT, self.0.read_to_end(&mut rest))
            .await
            .unwrap();
    }
}
