//! One connection: opened, authenticated, and with the scripts loaded.

mod hello;

mod key_check;

mod tls;

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use crate::config::{Config, InvalidConfig, Secret, UNIX};
use crate::environment::{Environment, Stream, Transport};
use crate::failure::{ErrorReply, error_code};
use crate::resp::{self, Reply, printable};
use crate::script::{ClockOf, scripts};
use crate::script_request::PerScript;
use tls::{Encryption, encryption};

pub(crate) use hello::{Hello, Kind, Role, write as write_hello};

/// The initial size of the read buffer.
const INPUT_BYTES: usize = 64 * 1024;

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Opener {
    username: Option<String>,
    password: Option<Secret>,
    tls: Option<Encryption>,
    scripts: Arc<PerScript<String>>,
    /// Replaces TCP in a simulation.
    transport: Option<Arc<dyn Transport>>,
}

/// A connection to a server that has the scripts loaded.
pub(crate) struct Connection {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) input: BytesMut,
    /// The names (SHA-1) of the scripts on this server.
    pub(crate) scripts: PerScript<Vec<u8>>,
    pub(crate) hello: Hello,
    /// Whether it rejects keys that it does not serve, also undeclared ones.
    pub(crate) checks_keys: bool,
}

/// An authenticated connection.
pub(crate) struct Link {
    stream: Box<dyn Stream>,
    input: BytesMut,
    pub(crate) hello: Hello,
}

// === impl Opener ===

impl Opener {
    /// Opens connections to the servers that decide.
    pub(crate) fn new(config: &Config, environment: &Environment) -> Result<Opener, InvalidConfig> {
        let clock = match &environment.redis_time {
            Some(_) => ClockOf::Caller,
            None => ClockOf::Redis,
        };
        Ok(Opener {
            username: config.username.clone(),
            password: config.password.clone(),
            tls: config.tls.as_ref().map(encryption).transpose()?,
            scripts: Arc::new(scripts(clock)),
            transport: environment.transport.clone(),
        })
    }

    /// Opens connections to sentinels, which have their own credentials, or none.
    pub(crate) fn for_sentinels(self, config: &Config) -> Opener {
        Opener {
            username: config.sentinel_username.clone(),
            password: config.sentinel_password.clone(),
            ..self
        }
    }

    /// Connects, authenticates and loads the scripts. A node of a Cluster is also asked whether it
    /// checks keys: of this `prefix`, if there is one.
    pub(crate) async fn open(
        &self,
        address: &str,
        prefix: Option<&str>,
        deadline: Instant,
    ) -> io::Result<Connection> {
        let mut link = self.link(address, deadline).await?;
        let mut out = BytesMut::new();
        self.load(&mut out);
        if let Some(prefix) = prefix {
            key_check::write(&mut out, prefix);
        }
        let load = async {
            link.send(&out).await?;
            let mut names = PerScript::default();
            for name in &mut names {
                *name = link.script_name().await?;
            }
            let checks_keys = match prefix {
                Some(_) => key_check::read(&link.next().await?),
                None => false,
            };
            Ok((names, checks_keys))
        };
        let loaded = timeout_at(deadline, load).await;
        let (scripts, checks_keys) =
            loaded.unwrap_or_else(|_| timeout_error("SCRIPT LOAD was not answered"))?;
        Ok(Connection {
            stream: link.stream,
            input: link.input,
            scripts,
            hello: link.hello,
            checks_keys,
        })
    }

    /// Connects and authenticates.
    pub(crate) async fn link(&self, address: &str, deadline: Instant) -> io::Result<Link> {
        let stream = self.connect(address, deadline).await?;
        let mut link = Link {
            stream,
            input: BytesMut::with_capacity(INPUT_BYTES),
            hello: Hello::default(),
        };
        let authenticated = timeout_at(deadline, self.authenticate(&mut link)).await;
        let authenticated =
            authenticated.unwrap_or_else(|_| timeout_error("AUTH or HELLO was not answered"));
        authenticated.map_err(|error| explain_end(error, self.tls.is_some()))?;
        Ok(link)
    }

    /// Authenticates, and reads the server's role.
    async fn authenticate(&self, link: &mut Link) -> io::Result<()> {
        let mut out = BytesMut::new();
        self.write_auth(&mut out);
        hello::write(&mut out);
        let sent = link.send(&out).await;
        let read = self.read_identity(link).await;
        match (sent, read) {
            // A server that accepts no more clients says so, and closes the connection, perhaps
            // before this was sent.
            (Err(_), Err(why)) if why.kind() == io::ErrorKind::Other => Err(why),
            (sent, read) => sent.and(read),
        }
    }

    async fn read_identity(&self, link: &mut Link) -> io::Result<()> {
        if self.password.is_some() {
            let reply = link.next().await?;
            hello::check_auth(&reply).map_err(|why| rejection(&reply, why))?;
        }
        let reply = link.next().await?;
        link.hello = Hello::read(&reply).map_err(|why| rejection(&reply, why))?;
        Ok(())
    }

