//! The well-behaved client: a process of its own, whose requests must all be answered.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::exchange::{self, COMMANDS, QUESTION};
use crate::frames::WINDOW;
use crate::peer::{connect, connect_h2, request, within};
use crate::target::{Target, present};
use crate::tls::connect_any;

/// Its address, which no attack uses.
const FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The pause between two requests on one connection.
const PAUSE: Duration = Duration::from_millis(5);
/// The pause between two connections with one request each.
const VISIT_PAUSE: Duration = Duration::from_millis(50);
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
    let mut asks = tokio::task::JoinSet::new();
    if let Some(to) = present(target.grpc) {
        asks.spawn(ask_grpc(to, seen.clone()));
        asks.spawn(ask_grpc(to, seen.clone()));
    }
    if let Some(to) = present(target.http) {
        asks.spawn(ask_http("http", to, check, target, seen.clone()));
        asks.spawn(visit(to, target, seen.clone()));
    }
    if let Some(to) = present(target.gateway) {
        asks.spawn(ask_http("gateway", to, get, target, seen.clone()));
    }
    if let Some(to) = present(target.redis) {
        asks.spawn(ask_redis(to, seen.clone()));
    }
    asks.spawn(visit(target.admin, plain, seen.clone()));
    let _ended =
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await;
    asks.shutdown().await;
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
            let answered = within(exchange::ask_grpc(&mut stream, id)).await;
            seen.note("grpc", began, &answered);
            if answered.is_err() {
                break;
            }
            sleep(PAUSE).await;
        }
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
            let answered = within(exchange::ask_http(&mut stream, &question)).await;
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
            let answered = within(exchange::ask_command(&mut stream, command, *lines, begin)).await;
            seen.note("redis", began, &answered);
            if answered.is_err() {
                break;
            }
            sleep(PAUSE).await;
        }
    }
}

/// Sends health checks repeatedly, each over a new connection.
async fn visit(to: SocketAddr, target: Target, seen: Seen) {
    let question = request("GET", "/healthz", "");
    loop {
        let began = Instant::now();
        let visited = within(async {
            let mut stream = connect_any(FROM, to, &target).await?;
            exchange::ask_http(&mut stream, &question).await
        });
        seen.note("healthz", began, &visited.await);
        sleep(VISIT_PAUSE).await;
    }
}
