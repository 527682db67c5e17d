//! A client of the admin listener of a running service.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::{AlertDescription, ClientConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tollgate_server::TokenSources;

pub(crate) use failure::{Failure, NotAnswered};

use crate::printable::Printable;
use crate::service_url::ServiceUrl;
use crate::tls_args::TlsArgs;

mod failure;

/// The variable that a token is read from if no other source is named.
const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";
/// How long a connection may take, with its TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the service may take until the head of its response.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the rest of a response may take that is not a stream.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of a response that is not a stream.
const BODY_BYTES_MAX: usize = 8 << 20;

/// How to get access to the admin listener: which authority signed its certificate, and our token
/// or certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Access to the admin listener")]
pub(crate) struct Access {
    /// A file with a bearer token: its first line that is neither empty nor a comment (`#`).
    #[arg(long, value_name = "PATH", conflicts_with = "token_env")]
    token_file: Option<PathBuf>,
    /// An environment variable with a bearer token. Without either option, TOLLGATE_ADMIN_TOKEN is
    /// read if it is set.
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Sends requests to one admin listener, each on a connection of its own.
#[derive(Clone)]
pub(crate) struct AdminClient {
    url: ServiceUrl,
    token: Option<HeaderValue>,
    tls: Option<Arc<ClientConfig>>,
}

// === impl Access ===

impl Access {
    /// The token to send, if there is one.
    fn token(&self) -> Result<Option<HeaderValue>, String> {
        let default = || std::env::var_os(TOKEN_VARIABLE).map(|_| TOKEN_VARIABLE.to_owned());
        let env = match self.token_file {
            Some(_) => None,
            None => self.token_env.clone().or_else(default),
        };
        let sources = TokenSources {
            file: self.token_file.clone(),
            env,
        };
        // Without its value: that may be the token itself.
        let option = match (&self.token_file, &self.token_env) {
            (Some(_), _) => "--token-file",
            (None, Some(_)) => "--token-env",
            (None, None) => TOKEN_VARIABLE,
        };
        let tokens = sources.read();
        let tokens = tokens.map_err(|invalid| format!("{option}: {invalid}"))?;
        Ok(tokens.first().map(|token| bearer(token)))
    }
}

// === impl AdminClient ===

impl AdminClient {
    /// Reads the token and the certificates. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub(crate) fn open(url: ServiceUrl, access: &Access) -> Result<AdminClient, String> {
        Ok(AdminClient {
            token: access.token()?,
            tls: access.tls.config(&url)?,
            url,
        })
    }

    /// The address of the listener.
    pub(crate) const fn url(&self) -> &ServiceUrl {
        &self.url
    }