    /// Writes `SCRIPT LOAD` for all scripts, in their order.
    pub(crate) fn load(&self, out: &mut BytesMut) {
        for script in &*self.scripts {
            resp::command(out, 3);
            resp::word(out, b"SCRIPT");
            resp::word(out, b"LOAD");
            resp::word(out, script.as_bytes());
        }
    }

    /// Writes `AUTH`, if there is a password.
    fn write_auth(&self, out: &mut BytesMut) {
        let Some(password) = &self.password else {
            return;
        };
        resp::command(out, if self.username.is_some() { 3 } else { 2 });
        resp::word(out, b"AUTH");
        if let Some(username) = &self.username {
            resp::word(out, username.as_bytes());
        }
        resp::word(out, password.expose().as_bytes());
    }

    /// Opens a stream to `address`, with TLS if it is configured, all by `deadline`.
    async fn connect(&self, address: &str, deadline: Instant) -> io::Result<Box<dyn Stream>> {
        let opening = async {
            match &self.transport {
                Some(transport) => transport.connect(address).await,
                None => dial(address).await,
            }
        };
        let stream = timeout_at(deadline, opening).await;
        let stream = stream.unwrap_or_else(|_| timeout_error("no connection was established"))?;
        let Some((connector, name)) = &self.tls else {
            return Ok(stream);
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = match name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        match timeout_at(deadline, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(io::Error::other(explain_tls(&error))),
            Err(_) => timeout_error(
                "the TLS handshake (does the server speak TLS on this port?) was not completed",
            ),
        }
    }
}

/// Opens a TCP connection or a Unix socket.
async fn dial(address: &str) -> io::Result<Box<dyn Stream>> {
    if let Some(path) = address.strip_prefix(UNIX) {
        return dial_path(path).await;
    }
    let stream = tollgate_dial::dial(address).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

#[cfg(unix)]
async fn dial_path(path: &str) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(tokio::net::UnixStream::connect(path).await?))
}

#[cfg(not(unix))]
async fn dial_path(_path: &str) -> io::Result<Box<dyn Stream>> {
    Err(io::Error::other("this system has no Unix sockets"))
}

fn timeout_error<T>(what: &str) -> io::Result<T> {
    let text = format!("{what} in time");
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// Why a connection ended during authentication, with the most likely reason.
fn explain_end(error: io::Error, is_encrypted: bool) -> io::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let kind = error.kind();
    let ended = [
        BrokenPipe,
        ConnectionAborted,
        ConnectionReset,
        UnexpectedEof,
    ];
    if !ended.contains(&kind) {
        return error;
    }
    let likely = match is_encrypted {
        true => "does it require a client's certificate?",
        false => "does it require TLS (`rediss://`)?",
    };
    io::Error::new(
        kind,
        format!("the server closed the connection at once; {likely}"),
    )
}

/// Why a TLS handshake failed, with the most likely reason.
fn explain_tls(error: &io::Error) -> String {
    let source = error.get_ref().and_then(|source| source.downcast_ref());
    match source {
        Some(rustls::Error::InvalidMessage(_)) => {
            format!("the server does not speak TLS on this port ({error})")
        }
        _ => format!("TLS failed: {error}"),
    }
}

// === impl Link ===

impl Link {
    pub(crate) async fn send(&mut self, out: &[u8]) -> io::Result<()> {
        self.stream.write_all(out).await?;
        self.stream.flush().await
    }

    /// The next reply. Cancelling the future loses nothing.
    pub(crate) async fn next(&mut self) -> io::Result<Reply> {
        loop {
            match resp::take(&mut self.input) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(malformed) => {
                    let why = other_protocol(&self.input);
                    let why = why.map_or_else(|| malformed.to_string(), str::to_owned);
                    return Err(io::Error::other(why));
                }
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn script_name(&mut self) -> io::Result<Vec<u8>> {
        let reply = self.next().await?;
        match &reply {
            Reply::Bulk(name) => Ok(name.to_vec()),
            Reply::Error(text) => Err(rejection(&reply, printable(text))),
            _ => Err(io::Error::other("the reply to SCRIPT LOAD is not a name")),
        }
    }
}

/// The error of a connection that the server rejects, with these words: an [`ErrorReply`], which is
/// counted, if the reply is one.
fn rejection(reply: &Reply, why: String) -> io::Error {
    match reply {
        Reply::Error(text) => io::Error::other(ErrorReply {
            code: error_code(&String::from_utf8_lossy(text)),
            text: why.into(),
        }),
        _ => io::Error::other(why),
    }
}

/// What the server is, if its reply is of a well-known protocol that is not Redis's.
fn other_protocol(input: &[u8]) -> Option<&'static str> {
    // The first two bytes of a TLS alert.
    const TLS_ALERT: [u8; 2] = [21, 3];
    if input.starts_with(b"HTTP/") {
        Some("an HTTP server answers, not Redis")
    } else if input.starts_with(&TLS_ALERT) {
        Some("the server requires TLS: use rediss://, or `tls`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
