//! Transactions of the Redis protocol.

use std::fmt::Write;
use std::time::Duration;

use tokio::time::timeout;

use crate::house::House;
use crate::redis_client::{RedisClient, integers, with_redis};
use crate::redis_clients::errors;

const RULES: &str =
    "domain: shop\ndescriptors:\n- {key: user, rate_limit: {unit: day, requests_per_unit: 3}}\n";
const QUEUED: &str = "+QUEUED\r\n";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

async fn client() -> (House, RedisClient) {
    let house = House::with(RULES, with_redis).await;
    let client = RedisClient::to(&house).await;
    (house, client)
}

/// Sends a line, and reads as many bytes as the reply has: inside a transaction, nothing that comes
/// behind it could show its end.
async fn say(client: &mut RedisClient, line: &str, reply: &str) {
    client.send(format!("{line}\r\n")).await;
    let read = client.read(reply.len()).await;
    assert_eq!(String::from_utf8_lossy(&read), reply, "{line}");
}

/// The units that remain of a key, after one of them was taken.
async fn expect_remaining(client: &mut RedisClient, key: &str, remaining: i64) {
    let line = format!("CL.THROTTLE {key} 9 1 3600 0");
    let reset = (10 - remaining) * 3600;
    let reply = integers(&[0, 10, remaining, -1, reset]);
    client.expect(&line, &reply).await;
}

#[tokio::test]
async fn exec_decides_what_was_queued_in_order() {
    let (_house, mut client) = client().await;
    say(&mut client, "MULTI", "+OK\r\n").await;
    let take = "CL.THROTTLE key 9 1 3600";
    say(&mut client, take, QUEUED).await;
    say(&mut client, "PING", QUEUED).await;
    say(&mut client, "TG.CHECK shop 2 user ann", QUEUED).await;
    say(&mut client, "TG.CHECK shop 2 user ann", QUEUED).await;
    say(&mut client, take, QUEUED).await;
    let checked = |over: i64, remaining: i64| {
        let numbers = [over, 3, remaining];
        numbers.map(|number| format!(":{number}\r\n")).concat()
    };
    client.send("EXEC\r\n").await;
    let replies = "*5\r\n".to_owned() + &integers(&[0, 10, 9, -1, 3600]) + "+PONG\r\n*7\r\n";
    let begin = replies + &checked(0, 1);
    let read = client.read(begin.len()).await;
    assert_eq!(String::from_utf8(read).unwrap(), begin);
    // The rest of the first check: retry after, reset after, the delay and the name.
    client.send("QUIT\r\n").await;
    let rest = client.rest().await;
    assert!(rest.contains(&format!("*7\r\n{}", checked(1, 1))), "{rest}");
    let end = integers(&[0, 10, 8, -1, 7200]) + "+OK\r\n";
    assert!(rest.ends_with(&end), "{rest}");
}

