//! Envoy, a server behind it, and Tollgate beside it.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testbed::tool::ENVOY;
use tollgate_testbed::{Folder, Process, free_port};

use crate::configuration::{TOKENS, TOKENS_HEADER, configuration};

/// How often other ports are tried when another process has taken one.
const STARTS_TRIED: usize = 5;
/// How long anything may take that does not wait for a window.
const SOON: Duration = Duration::from_secs(20);
/// How often [`soon`] tries.
const TRIES: u32 = 2_000;

pub(crate) const RULES: &str = "
domain: edge
descriptors:
  - {key: user, rate_limit: {name: per-user, unit: year, requests_per_unit: 2}}
  - {key: tenant, rate_limit: 1/year}
  - {key: trial, shadow_mode: true, rate_limit: 1/year}
  - key: window
    rate_limit: {unit: year, requests_per_unit: 2, algorithm: sliding_window, segments: 5}
  - {key: log, rate_limit: {unit: year, requests_per_unit: 2, algorithm: sliding_log}}
  - {key: bucket, rate_limit: {unit: year, requests_per_unit: 2, algorithm: token_bucket, burst: 3}}
  - {key: queue, rate_limit: {unit: year, requests_per_unit: 2, algorithm: leaky_bucket, queue: 4}}
  - {key: bulk, rate_limit: 7/year}
  - {key: plan, rate_limit: 1/year}
  - {key: any, rate_limit: 3/year}
  - {key: large, rate_limit: 3/year}
  - {key: wide, descriptors: [{key: copy, rate_limit: 3/year}]}
  - {key: tokens, rate_limit: 1000/year}
  - key: pause
    rate_limit: {window: 2s, requests_per_unit: 2}
  - key: pause-window
    rate_limit: {window: 2s, requests_per_unit: 2, algorithm: sliding_window, segments: 5}
  - key: pause-log
    rate_limit: {window: 2s, requests_per_unit: 2, algorithm: sliding_log}
  - key: pause-bucket
    rate_limit: {window: 2s, requests_per_unit: 1, algorithm: token_bucket, burst: 2}
";

/// What the server behind Envoy answers.
pub(crate) const UPSTREAM: &str = "upstream\n";

/// Envoy in front of a server, asking Tollgate before each request.
pub(crate) struct Mesh {
    listener: u16,
    folder: Folder,
    _tollgate: Process,
    _envoy: Process,
}

impl Mesh {
    pub(crate) fn start() -> Mesh {
        let envoy = ENVOY.find(env!("CARGO_TARGET_TMPDIR"));
        let upstream = upstream();
        for _ in 0..STARTS_TRIED {
            if let Some(mesh) = Mesh::launch(&envoy, upstream) {
                mesh.wait_until_ready();
                return mesh;
            }
        }
        panic!("Envoy and tollgate did not start, {STARTS_TRIED} times; their logs are above");
    }

    /// `None` if another process has taken a port.
    fn launch(envoy: &Path, upstream: u16) -> Option<Mesh> {
        let (grpc, listener) = (free_port(), free_port());
        let folder = Folder::new();
        let (rules, settings) = (folder.file("rules.yaml"), folder.file("tollgate.yaml"));
        fs::write(&rules, RULES).unwrap();
        let listen = format!("{{grpc: '127.0.0.1:{grpc}', http: null, admin: null}}");
        fs::write(&settings, format!("rules: rules.yaml\nlisten: {listen}\n")).unwrap();
        let serve = [env!("CARGO_BIN_EXE_tollgate"), "serve", &settings];
        let tollgate = start(&serve, "listening")?;
        let config = folder.file("envoy.json");
        fs::write(&config, configuration(listener, grpc, upstream).to_string()).unwrap();
        let serve = [envoy.to_str().unwrap(), "--config-path", &config];
        let alone = ["--disable-hot-restart", "--concurrency", "1"];
        let envoy = start(
            &[&serve[..], &alone].concat(),
            "starting main dispatch loop",
        )?;
        Some(Mesh {
            listener,
            folder,
            _tollgate: tollgate,
            _envoy: envoy,
        })
    }

    /// Waits for the first allowed request that meets a rule: then Envoy, the server and Tollgate
    /// are ready. Until
    /// then Envoy denies it, because of `failure_mode_deny`.
    fn wait_until_ready(&self) {
        soon("an answer through Envoy", || {
            let reply = self.ask(&[("user", "first")]).ok()?;
            (reply.status == 200).then_some(())
        });
    }

    pub(crate) fn rules(&self, text: &str) {
        fs::write(self.folder.file("rules.yaml"), text).unwrap();
    }

    pub(crate) fn get(&self, headers: &[(&str, &str)]) -> Reply {
        self.ask(headers).unwrap()
    }

    pub(crate) fn statuses<V>(&self, header: &str, value: V, times: usize) -> Vec<u16>
    where
        V: AsRef<[u8]>,
    {
        let ask = |_| self.ask(&[(header, &value)]).unwrap().status;
        (0..times).map(ask).collect()
    }

    pub(crate) fn ask<V>(&self, headers: &[(&str, V)]) -> std::io::Result<Reply>
    where
        V: AsRef<[u8]>,
    {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.listener));
        let mut stream = TcpStream::connect_timeout(&address, SOON)?;
        stream.set_read_timeout(Some(SOON))?;
        let mut head = b"GET / HTTP/1.1\r\nhost: edge\r\nconnection: close\r\n".to_vec();
        for (name, value) in headers {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_ref());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        stream.write_all(&head)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Reply::parse(&text).ok_or_else(|| std::io::Error::other(format!("not HTTP: {text:?}")))
    }
}

/// The response, through Envoy.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Reply {
    fn parse(text: &str) -> Option<Reply> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(": "));
        Some(Reply {
            status,
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: body.to_owned(),
        })
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

/// A server that answers every request alike, for as long as this process lives.
fn upstream() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(&stream));
        }
    });
    port
}

fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    for line in BufReader::new(stream).split(b'\n') {
        if line? == b"\r" {
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
            let length = UPSTREAM.len();
            return write!(
                stream,
                "{head}{TOKENS_HEADER}: {TOKENS}\r\ncontent-length: {length}\r\n\r\n{UPSTREAM}"
            );
        }
    }
    Ok(())
}

/// Starts a program that logs to standard error and waits for `ready` in its log.
fn start(command: &[&str], ready: &str) -> Option<Process> {
    let arguments = ["-c", r#"exec "$@" 2>&1"#, "sh"].iter().chain(command);
    let arguments: Vec<String> = arguments.map(ToString::to_string).collect();
    Process::start("sh", &arguments, ready)
}

/// Asks until there is an answer.
pub(crate) fn soon<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    for _ in 0..TRIES {
        if let Some(answer) = ask() {
            return answer;
        }
        if began.elapsed() > SOON {
            break;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{what} did not come within {:?}", began.elapsed());
}
