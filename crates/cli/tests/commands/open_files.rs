//! `tollgate serve` with few open files.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::house::{RULES, SETTINGS, Service, ask, directory, exchange};

/// Enough for the service itself, and fewer than its listeners' connections.
const OPEN_FILES: usize = 64;
/// Enough for the service itself, and fewer than any listener's connections.
const FEW_OPEN_FILES: usize = 32;
const CANNOT_ACCEPT: &str = "cannot accept a connection";
const CLOSED_FOR_FILE: &str = "the open-file limit is reached: an idle connection was closed to \
    accept a new one; raise the limit (`ulimit -n`) or lower `limits.connections`";
/// How long a test may wait for a response.
const BOUND: Duration = Duration::from_secs(60);
/// Ten times as long as a listener pauses after it could not accept a connection.
const PAUSES: Duration = Duration::from_millis(500);

/// A connection that stays open between requests.
struct Client(BufReader<TcpStream>);

// === impl Client ===

impl Client {
    fn open(address: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        Client(BufReader::new(stream))
    }

    fn send(&mut self, path: &str) {
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.0.get_mut().write_all(head.as_bytes()).unwrap();
    }

    /// The status of the next response.
    fn status(&mut self) -> String {
        let (mut status, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "closed");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].to_owned();
            } else if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.parse().unwrap();
            } else if line.is_empty() {
                break;
            }
        }
        self.0.read_exact(&mut vec![0; length]).unwrap();
        status
    }

    fn get(&mut self, path: &str) -> String {
        self.send(path);
        self.status()
    }
}

/// Opens connections that have had an answer, until no file is free.
fn fill(service: &Service, listener: &str, limit: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    while !is_full(service, limit) {
        let mut client = Client::open(listener);
        assert_eq!(client.get("/healthz"), "200");
        clients.push(client);
    }
    clients
}

/// How many idle connections of a listener were closed for their files.
fn count_closed(admin: &str, listener: &str) -> usize {
    let metrics = exchange(admin, "GET /metrics", "");
    let of_listener = format!(r#"listener="{listener}",reason="open_files""#);
    let line = metrics.lines().find(|line| line.contains(&of_listener));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

fn ground() -> TempDir {
    let settings = format!("{SETTINGS}limits: {{header_timeout: 1h, write_timeout: 1h}}\n");
    directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)])
}

/// A service that may have `hard` files open, and `soft` if it does not raise that limit.
fn start(directory: &Path, soft: usize, hard: usize) -> Service {
    let limits = format!("ulimit -S -n {soft} && ulimit -H -n {hard}");
    Service::start_under(&limits, directory)
}

fn proc(service: &Service, name: &str) -> String {
    format!("/proc/{}/{name}", service.process.id())
}

/// Whether no other file can be opened. The service has some files open for a moment only, so that
/// one look is not enough.
fn is_full(service: &Service, limit: usize) -> bool {
    (0..3).all(|_| open_files(service) == limit)
}

fn open_files(service: &Service) -> usize {
    fs::read_dir(proc(service, "fd")).unwrap().count()
}

#[test]
fn the_limit_of_open_files_is_raised() {
    let directory = ground();
    for hard in [OPEN_FILES, 1_000] {
        let mut service = start(directory.path(), OPEN_FILES / 2, hard);
        let fewer = service.logged(|line| line["configured"].is_number());
        assert_eq!(fewer["open_files"], hard);
        assert_eq!(fewer["level"], "WARN");
        service.address("admin");
        let limits = fs::read_to_string(proc(&service, "limits")).unwrap();
        let line = limits.lines().find(|line| line.contains("open files"));
        let mut words = line.unwrap().split_whitespace().skip(3);
        let [soft, limit] = [words.next(), words.next()].map(|word| word.unwrap().parse());
        assert_eq!([soft, limit], [Ok(hard), Ok(hard)]);
    }
}

