//! The service that requests are sent to: its connections, a request and its decision.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::answer::{Decision, Unanswered};
use super::bounds::{CONNECT_TIMEOUT, REQUEST_TIMEOUT};
use crate::printable::Printable;
use crate::service_url::ServiceUrl;

/// The most bytes of a response.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The most bytes of a detail that is shown.
const DETAIL_BYTES_MAX: usize = 200;

/// A connection on which nothing is in flight.
type Connection = SendRequest<Full<Bytes>>;

/// A listener, and the connections to it.
pub(super) struct Target {
    url: ServiceUrl,
    path: &'static str,
    token: Option<HeaderValue>,
    tls: Option<Arc<ClientConfig>>,
    /// At most one for each request that may be in flight; the one used last is used first.
    idle: Mutex<Vec<Connection>>,
}

// === impl Target ===

impl Target {
    /// Connects to nothing yet.
    pub(super) fn new(
        url: ServiceUrl,
        path: &'static str,
        token: Option<HeaderValue>,
        tls: Option<Arc<ClientConfig>>,
    ) -> Target {
        Target {
            url,
            path,
            token,
            tls,
            idle: Mutex::default(),
        }
    }

    pub(super) const fn url(&self) -> &ServiceUrl {
        &self.url
    }

    /// Opens the first connection, so that an address where nothing listens is an error at once.
    pub(super) async fn connect_first(&self) -> Result<(), Unanswered> {
        let connection = self.connect().await?;
        self.idle().push(connection);
        Ok(())
    }

    /// Sends a request; its decision.
    ///
    /// It is sent once. Only if the service had closed the connection before anything was sent on
    /// it, another connection is opened, once.
    pub(super) async fn ask(&self, body: Vec<u8>) -> Result<Decision, Unanswered> {
        let asked = timeout(REQUEST_TIMEOUT, self.exchange(body.into()));
        asked.await.unwrap_or(Err(Unanswered::Timeout))
    }

    async fn exchange(&self, body: Bytes) -> Result<Decision, Unanswered> {
        let mut request = self.request(body);
        if let Some(mut connection) = self.take_idle() {
            match connection.try_send_request(request).await {
                Ok(response) => return self.read(response, connection).await,
                Err(mut error) => match error.take_message() {
                    None => return Err(Unanswered::Closed),
                    Some(unsent) => request = unsent,
                },
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send_request(request).await;
        self.read(response.map_err(|_| Unanswered::Closed)?, connection)
            .await
    }

    /// Reads a response; its connection is then idle.
    async fn read(
        &self,
        response: Response<Incoming>,
        connection: Connection,
    ) -> Result<Decision, Unanswered> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let body = body.map_err(|_| Unanswered::Closed)?.to_bytes();
        self.idle().push(connection);
        let decision = match head.status {
            StatusCode::OK if is_without_limit(&body) => Decision::WithoutLimit,
            StatusCode::OK => Decision::Allowed,
            StatusCode::TOO_MANY_REQUESTS => Decision::Denied,
            status => return Err(Unanswered::Status(status, detail(&body))),
        };
        let media_type = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_json = media_type.is_some_and(|found| {
            found.starts_with(b"application/json") || found.starts_with(b"application/problem+json")
        });
        match is_json {
            true => Ok(decision),
            false => Err(Unanswered::NoDecision),
        }
    }

    fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(self.path);
        let headers = request.headers_mut();
        headers.insert(HOST, self.url.authority());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        request
    }

    /// Opens a connection.
    async fn connect(&self) -> Result<Connection, Unanswered> {
        let connected = async {
            let stream = TcpStream::connect(self.url.address()).await;
            let stream = stream.map_err(|error| Unanswered::connect(&error))?;
            // A failure costs some milliseconds of latency, and the connection works.
            let _ = stream.set_nodelay(true);
            match &self.tls {
                None => handshake(TokioIo::new(stream)).await,
                Some(config) => {
                    let connector = TlsConnector::from(Arc::clone(config));
                    let stream = connector.connect(self.url.server_name(), stream).await;
                    let stream = stream.map_err(|error| Unanswered::Tls(error.to_string()))?;
                    handshake(TokioIo::new(stream)).await
                }
            }
        };
        let connected = timeout(CONNECT_TIMEOUT, connected);
        connected.await.unwrap_or(Err(Unanswered::ConnectTimeout))
    }

    /// An idle connection that the service has not closed.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle();
        loop {
            let connection = idle.pop()?;
            if !connection.is_closed() {
                return Some(connection);
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn handshake(
    stream: impl Read + Write + Send + Unpin + 'static,
) -> Result<Connection, Unanswered> {
    let shaken = http1::handshake(stream).await;
    let (sender, connection) = shaken.map_err(|_| Unanswered::Closed)?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Whether the answer of `/v1/check` says that no rule with a limit matched. A value cannot look
/// so, because quotes in it are escaped.
fn is_without_limit(body: &[u8]) -> bool {
    let member = b"\"matched\":false";
    body.windows(member.len()).any(|found| found == member)
}

/// What a problem document says, shortened.
fn detail(body: &[u8]) -> Option<Printable> {
    let problem: serde_json::Value = serde_json::from_slice(body).ok()?;
    let detail = problem["detail"].as_str()?;
    let end = (0..=DETAIL_BYTES_MAX.min(detail.len()))
        .rev()
        .find(|end| detail.is_char_boundary(*end))?;
    Some(Printable::from(&detail[..end]))
}

#[cfg(test)]
mod tests;
