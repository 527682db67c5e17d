//! The well-behaved client: a process of its own, whose requests must all be answered.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::frames::{call, flag, frame, kind, message};
use crate::peer::{acknowledge, connect, connect_h2, read_frame, read_response, request, within};
use crate::target::Target;
use crate::tls::{Wire, connect_any};

/// Its address, which no attack uses.
const FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The pause between two requests on one connection.
const PAUSE: Duration = Duration::from_millis(5);
/// The pause between two connections with one request each.
const VISIT_PAUSE: Duration = Duration::from_millis(50);
/// HTTP/2's initial window of a stream.
const WINDOW: u32 = 65_535;
const QUESTION: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"good"}]}]}"#;

/// Commands that are allowed, the lines of their replies, and how these begin.
const COMMANDS: [(&str, usize, &str); 2] = [
    ("CL.THROTTLE good 1000000 1000000 1\r\n", 6, "*5\r\n:0\r\n"),
    ("TG.CHECK d 1 k good\r\n", 9, "*7\r\n:0\r\n"),
];
/// The longest reply to them.
const REPLY_BYTES_MAX: usize = 200;

/// How long each request took, and why others failed.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<Mutex<(Vec<Duration>, Vec<String>)>>);

/// Sends requests until standard input ends, then prints p50 and p99 in microseconds, the counts of
/// requests and errors, and the texts of the first errors.
pub(crate) async fn run(target: Target) {
    let seen = Seen::default();
    let check = request("POST", "/v1/check", QUESTION);
    let get = request("GET", "/", "");
    let plain = Target {
        authority: None,
        ..target
    };
    let asks = [
        tokio::spawn(ask_grpc(target.grpc, seen.clone())),
        tokio::spawn(ask_grpc(target.grpc, seen.clone())),
        tokio::spawn(ask_http("http", target.http, check, target, seen.clone())),
        tokio::spawn(ask_http(
            "gateway",
            target.gateway,
            get,
            target,
            seen.clone(),
        )),
        tokio::spawn(ask_redis(target.redis, seen.clone())),
        tokio::spawn(visit(target.http, target, seen.clone())),
        tokio::spawn(visit(target.admin, plain, seen.clone())),
    ];
    let _ended =
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await;
    for ask in asks {
        ask.abort();
    }
    let mut seen = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
    let (times, errors) = &mut *seen;
    times.sort_unstable();
    let part = |percent: usize| times.get(times.len() * percent / 100).copied();
    let micros = |percent| part(percent).unwrap_or_default().as_micros();
    let examples: Vec<&str> = errors.iter().take(3).map(String::as_str).collect();
    let (half, most, asked) = (micros(50), micros(99), times.len());
    #[expect(clippy::print_stdout, reason = "the attacking process reads it")]
    {
        println!(
            "{half} {most} {asked} {} {}",
            errors.len(),
            examples.join("; ")
        );
    }
}

// === impl Seen ===

impl Seen {
    fn note(&self, what: &str, began: Instant, answered: &Result<()>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answered {
            Ok(()) => seen.0.push(began.elapsed()),
            Err(error) => seen.1.push(format!("{what}: {error}")),
        }
    }
}

/// Sends one call after the other over one connection; after an error, over a new one.
async fn ask_grpc(to: SocketAddr, seen: Seen) {
    loop {
        let began = Instant::now();
        let mut stream = match connect_h2(FROM, to, WINDOW).await {
            Ok(stream) => stream,
            Err(error) => {
                seen.note("grpc connect", began, &Err(error));
                continue;
            }
        };
        // Responses have some tens of bytes each, so these fit the connection's window.
        for id in (1..1001).step_by(2) {
            let began = Instant::now();
            let answered = within(ask_once(&mut stream, id)).await;
            seen.note("grpc", began, &answered);
            if answered.is_err() {
                break;
            }
            sleep(PAUSE).await;
        }
    }
}

