//! Sends exports to a collector: OTLP over HTTP/1.1, one request at a time.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tollgate_dial::{BoundedReads, ReadBound, TooMuchRead, dial};
use tollgate_listen::ClientTlsFiles;

use crate::endpoint::Endpoint;
use crate::message::ExportResponse;
use crate::settings::{InvalidTelemetry, Settings};

/// The most bytes of a response that are read. A longer one is judged by its status alone.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// The most bytes of a response's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The most bytes that a collector may send to one export: those of a response, and interim
/// responses before it, which the HTTP library skips without an end.
const ANSWER_BYTES_MAX: usize = 128 * 1024;
/// The body of a response can be longer than is read of it, and its status still counts.
const _: () = assert!(HEAD_BYTES_MAX + RESPONSE_BYTES_MAX < ANSWER_BYTES_MAX);
/// The longest time that a collector may ask to wait.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// The longest text of a collector that is logged.
const TEXT_BYTES_MAX: usize = 200;

/// Sends requests to one URL.
pub(crate) struct Client {
    endpoint: Endpoint,
    headers: HeaderMap,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    encoding: Encoding,
    timeout: Duration,
    /// A connection that may take another request.
    connection: Option<Connection>,
}

/// A connection to the collector.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    bound: ReadBound,
}

/// How exports are encoded, on any thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoding {
    is_gzip: bool,
}

/// What a collector has rejected of an export that it took.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) rejected: u64,
    pub(crate) reason: String,
}

/// Why an export failed.
#[derive(Debug)]
pub(crate) struct ExportError {
    pub(crate) problem: String,
    /// Whether the same export may succeed later.
    pub(crate) can_retry: bool,
    /// How long the collector asks to wait before that.
    pub(crate) retry_after: Option<Duration>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

// === impl Encoding ===

impl Encoding {
    /// Encodes an export.
    pub(crate) fn encode(self, message: &impl Message) -> Bytes {
        let plain = message.encode_to_vec();
        if !self.is_gzip {
            return plain.into();
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let written = encoder.write_all(&plain).and_then(|()| encoder.finish());
        written.expect("a Vec takes everything").into()
    }
}

// === impl Client ===

impl Client {
    /// # Errors
    ///
    /// If the certificates of the authorities cannot be used.
    pub(crate) fn new(endpoint: Endpoint, settings: &Settings) -> Result<Client, InvalidTelemetry> {
        let tls = match endpoint.is_https() {
            true => Some(connector(&endpoint, settings)?),
            false => None,
        };
        let mut headers = settings.headers.clone();
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        if let Ok(host) = HeaderValue::from_str(endpoint.authority()) {
            headers.insert(HOST, host);
        }
        let agent = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
        let agent = HeaderValue::from_static(agent);
        headers.entry(USER_AGENT).or_insert(agent);
        if settings.gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Ok(Client {
            endpoint,
            headers,
            tls,
            encoding: Encoding {
                is_gzip: settings.gzip,
            },
            timeout: settings.timeout,
            connection: None,
        })
    }

    pub(crate) const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) const fn export_format(&self) -> Encoding {
        self.encoding
    }

    /// Sends an export once, within the timeout.
    ///
    /// # Errors
    ///
    /// [`ExportError`], whatever went wrong.
    pub(crate) async fn send(&mut self, body: Bytes) -> Result<Taken, ExportError> {
        // Taken out of `self` meanwhile, so that a connection of which the state is unknown is not
        // used again.
        let connection = self.connection.take();
        let deadline = Instant::now() + self.timeout;
        let exchange = self.exchange(connection, body);
        let Ok(exchanged) = timeout_at(deadline, exchange).await else {
            let within = self.timeout;
            let problem = format!("the collector did not answer within {within:?}");
            return Err(ExportError::later(problem));
        };
        let (response, connection) = exchanged?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect();
        let body = match timeout_at(deadline, body).await {
            Ok(Ok(body)) => {
                self.connection = Some(connection);
                body.to_bytes()
            }
            // The status alone says what has become of the export. To send it again because of the
            // rest would store it twice.
            _ => Bytes::new(),
        };
        judge(&Response::from_parts(head, body))
    }

    /// Sends a request and reads the head of its response, by `connection` if that is still open.
    async fn exchange(
        &self,
        connection: Option<Connection>,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Connection), ExportError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.target();
        *request.headers_mut() = self.headers.clone();
        let connection = match connection {
            Some(mut open) => open.sender.ready().await.is_ok().then_some(open),
            None => None,
        };
        let mut connection = match connection {
            Some(open) => open,
            None => self.connect().await.map_err(|error| {
                ExportError::later(format!("the collector cannot be reached: {error}"))
            })?,
        };
        connection.bound.set(ANSWER_BYTES_MAX);
        let response = connection.sender.send_request(request).await;
        let response = response.map_err(|error| {
            ExportError::later(match TooMuchRead::is_reason_of(&error) {
                true => format!("the collector sent {ANSWER_BYTES_MAX} bytes and no response"),
                false => format!("the connection to the collector broke: {error}"),
            })
        })?;
        Ok((response, connection))
    }

    async fn connect(&self) -> io::Result<Connection> {
        let stream = dial(&self.endpoint.address()).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
        };
        let (stream, bound) = BoundedReads::new(stream);
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX);
        let shaken = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(io::Error::other)?;
        // Ends when the sender is dropped.
        tokio::spawn(connection);
        Ok(Connection { sender, bound })
    }
}

fn connector(
    endpoint: &Endpoint,
    settings: &Settings,
) -> Result<(TlsConnector, ServerName<'static>), InvalidTelemetry> {
    let name = ServerName::try_from(endpoint.host().to_owned()).map_err(|_| {
        let problem = "its host is not a name that a certificate can have";
        InvalidTelemetry::new("telemetry.endpoint", problem, "write the name of a server")
    })?;
    let files = ClientTlsFiles {
        ca: settings.ca.clone(),
        identity: None,
    };
    let config: ClientConfig = files.read().map_err(|invalid| {
        let first = invalid.into_iter().next().expect("an error has a reason");
        let problem = format!("{}: {}", first.path.display(), first.problem);
        InvalidTelemetry::new("telemetry.ca", problem, first.problem.help())
    })?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// What a response means: which errors are final is OTLP's.
fn judge(response: &Response<Bytes>) -> Result<Taken, ExportError> {
    let status = response.status();
    let body = response.body();
    if status.is_success() {
        // A body that is none of OTLP's says nothing.
        let said = ExportResponse::decode(&**body).unwrap_or_default();
        let partial = said.partial_success.unwrap_or_default();
        return Ok(Taken {
            rejected: u64::try_from(partial.rejected).unwrap_or(0),
            reason: cut(partial.error_message.as_bytes()),
        });
    }
    let can_retry = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    let after = response.headers().get(RETRY_AFTER);
    let after = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
    let after = after.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    Err(ExportError {
        problem: format!("the collector answered {status}: {}", cut(body)),
        can_retry,
        retry_after: after,
    })
}

/// The beginning of a text that may be anything.
fn cut(text: &[u8]) -> String {
    let text = &text[..text.len().min(TEXT_BYTES_MAX)];
    let text = String::from_utf8_lossy(text);
    text.chars().filter(|char| !char.is_control()).collect()
}

// === impl ExportError ===

impl ExportError {
    fn later(problem: String) -> ExportError {
        ExportError {
            problem,
            can_retry: true,
            retry_after: None,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Client");
        shown
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