    /// Sends a GET request; returns its response if the status is 200 and the media type is the one
    /// that was asked for.
    ///
    /// # Errors
    ///
    /// [`Failure`] in every other case. The body is not read here if there is none.
    pub(crate) async fn get(
        &self,
        path: &str,
        media_type: &'static str,
    ) -> Result<Response<Incoming>, Failure> {
        let request = self.request(path, media_type)?;
        let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(self.url.address()));
        let stream = match connected.await {
            Err(_) => return Err(self.fail(NotAnswered::ConnectTimeout)),
            Ok(Err(error)) => return Err(self.fail(NotAnswered::Connect(error))),
            Ok(Ok(stream)) => stream,
        };
        let response = match &self.tls {
            None => self.send(request, TokioIo::new(stream)).await?,
            Some(config) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let shaken = timeout(
                    CONNECT_TIMEOUT,
                    connector.connect(self.url.server_name(), stream),
                );
                match shaken.await {
                    Err(_) => return Err(self.fail(NotAnswered::ConnectTimeout)),
                    Ok(Err(error)) => return Err(self.fail(NotAnswered::Tls(error))),
                    Ok(Ok(stream)) => self.send(request, TokioIo::new(stream)).await?,
                }
            }
        };
        let found = response.headers().get(CONTENT_TYPE);
        let found = found.map_or(&b""[..], HeaderValue::as_bytes);
        if response.status() != StatusCode::OK {
            return Err(self.explain_status(response).await);
        }
        match found.starts_with(media_type.as_bytes()) {
            true => Ok(response),
            false => Err(self.fail(NotAnswered::NotTollgate)),
        }
    }

    /// Sends a GET request, and reads the whole response as text.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the status is not 200, or the body is not bounded text.
    pub(crate) async fn get_text(
        &self,
        path: &str,
        media_type: &'static str,
    ) -> Result<String, Failure> {
        let response = self.get(path, media_type).await?;
        let body = read_body(response).await.map_err(|why| self.fail(why))?;
        String::from_utf8(body.to_vec()).map_err(|_| self.fail(NotAnswered::NotTollgate))
    }

    /// A failure of this listener.
    pub(crate) fn fail(&self, why: NotAnswered) -> Failure {
        Failure::new(self.url.clone(), why)
    }

    fn request(
        &self,
        path: &str,
        media_type: &'static str,
    ) -> Result<Request<Empty<Bytes>>, Failure> {
        let mut request = Request::new(Empty::new());
        // Paths are made of valid characters, so only their length can be wrong.
        let uri = path.parse().map_err(|_| self.fail(NotAnswered::TooLong))?;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(HOST, self.url.authority());
        headers.insert(ACCEPT, HeaderValue::from_static(media_type));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        Ok(request)
    }

    /// Sends the request on a new connection, which ends with the response's body.
    async fn send(
        &self,
        request: Request<Empty<Bytes>>,
        stream: impl Read + Write + Send + Unpin + 'static,
    ) -> Result<Response<Incoming>, Failure> {
        let exchange = async {
            let (mut sender, connection) = http1::handshake(stream).await?;
            tokio::spawn(connection);
            sender.send_request(request).await
        };
        match timeout(HEAD_TIMEOUT, exchange).await {
            Err(_) => Err(self.fail(NotAnswered::HeadTimeout)),
            Ok(Err(error)) => Err(self.fail(self.explain_broken(error))),
            Ok(Ok(response)) => Ok(response),
        }
    }

    /// Why there is no response. The service demands a certificate only after the handshake.
    fn explain_broken(&self, error: hyper::Error) -> NotAnswered {
        let mut source = error.source();
        while let Some(cause) = source {
            let alert = cause
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            let alert = alert.and_then(|error| error.downcast_ref::<rustls::Error>());
            if let Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) = alert
            {
                return NotAnswered::NoCertificate;
            }
            source = cause.source();
        }
        match self.url.is_encrypted() {
            true => NotAnswered::HttpInTls(error),
            false => NotAnswered::Http(error),
        }
    }

    /// What a response with an error says.
    async fn explain_status(&self, response: Response<Incoming>) -> Failure {
        let status = response.status();
        let body = read_body(response).await.unwrap_or_default();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = problem["detail"].as_str().map(Printable::from);
        self.fail(match status {
            StatusCode::UNAUTHORIZED if self.token.is_some() => NotAnswered::WrongToken,
            StatusCode::UNAUTHORIZED => NotAnswered::NoToken,
            StatusCode::URI_TOO_LONG | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                NotAnswered::TooLong
            }
            _ => NotAnswered::Status(status, detail),
        })
    }
}

/// The value of the header `Authorization` for a token.
pub(crate) fn bearer(token: &str) -> HeaderValue {
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header.expect("a token has only characters of a header");
    header.set_sensitive(true);
    header
}

/// The body of a response, if it is not too large or too late.
async fn read_body(response: Response<Incoming>) -> Result<Bytes, NotAnswered> {
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect();
    match timeout(BODY_TIMEOUT, body).await {
        Err(_) => Err(NotAnswered::BodyTimeout),
        Ok(Err(error)) => Err(NotAnswered::Body(error)),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}