/// Sends one gRPC call and reads its answer.
async fn ask_once(stream: &mut TcpStream, id: u32) -> Result<()> {
    let mut out = Vec::new();
    frame(&mut out, kind::HEADERS, flag::END_HEADERS, id, &call(&[]));
    frame(
        &mut out,
        kind::DATA,
        flag::END_STREAM,
        id,
        &message(b"good", 1),
    );
    stream.write_all(&out).await?;
    let mut has_message = false;
    loop {
        let (head, payload) = read_frame(stream).await?;
        acknowledge(stream, head, &payload).await?;
        let wrong = match head.kind {
            kind::RST_STREAM => "stream reset",
            kind::GOAWAY => "connection going away",
            kind::DATA => {
                has_message = true;
                continue;
            }
            kind::HEADERS if head.flags & flag::END_STREAM == 0 => continue,
            // Trailers without a message are an error.
            kind::HEADERS if has_message => return Ok(()),
            kind::HEADERS => "an error in place of an answer",
            _ => continue,
        };
        return Err(std::io::Error::other(wrong));
    }
}

/// Sends an HTTP request repeatedly and records each response, with a new connection after errors.
async fn ask_http(listener: &str, to: SocketAddr, question: Vec<u8>, target: Target, seen: Seen) {
    loop {
        let began = Instant::now();
        let mut stream = match connect_any(FROM, to, &target).await {
            Ok(stream) => stream,
            Err(error) => {
                seen.note(&format!("{listener} connect"), began, &Err(error));
                continue;
            }
        };
        loop {
            let began = Instant::now();
            let answered = within(exchange(&mut stream, &question)).await;
            seen.note(listener, began, &answered);
            if answered.is_err() {
                break;
            }
            sleep(PAUSE).await;
        }
    }
}

/// Sends commands of the Redis protocol repeatedly, each after the reply to the one before.
async fn ask_redis(to: SocketAddr, seen: Seen) {
    loop {
        let began = Instant::now();
        let mut stream = match connect(FROM, to).await {
            Ok(stream) => stream,
            Err(error) => {
                seen.note("redis connect", began, &Err(error));
                continue;
            }
        };
        for (command, lines, begin) in COMMANDS.iter().cycle() {
            let began = Instant::now();
            let answered = within(ask_command(&mut stream, command, *lines, begin)).await;
            seen.note("redis", began, &answered);
            if answered.is_err() {
                break;
            }
            sleep(PAUSE).await;
        }
    }
}

/// Sends one command, and reads its reply of so many lines, which must begin as given.
async fn ask_command(
    stream: &mut TcpStream,
    command: &str,
    lines: usize,
    begin: &str,
) -> Result<()> {
    stream.write_all(command.as_bytes()).await?;
    let mut reply = Vec::new();
    let count = |reply: &[u8]| reply.iter().filter(|byte| **byte == b'\n').count();
    while count(&reply) < lines && (reply.is_empty() || reply[0] == b'*') {
        if reply.len() >= REPLY_BYTES_MAX || stream.read_buf(&mut reply).await? == 0 {
            break;
        }
    }
    match count(&reply) == lines && reply.starts_with(begin.as_bytes()) {
        true => Ok(()),
        false => Err(std::io::Error::other(reply.escape_ascii().to_string())),
    }
}

/// Sends health checks repeatedly, each over a new connection.
async fn visit(to: SocketAddr, target: Target, seen: Seen) {
    let question = request("GET", "/healthz", "");
    loop {
        let began = Instant::now();
        let visited = within(async {
            let mut stream = connect_any(FROM, to, &target).await?;
            exchange(&mut stream, &question).await
        });
        seen.note("healthz", began, &visited.await);
        sleep(VISIT_PAUSE).await;
    }
}

async fn exchange(stream: &mut Box<dyn Wire>, question: &[u8]) -> Result<()> {
    stream.write_all(question).await?;
    match read_response(stream).await? {
        200 => Ok(()),
        status => Err(std::io::Error::other(format!("status {status}"))),
    }
}
