//! Two real `tollgate serve` over one Redis, of which one is killed under load.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_testbed::{Folder, Process, Redis};

/// Units of each user, for longer than any test.
const LIMIT: usize = 2_500;
const USERS: usize = 4;
/// Connections to each service.
const CLIENTS: usize = 4;
/// How much is admitted when a service is killed, and how much more when it is started again.
const WORKS: usize = USERS * LIMIT / 8;
const AWAY: usize = USERS * LIMIT / 16;
/// How long a client asks without being admitted: longer than a node remembers a refusal where
/// units may come back.
const QUIET: Duration = Duration::from_secs(3);
/// How long all of it may take.
const BOUND: Duration = Duration::from_secs(90);
const STARTS_TRIED: usize = 5;

#[test]
fn a_killed_service_over_admits_nothing() {
    let [charged, in_flight] = [USERS * LIMIT - kill_one("strict"), CLIENTS];
    // Each of its clients waited for at most one answer.
    assert!(charged <= in_flight, "{charged} charged without an answer");
}

#[test]
fn a_killed_service_takes_along_what_it_has_leased_and_no_more() {
    let charged = USERS * LIMIT - kill_one("leased");
    // A lease is at most a quarter of what is free.
    assert!(
        charged <= USERS * LIMIT / 4 + CLIENTS,
        "{charged} taken along"
    );
}

/// Kills one of two services under load, starts it again, and goes on until nothing is left; says
/// how much was admitted.
fn kill_one(mode: &str) -> usize {
    let (redis, folder) = (Redis::start(), Folder::new());
    let [first, second] =
        ["first", "second"].map(|name| Service::start(&folder, name, &redis, mode));
    let admitted: Arc<[AtomicUsize; USERS]> = Arc::default();
    let clients = |port| -> Vec<JoinHandle<usize>> {
        let client = |number| {
            let admitted = Arc::clone(&admitted);
            thread::spawn(move || ask(port, number, &admitted))
        };
        (0..CLIENTS).map(client).collect()
    };
    let (of_first, of_second) = (clients(first.port), clients(second.port));
    let sum = || {
        admitted
            .iter()
            .map(|user| user.load(Ordering::Relaxed))
            .sum::<usize>()
    };
    let reaches = |goal| {
        let start = Instant::now();
        while sum() < goal {
            assert!(start.elapsed() < BOUND, "less than {goal} after {BOUND:?}");
            thread::yield_now();
        }
        sum()
    };
    let before = reaches(WORKS);
    let first = first.killed();
    reaches(before + AWAY);
    let _first = first.again();
    let broken = |clients: Vec<JoinHandle<usize>>| -> usize {
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum()
    };
    // The other one never hung up on anybody.
    assert_eq!(broken(of_second), 0);
    assert!(broken(of_first) >= CLIENTS);
    let most = admitted
        .iter()
        .map(|user| user.load(Ordering::Relaxed))
        .max();
    assert!(most <= Some(LIMIT), "{most:?}");
    let admitted = sum();
    println!(
        "{mode}: {before} admitted when one is killed, {admitted} of {} in the end",
        USERS * LIMIT
    );
    admitted
}

/// Asks for one user after the other until nothing is left; says how often the service hung up.
fn ask(port: u16, number: usize, admitted: &[AtomicUsize; USERS]) -> usize {
    let (start, mut user, mut broken) = (Instant::now(), number, 0);
    let mut last = start;
    let mut connection = None;
    while last.elapsed() < QUIET {
        assert!(start.elapsed() < BOUND, "still admitted after {BOUND:?}");
        user = (user + 1) % USERS;
        let Some(open) = connection.as_mut() else {
            connection = Connection::open(port).ok();
            thread::yield_now();
            continue;
        };
        match open.check(user) {
            Ok(200) => {
                admitted[user].fetch_add(1, Ordering::Relaxed);
                last = Instant::now();
            }
            Ok(status) => assert_eq!(status, 429),
            Err(_) => {
                connection = None;
                broken += 1;
                // It is killed in the middle of things, so everybody has something left to ask for.
                last = Instant::now();
            }
        }
    }
    broken
}

/// One service, on the same port each time.
struct Service {
    port: u16,
    settings: String,
    process: Option<Process>,
}

// === impl Service ===

impl Service {
    fn start(folder: &Folder, name: &str, redis: &Redis, mode: &str) -> Service {
        let rules = format!("domain: d\ndescriptors:\n- {{key: user, rate_limit: {LIMIT}/year}}\n");
        fs::write(folder.file("rules.yaml"), rules).unwrap();
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
                   redis: {{url: 'redis://{}', timeout: 10s}}\n",
                redis.address()
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

    /// Ends it at once (SIGKILL).
    fn killed(self) -> Service {
        let process = None;
        Service { process, ..self }
    }

    fn again(self) -> Service {
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
}

/// A connection that stays open from question to question.
struct Connection(BufReader<TcpStream>);

// === impl Connection ===

impl Connection {
    fn open(port: u16) -> io::Result<Connection> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(BOUND))?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// The status of the answer for one request of this user.
    fn check(&mut self, user: usize) -> io::Result<u16> {
        let entry = format!(r#"{{"key": "user", "value": "u{user}"}}"#);
        let body = format!(r#"{{"domain": "d", "descriptors": [{{"entries": [{entry}]}}]}}"#);
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
