//! Clients of the Redis protocol that never pause while their connections are drained.

use std::future::pending;
use std::io::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_server::Config;
use tollgate_testbed::Journal;

use crate::house::House;
use crate::http_client::Client;
use crate::redis_client::{redis_of, with_redis};

const RULES: &str = "domain: shop\ndescriptors: [{key: user, rate_limit: 3/day}]\n";
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// So many bytes, so that a reply that is cut is noticed.
const TEXT_BYTES: usize = 1000;

async fn house(change: impl FnOnce(&mut Config)) -> House {
    House::with(RULES, |config| {
        with_redis(config);
        config.limits.drain_timeout = DRAIN_TIMEOUT;
        change(config);
    })
    .await
}

fn command() -> String {
    format!("ECHO {}\r\n", "x".repeat(TEXT_BYTES))
}

fn reply() -> String {
    format!("${TEXT_BYTES}\r\n{}\r\n", "x".repeat(TEXT_BYTES))
}

/// Whether bytes are replies, all of them complete.
fn are_replies(bytes: &[u8]) -> bool {
    let reply = reply();
    bytes
        .chunks(reply.len())
        .all(|chunk| chunk == reply.as_bytes())
}

/// Asks again as soon as it is answered, until the service ends the connection.
async fn ask_in_a_loop(address: SocketAddr) -> Result<Vec<u8>, Error> {
    let mut stream = TcpStream::connect(address).await?;
    let (command, mut read) = (command(), Vec::new());
    loop {
        let answered = read.len();
        stream.write_all(command.as_bytes()).await?;
        while read.len() < answered + reply().len() {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(read);
            }
        }
    }
}

/// Asks without waiting for replies, and reads them, until the service ends the connection.
async fn ask_without_waiting(address: SocketAddr) -> Result<Vec<u8>, Error> {
    let mut stream = TcpStream::connect(address).await?;
    let (commands, mut read) = (command().repeat(10), Vec::new());
    let (mut from, mut to) = stream.split();
    // A reader sees as well that the connection is broken.
    let ask = async {
        while to.write_all(commands.as_bytes()).await.is_ok() {}
        pending::<()>().await;
    };
    tokio::select! {
        ended = from.read_to_end(&mut read) => ended?,
        () = ask => unreachable!(),
    };
    Ok(read)
}

/// What both kinds of clients have read when their connections have ended.
async fn ask(address: SocketAddr) -> [Result<Vec<u8>, Error>; 2] {
    let asked = async { tokio::join!(ask_in_a_loop(address), ask_without_waiting(address)) };
    timeout(Duration::from_secs(20), asked)
        .await
        .unwrap()
        .into()
}

fn assert_whole(replies: [Result<Vec<u8>, Error>; 2]) {
    for read in replies {
        let read = read.unwrap();
        assert!(!read.is_empty());
        assert!(are_replies(&read), "{}", read.len() % reply().len());
    }
}

#[tokio::test]
async fn a_busy_connection_that_is_too_old_ends_between_two_commands() {
    let house = house(|config| {
        config.limits.connection_age = Duration::from_millis(1);
        config.limits.write_timeout = Duration::from_millis(200);
    })
    .await;
    assert_whole(ask(redis_of(&house)).await);
    // What is counted at the end of a connection is counted before it is closed for good.
    let metrics = loop {
        let text = Client::to(house.admin()).await.get("/metrics").await.body;
        if text.contains("tollgate_connections{listener=\"redis\"} 0") {
            break text;
        }
    };
    assert!(!metrics.contains("reason=\"not_drained\""), "{metrics}");
}

#[tokio::test]
async fn a_busy_connection_ends_between_two_commands_before_the_service_stops() {
    let (journal, _guard) = Journal::begin();
    let house = house(|_| ()).await;
    let asking = tokio::spawn(ask(redis_of(&house)));
    // Both clients are there.
    let open = "tollgate_connections{listener=\"redis\"} 2";
    while !Client::to(house.admin())
        .await
        .get("/metrics")
        .await
        .body
        .contains(open)
    {}
    let began = Instant::now();
    house.running.stop().await;
    assert!(began.elapsed() < DRAIN_TIMEOUT);
    assert_whole(asking.await.unwrap());
    assert_eq!(journal.count("cut off"), 0, "{}", journal.text());
}