/// One for each connection of a client, but no more than to the upstreams at most.
#[test]
fn a_gateway_keeps_files_for_its_connections_to_upstreams() {
    // Beside connections: what the service itself may open, administrators, reserved ones.
    let left = 1_000 - (256 + 64 + 2 * 16);
    for (requests, used) in [(10, left - 10), (1_024, left / 2)] {
        let settings = format!(
            "rules: [rules.yaml]
log: {{format: json}}
listen: {{gateway: '127.0.0.1:0', grpc: null, http: null, admin: '127.0.0.1:0'}}
gateway:
  domain: d
  upstreams: {{api: {{addresses: ['127.0.0.1:1'], requests: {requests}}}}}
  identity: {{descriptors: [{{entries: [{{key: user, from: client_address}}]}}]}}
"
        );
        let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
        let mut service = start(directory.path(), OPEN_FILES, 1_000);
        let fewer = service.logged(|line| line["configured"].is_number());
        assert_eq!(fewer["used"], used, "{requests} requests");
    }
}

/// Connections that are not idle take all open files: they are served, one line says that no other
/// is accepted, and a new one is accepted when one of them ends.
#[test]
fn connections_that_take_all_open_files_are_served_and_make_room_when_they_end() {
    let directory = ground();
    let mut service = start(directory.path(), OPEN_FILES, OPEN_FILES);
    let http = service.address("http");
    let admin = service.address("admin");
    let mut early = Client::open(&http);
    assert_eq!(early.get("/healthz"), "200");

    let mut clients = fill(&service, &admin, OPEN_FILES);
    let mut late = Client::open(&admin);
    late.send("/healthz");
    let rejected = service.logged(|line| line["message"] == CANNOT_ACCEPT);
    assert_eq!(rejected["listener"], "admin");
    let error = rejected["error"].as_str().unwrap();
    assert!(error.contains("Too many open files"), "{error}");

    let start = Instant::now();
    while start.elapsed() < PAUSES {
        assert_eq!(early.get("/healthz"), "200");
        for client in &mut clients {
            assert_eq!(client.get("/healthz"), "200");
        }
    }
    // A reload opens files as well: the rules in effect stay.
    service.signal("-HUP");
    let mut again = 0;
    let is_again = |line: &Value| line["message"] == CANNOT_ACCEPT && line["listener"] == "admin";
    let read = service.logged(|line| {
        again += usize::from(is_again(line));
        line["outcome"].is_string()
    });
    assert_eq!(
        (&read["outcome"], &read["level"]),
        (&"failed".into(), &"WARN".into())
    );
    assert!(
        read.to_string().contains("keep their previous rules"),
        "{read}"
    );

    drop(clients.pop());
    assert_eq!(late.status(), "200");
    assert_eq!(late.get("/healthz"), "200");
    assert_eq!(early.get("/healthz"), "200");
    drop(clients);
    assert!(ask(&http).starts_with("HTTP/1.1 200"));
    assert!(ask(&http).starts_with("HTTP/1.1 429"));
    service.signal("-TERM");
    service.logged(|line| {
        again += usize::from(is_again(line));
        line["message"] == "stopped"
    });
    assert_eq!(again, 0, "more than one line");
}

/// Nothing ends the idle connections but that a new one needs a file: they stay open for an hour.
#[test]
fn idle_connections_that_take_all_open_files_make_room() {
    // Health checks arrive at the listener with the idle connections, and at one that has none.
    for filled in ["admin", "http"] {
        let directory = ground();
        let mut service = start(directory.path(), FEW_OPEN_FILES, FEW_OPEN_FILES);
        let [http, admin] = ["http", "admin"].map(|name| service.address(name));
        let address = if filled == "http" { &http } else { &admin };
        let _idle = fill(&service, address, FEW_OPEN_FILES);
        for _check in 0..3 {
            assert_eq!(Client::open(&admin).get("/healthz"), "200");
        }
        // Those that are not idle are served.
        let mut clients = [(); 2].map(|()| Client::open(&admin));
        for _request in 0..2 {
            for client in &mut clients {
                assert_eq!(client.get("/healthz"), "200");
            }
        }
        assert!(count_closed(&admin, filled) > 0, "{filled}");
        let line = service.logged(|line| line["message"] == CLOSED_FOR_FILE);
        let error = line["error"].as_str().unwrap();
        assert!(error.contains("Too many open files"), "{error}");
    }
}
