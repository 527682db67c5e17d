//! A service as a process, and a client of its listener.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::time::Duration;

use tollgate_testbed::{Folder, Process};

/// How long a test may wait for anything.
pub(crate) const BOUND: Duration = Duration::from_secs(90);
const STARTS_TRIED: usize = 5;

/// A service that can be restarted on the same port.
pub(crate) struct Service {
    pub(crate) port: u16,
    settings: String,
    process: Option<Process>,
}

/// Writes rules that give every user so many units, in a window longer than any test.
pub(crate) fn write_rules(folder: &Folder, limit: usize) {
    let rules = format!("domain: d\ndescriptors:\n- {{key: user, rate_limit: {limit}/year}}\n");
    fs::write(folder.file("rules.yaml"), rules).unwrap();
}

// === impl Service ===

impl Service {
    /// Starts a service with the rules in `folder`; `servers` is the setting `store.redis`.
    pub(crate) fn start(folder: &Folder, name: &str, mode: &str, servers: &str) -> Service {
        for _ in 0..STARTS_TRIED {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(listener);
            let settings = folder.file(&format!("{name}.yaml"));
            let text = format!(
                "rules: rules.yaml\n\
                 listen: {{grpc: null, http: '127.0.0.1:{port}', admin: null}}\n\
                 store:\n  \
                   mode: {mode}\n  \
                   on_store_error: deny\n  \
                   redis: {{{servers}, timeout: 10s}}\n"
            );
            fs::write(&settings, text).unwrap();
            let process = None;
            let service = Service {
                port,
                settings,
                process,
            };
            let service = service.again();
            if service.process.is_some() {
                return service;
            }
        }
        panic!("no service started on {STARTS_TRIED} ports");
    }

    /// Kills it (SIGKILL).
    pub(crate) fn killed(self) -> Service {
        let process = None;
        Service { process, ..self }
    }

    pub(crate) fn again(self) -> Service {
        let words = [
            "-c",
            r#"exec "$@" 2>&1"#,
            "sh",
            env!("CARGO_BIN_EXE_tollgate"),
            "serve",
        ];
        let words = words.into_iter().chain([self.settings.as_str()]);
        let words: Vec<String> = words.map(str::to_owned).collect();
        let process = Process::start("sh", &words, "listening");
        Service { process, ..self }
    }

    /// Runs `tollgate keys` with the settings of this service, for so many users.
    pub(crate) fn keys(&self, action: &str, users: usize) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(["keys", action, "--json", "--config", &self.settings, "d"]);
        command.args((0..users).map(|user| format!("user=u{user}")));
        command.output().unwrap()
    }
}

/// A connection that stays open between requests.
pub(crate) struct Connection(BufReader<TcpStream>);

// === impl Connection ===

impl Connection {
    pub(crate) fn open(port: u16) -> io::Result<Connection> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(BOUND))?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// The status of one request for all of these users.
    pub(crate) fn check(&mut self, users: &[usize]) -> io::Result<u16> {
        let descriptors = users.iter().map(|user| {
            let entry = format!(r#"{{"key": "user", "value": "u{user}"}}"#);
            format!(r#"{{"entries": [{entry}]}}"#)
        });
        let descriptors: Vec<String> = descriptors.collect();
        let descriptors = descriptors.join(", ");
        let body = format!(r#"{{"domain": "d", "descriptors": [{descriptors}]}}"#);
        let length = body.len();
        let head = format!("POST /json HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n");
        self.0.get_mut().write_all((head + &body).as_bytes())?;
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(words) = line.strip_prefix("http/1.1 ") {
                status = words[..3].parse().unwrap();
            } else if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.parse().unwrap();
            } else if line.is_empty() {
                break;
            }
        }
        self.0.read_exact(&mut vec![0; length])?;
        Ok(status)
    }
}