/// As in Redis: a command that is wrong aborts all of them, and one that fails concerns no other.
#[tokio::test]
async fn a_command_that_is_wrong_aborts_the_transaction() {
    let (_house, mut client) = client().await;
    for (wrong, error) in [
        ("CL.THROTTLE key", "-ERR wrong number of arguments for"),
        ("GET key", "-ERR unknown command 'GET'"),
        ("CLIENT FOO", "-ERR unknown subcommand 'FOO'"),
        ("CLIENT SETNAME", "-ERR wrong number of arguments for"),
        ("TG.CHECK shop 1 user a b", "-ERR a key without a value"),
        ("HELLO 3", "-ERR Command not allowed inside a transaction"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
    ] {
        say(&mut client, "MULTI", "+OK\r\n").await;
        say(&mut client, "CL.THROTTLE key 9 1 3600", QUEUED).await;
        client.send(format!("{wrong}\r\n")).await;
        let read = client.read(error.len()).await;
        assert_eq!(String::from_utf8(read).unwrap(), error);
        while client.read(1).await != b"\n" {}
        say(&mut client, "PING", QUEUED).await;
        say(&mut client, "EXEC", ABORTED).await;
    }
    expect_remaining(&mut client, "key", 10).await;
    say(&mut client, "MULTI", "+OK\r\n").await;
    say(&mut client, "CL.THROTTLE key x 1 3600", QUEUED).await;
    say(&mut client, "CL.THROTTLE key 9 1 3600", QUEUED).await;
    client.send("EXEC\r\n").await;
    assert_eq!(client.read(9).await, b"*2\r\n-ERR ");
    while client.read(1).await != b"\n" {}
    say(
        &mut client,
        "PING",
        &(integers(&[0, 10, 9, -1, 3600]) + "+PONG\r\n"),
    )
    .await;
}

#[tokio::test]
async fn a_transaction_can_be_discarded_and_only_then_begun_again() {
    let (house, mut client) = client().await;
    say(&mut client, "EXEC", "-ERR EXEC without MULTI\r\n").await;
    let without = "-ERR DISCARD without MULTI\r\n";
    say(&mut client, "DISCARD", without).await;
    for end in ["DISCARD", "RESET"] {
        say(&mut client, "MULTI", "+OK\r\n").await;
        say(&mut client, "CL.THROTTLE key 9 1 3600", QUEUED).await;
        let reply = if end == "RESET" {
            "+RESET\r\n"
        } else {
            "+OK\r\n"
        };
        say(&mut client, end, reply).await;
        say(&mut client, "EXEC", "-ERR EXEC without MULTI\r\n").await;
    }
    say(&mut client, "MULTI", "+OK\r\n").await;
    say(&mut client, "EXEC", "*0\r\n").await;
    expect_remaining(&mut client, "key", 10).await;
    // One that was not executed when the client leaves is not.
    say(&mut client, "MULTI", "+OK\r\n").await;
    say(&mut client, "CL.THROTTLE key 9 1 3600", QUEUED).await;
    say(&mut client, "QUIT", "+OK\r\n").await;
    let mut other = RedisClient::to(&house).await;
    expect_remaining(&mut other, "key", 10).await;
}

/// Thousands of commands in one write, as libraries send them.
#[tokio::test]
async fn a_long_transaction_is_executed_and_one_that_is_too_long_is_not() {
    let (_house, mut client) = client().await;
    let mut pipeline = "MULTI\r\n".to_owned();
    for number in 0..5_000 {
        writeln!(pipeline, "CL.THROTTLE key{} 9 1 3600\r", number % 500).unwrap();
    }
    let replies = "+OK\r\n".to_owned() + &QUEUED.repeat(5_000) + "*5000\r\n";
    client.send(pipeline + "EXEC\r\n").await;
    let read = client.read(replies.len()).await;
    assert!(read == replies.as_bytes());
    for remaining in (0..10).rev() {
        let reply = integers(&[0, 10, remaining, -1, (10 - remaining) * 3600]).repeat(500);
        let read = client.read(reply.len()).await;
        assert_eq!(String::from_utf8(read).unwrap(), reply);
    }
    say(&mut client, "MULTI", "+OK\r\n").await;
    let long = format!("*2\r\n$4\r\nECHO\r\n$40000\r\n{}\r\n", "k".repeat(40_000));
    for _fits in 0..13 {
        client.send(&long).await;
        assert_eq!(client.read(QUEUED.len()).await, QUEUED.as_bytes());
    }
    client.send(&long).await;
    let error = "-ERR the commands of a transaction have more than 524288 bytes";
    assert_eq!(client.read(error.len()).await, error.as_bytes());
    while client.read(1).await != b"\n" {}
    say(&mut client, "EXEC", ABORTED).await;
    say(&mut client, "PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn quoted_words_are_queued_as_well() {
    let (_house, mut client) = client().await;
    say(&mut client, "MULTI", "+OK\r\n").await;
    say(&mut client, "CL.THROTTLE 'a key' 9 1 3600", QUEUED).await;
    say(&mut client, "CL.THROTTLE \"a \\x6bey\" 9 1 3600", QUEUED).await;
    let first = integers(&[0, 10, 9, -1, 3600]);
    let second = integers(&[0, 10, 8, -1, 7200]);
    say(&mut client, "EXEC", &format!("*2\r\n{first}{second}")).await;
    expect_remaining(&mut client, "'a key'", 8).await;
}

/// A transaction that is typed may take its time, but none keeps the room of others.
#[tokio::test]
async fn only_a_small_transaction_may_wait_for_its_end() {
    let house = House::with(RULES, |config| {
        with_redis(config);
        config.limits.header_timeout = Duration::from_millis(200);
    });
    let house = house.await;
    let mut client = RedisClient::to(&house).await;
    say(&mut client, "MULTI", "+OK\r\n").await;
    say(&mut client, &format!("ECHO {}", "x".repeat(4000)), QUEUED).await;
    let waiting = timeout(Duration::from_millis(400), client.rest()).await;
    assert!(waiting.is_err());
    say(&mut client, &format!("ECHO {}", "x".repeat(8000)), QUEUED).await;
    assert_eq!(client.rest().await, "");
}

/// Others may have taken the room; here, it is a single transaction that is too large for it.
#[tokio::test]
async fn a_command_for_which_there_is_no_room_aborts_the_transaction() {
    let house = House::with(RULES, |config| {
        with_redis(config);
        config.limits.buffer = 64 * 1024;
    });
    let house = house.await;
    let mut client = RedisClient::to(&house).await;
    say(&mut client, "MULTI", "+OK\r\n").await;
    let echo = format!("ECHO {}\r\n", "x".repeat(4000));
    let mut reply = QUEUED.trim_end().to_owned();
    for _command in 0..100 {
        if reply.starts_with('-') {
            break;
        }
        client.send(&echo).await;
        reply = client.lines(1).await.concat();
    }
    assert!(
        reply.starts_with("-ERR no room for this command: "),
        "{reply}"
    );
    say(&mut client, "EXEC", ABORTED).await;
    say(&mut client, "PING", "+PONG\r\n").await;
    assert_eq!(errors(&house, "no_room").await.as_deref(), Some("1"));
}
