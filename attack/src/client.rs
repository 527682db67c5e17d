//! The well-behaved client: a process of its own, whose requests must all be answered.

use std::io::BufRead;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, timeout};

use crate::exchange::{self, COMMANDS, QUESTION};
use crate::frames::WINDOW;
use crate::peer::{connect, connect_h2, request};
use crate::record::{Record, Schedule};
use crate::report::Report;
use crate::target::{Target, present};
use crate::tls::connect_any;

/// Its address, which no attack uses.
const FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// From when one request of a connection is due to when the next one is; the same of connections
/// with one request each.
const PERIOD: Duration = Duration::from_millis(100);
/// Connections to each listener, whose requests are due in turn.
const CONNECTIONS: u32 = 5;
/// Calls on one connection of gRPC. Responses have some tens of bytes each, so these fit its
/// window.
const CALLS: u32 = 500;
/// Within this time of the end, all requests must be answered that are due by then.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Sends requests until standard input ends. Its lines mark the times at which an attack begins and
/// ends.
pub(crate) async fn run(target: Target) -> Report {
    let marks = tokio::task::spawn_blocking(|| {
        let lines = std::io::stdin().lock().lines();
        let marks = lines.map_while(Result::ok).map(|_line| Instant::now());
        marks.collect::<Vec<Instant>>()
    });
    observe(target, async { marks.await.unwrap_or_default() }).await
}

/// Sends requests until `over`, whose result are the times at which an attack began and ended.
async fn observe(target: Target, over: impl Future<Output = Vec<Instant>>) -> Report {
    let record = Record::default();
    let visits = |what| record.schedule(what, PERIOD, Duration::ZERO);
    let check = request("POST", "/v1/check", QUESTION);
    let get = request("GET", "/", "");
    let plain = Target {
        authority: None,
        ..target
    };
    let mut asks = JoinSet::new();
    for number in 0..CONNECTIONS {
        let schedule = |what| record.schedule(what, PERIOD, PERIOD * number / CONNECTIONS);
        if let Some(to) = present(target.grpc) {
            asks.spawn(ask_grpc(to, schedule("grpc")));
        }
        if let Some(to) = present(target.http) {
            asks.spawn(ask_http(to, check.clone(), target, schedule("http")));
        }
        if let Some(to) = present(target.gateway) {
            asks.spawn(ask_http(to, get.clone(), target, schedule("gateway")));
        }
        if let Some(to) = present(target.redis) {
            asks.spawn(ask_redis(to, schedule("redis")));
        }
    }
    if let Some(to) = present(target.http) {
        asks.spawn(visit(to, target, visits("healthz")));
    }
    asks.spawn(visit(target.admin, plain, visits("healthz of admin")));
    let marks = over.await;
    record.stop();
    let all = async { while asks.join_next().await.is_some() {} };
    // What has no answer by then is in the report.
    let _in_time = timeout(END_WITHIN, all).await;
    asks.shutdown().await;
    record.report(&marks)
}

/// Sends one call after the other over one connection; after an error, over a new one.
async fn ask_grpc(to: SocketAddr, mut schedule: Schedule) {
    let mut open = None;
    while schedule.wait().await {
        let asking = async {
            let (stream, calls) = match &mut open {
                Some(open) => open,
                None => open.insert((connect_h2(FROM, to, WINDOW).await?, 0)),
            };
            *calls += 1;
            exchange::ask_grpc(stream, 2 * *calls - 1).await
        };
        let is_answered = schedule.ask(asking).await;
        open = open.filter(|(_, calls)| is_answered && *calls < CALLS);
    }
}

/// Sends one HTTP request after the other over one connection; after an error, over a new one.
async fn ask_http(to: SocketAddr, question: Vec<u8>, target: Target, mut schedule: Schedule) {
    let mut open = None;
    while schedule.wait().await {
        let asking = async {
            let stream = match &mut open {
                Some(open) => open,
                None => open.insert(connect_any(FROM, to, &target).await?),
            };
            exchange::ask_http(stream, &question).await
        };
        if !schedule.ask(asking).await {
            open = None;
        }
    }
}

/// Sends one command of the Redis protocol after the other over one connection; after an error,
/// over a new one.
async fn ask_redis(to: SocketAddr, mut schedule: Schedule) {
    let mut open = None;
    for (command, lines, begin) in COMMANDS.iter().cycle() {
        if !schedule.wait().await {
            return;
        }
        let asking = async {
            let stream = match &mut open {
                Some(open) => open,
                None => open.insert(connect(FROM, to).await?),
            };
            exchange::ask_command(stream, command, *lines, begin).await
        };
        if !schedule.ask(asking).await {
            open = None;
        }
    }
}

/// Sends health checks, each over a new connection.
async fn visit(to: SocketAddr, target: Target, mut schedule: Schedule) {
    let question = request("GET", "/healthz", "");
    while schedule.wait().await {
        let visiting = async {
            let mut stream = connect_any(FROM, to, &target).await?;
            exchange::ask_http(&mut stream, &question).await
        };
        schedule.ask(visiting).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::sleep;

    use super::*;

    /// The report of a client during an attack of a second on a peer that accepts connections and
    /// answers nothing.
    async fn report_of_silence() -> Report {
        // The kernel accepts them.
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let target = Target {
            grpc: address,
            http: address,
            admin: address,
            redis: address,
            gateway: address,
            authority: None,
        };
        let attack = async {
            let begin = Instant::now();
            sleep(Duration::from_secs(1)).await;
            vec![begin, Instant::now()]
        };
        observe(target, attack).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_answers_nothing_is_a_fault() {
        let report = report_of_silence().await;
        // Each of 22 schedules waits for its first answer.
        assert_eq!((report.answered, report.errors), (0, 22), "{report}");
        assert!(report.longest >= 1_000_000, "{report}");
        let faults = report.faults(Duration::from_secs(1));
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
