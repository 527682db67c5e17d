//! One connection: opened, introduced, and ready for script calls.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::config::{Config, InvalidConfig, Secret, Tls};
use crate::resp::{self, Reply};
use crate::script::Scripts;
use crate::simulated::Transport;

/// Bytes that are read at once, at first.
const INPUT_BYTES: usize = 64 * 1024;

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Opener {
    username: Option<String>,
    password: Option<Secret>,
    tls: Option<Encryption>,
    scripts: Arc<Scripts>,
    /// In place of TCP, in a simulation.
    transport: Option<Arc<dyn Transport>>,
}

/// What encrypts, and the name in the server's certificate if it is not the host's.
type Encryption = (TlsConnector, Option<ServerName<'static>>);

/// A connection that knows the scripts.
pub(crate) struct Connection {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) input: BytesMut,
    /// The scripts' names on this server.
    pub(crate) plain: Vec<u8>,
    pub(crate) general: Vec<u8>,
}

/// Bytes in and out.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

// === impl Opener ===

impl Opener {
    pub(crate) fn new(
        config: &Config,
        scripts: Scripts,
        transport: Option<Arc<dyn Transport>>,
    ) -> Result<Opener, InvalidConfig> {
        Ok(Opener {
            username: config.username.clone(),
            password: config.password.clone(),
            tls: config.tls.as_ref().map(encryption).transpose()?,
            scripts: Arc::new(scripts),
            transport,
        })
    }

    /// Connects, signs in and loads the scripts.
    pub(crate) async fn open(&self, address: &str) -> io::Result<Connection> {
        let mut out = BytesMut::new();
        let signs_in = self.sign_in(&mut out);
        self.load(&mut out);
        let (stream, input, mut replies) = self.ask(address, out, signs_in + 2).await?;
        let mut name = || match replies.pop_back() {
            Some(Reply::Bulk(name)) => Ok(name.to_vec()),
            _ => Err(io::Error::other("SCRIPT LOAD tells no name")),
        };
        let (general, plain) = (name()?, name()?);
        Ok(Connection {
            stream,
            input,
            plain,
            general,
        })
    }

    /// Asks one question on a connection of its own: a sentinel, which needs no script.
    pub(crate) async fn ask_once(&self, address: &str, words: &[&[u8]]) -> io::Result<Reply> {
        let mut out = BytesMut::new();
        resp::command(&mut out, words.len());
        words.iter().for_each(|word| resp::word(&mut out, word));
        let (_, _, mut replies) = self.ask(address, out, 1).await?;
        replies
            .pop_back()
            .ok_or_else(|| io::Error::other("no reply"))
    }

    /// Writes both scripts to be loaded.
    pub(crate) fn load(&self, out: &mut BytesMut) {
        for script in [&self.scripts.plain, &self.scripts.general] {
            resp::command(out, 3);
            resp::word(out, b"SCRIPT");
            resp::word(out, b"LOAD");
            resp::word(out, script.as_bytes());
        }
    }

    /// Sends `out` on a new connection and reads `count` replies, none of them an error.
    async fn ask(
        &self,
        address: &str,
        out: BytesMut,
        count: usize,
    ) -> io::Result<(Box<dyn Stream>, BytesMut, VecDeque<Reply>)> {
        let mut stream = self.connect(address).await?;
        stream.write_all(&out).await?;
        stream.flush().await?;
        let mut input = BytesMut::with_capacity(INPUT_BYTES);
        let mut replies = VecDeque::with_capacity(count);
        while replies.len() < count {
            match resp::take(&mut input).map_err(io::Error::other)? {
                Some(Reply::Error(text)) => {
                    return Err(io::Error::other(
                        String::from_utf8_lossy(&text).into_owned(),
                    ));
                }
                Some(reply) => replies.push_back(reply),
                None if stream.read_buf(&mut input).await? == 0 => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                None => {}
            }
        }
        Ok((stream, input, replies))
    }

    /// Writes the words that sign in, if any are needed; says how many replies they get.
    fn sign_in(&self, out: &mut BytesMut) -> usize {
        let Some(password) = &self.password else {
            return 0;
        };
        resp::command(out, if self.username.is_some() { 3 } else { 2 });
        resp::word(out, b"AUTH");
        if let Some(username) = &self.username {
            resp::word(out, username.as_bytes());
        }
        resp::word(out, password.expose().as_bytes());
        1
    }

    async fn connect(&self, address: &str) -> io::Result<Box<dyn Stream>> {
        if let Some(transport) = &self.transport {
            return transport.connect(address).await;
        }
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let Some((connector, name)) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = match name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

// === impl Tls ===

impl Tls {
    /// Whether a store could encrypt so: reads the certificates and the name, and asks nobody.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig::Authorities`] and [`InvalidConfig::ServerName`].
    pub fn check(&self) -> Result<(), InvalidConfig> {
        encryption(self).map(drop)
    }
}

fn encryption(tls: &Tls) -> Result<Encryption, InvalidConfig> {
    let name = tls.server_name.as_ref().map(|name| {
        ServerName::try_from(name.clone()).map_err(|_| InvalidConfig::ServerName(name.clone()))
    });
    let client = client(tls.authorities.as_deref())?;
    Ok((TlsConnector::from(Arc::new(client)), name.transpose()?))
}

fn client(authorities: Option<&std::path::Path>) -> Result<ClientConfig, InvalidConfig> {
    let mut roots = RootCertStore::empty();
    match authorities {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let failed =
                |source: Box<dyn std::error::Error + Send + Sync>| InvalidConfig::Authorities {
                    path: path.to_owned(),
                    source,
                };
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| failed(error.into()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| failed(error.into()))?;
                roots
                    .add(certificate)
                    .map_err(|error| failed(error.into()))?;
            }
            if roots.is_empty() {
                return Err(failed("there is none in it".into()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has both versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(client)
}
