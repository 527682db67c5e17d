//! Clients of the Redis protocol that are unknown, hostile, slow or late.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_server::{Config, Password};

use crate::house::House;
use crate::http_client::Client;
use crate::redis_client::{RedisClient, integers, with_redis};

const RULES: &str = "domain: shop\ndescriptors: [{key: user, rate_limit: 3/day}]\n";
const PASSWORD: &str = "correct horse battery";
const ADMIN_PASSWORD: &str = "staple of the admin";
/// The version of Redis that the service says it is.
const REDIS_VERSION: &str = "7.0.0";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
const NO_AUTH: &str = "-NOAUTH Authentication required.\r\n";

async fn house(change: impl FnOnce(&mut Config)) -> House {
    House::with(RULES, |config| {
        with_redis(config);
        change(config);
    })
    .await
}

/// A service that demands passwords.
async fn locked_house() -> House {
    house(|config| {
        config.redis_protocol.password = Password(Some(PASSWORD.to_owned()));
        config.redis_protocol.admin_password = Password(Some(ADMIN_PASSWORD.to_owned()));
    })
    .await
}

/// How many errors of a kind were counted.
pub(crate) async fn errors(house: &House, kind: &str) -> Option<String> {
    let text = Client::to(house.admin()).await.get("/metrics").await.body;
    let name = format!("tollgate_request_errors_total{{listener=\"redis\",kind=\"{kind}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.map(str::to_owned)
}

#[tokio::test]
async fn nothing_is_answered_without_the_password() {
    let house = locked_house().await;
    let mut client = RedisClient::to(&house).await;
    // No pipeline gets past it, either.
    client
        .send("CL.THROTTLE k 1 1 1\r\nTG.CHECK shop 1 user a\r\nPING\r\nINFO\r\n")
        .await;
    let denied = NO_AUTH.repeat(4);
    assert_eq!(client.read(denied.len()).await, denied.as_bytes());
    for (line, reply) in [
        ("AUTH wrong", WRONG),
        ("AUTH default wrong", WRONG),
        ("AUTH nobody 'correct horse battery'", WRONG),
        ("AUTH admin 'correct horse battery'", WRONG),
    ] {
        client.send(format!("{line}\r\n")).await;
        assert_eq!(client.read(reply.len()).await, reply.as_bytes(), "{line}");
    }
    client.send(format!("AUTH '{PASSWORD}'\r\n")).await;
    assert_eq!(client.read(5).await, b"+OK\r\n");
    client
        .expect("CL.THROTTLE k 1 1 1", &integers(&[0, 2, 1, -1, 1]))
        .await;
    let denied = "-NOPERM TG.RESET needs the user admin: AUTH admin PASSWORD\r\n";
    client.expect("TG.RESET shop user a", denied).await;
    client
        .expect(&format!("AUTH admin '{ADMIN_PASSWORD}'"), "+OK\r\n")
        .await;
    let full = "*7\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:43200\r\n:0\r\n$4\r\nuser\r\n";
    client.expect("TG.RESET shop user a", full).await;
    // After RESET it is nobody again.
    client.send("RESET\r\nPING\r\n").await;
    let reply = format!("+RESET\r\n{NO_AUTH}");
    assert_eq!(client.read(reply.len()).await, reply.as_bytes());
    assert_eq!(errors(&house, "wrong_password").await.as_deref(), Some("4"));
}

#[tokio::test]
async fn hello_chooses_the_version_and_the_user_at_once() {
    let house = locked_house().await;
    let mut client = RedisClient::to(&house).await;
    client
        .send(format!(
            "HELLO 3 AUTH default '{PASSWORD}' SETNAME me\r\nCLIENT GETNAME\r\n"
        ))
        .await;
    client
        .send("TG.PEEK shop 1 other x\r\nCONFIG GET save\r\nQUIT\r\n")
        .await;
    let read = client.rest().await;
    assert!(
        read.starts_with("%7\r\n$6\r\nserver\r\n$8\r\ntollgate\r\n"),
        "{read}"
    );
    assert!(read.contains("$5\r\nproto\r\n:3\r\n"), "{read}");
    let rest = "$2\r\nme\r\n*7\r\n:0\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n:0\r\n_\r\n\
                %1\r\n$4\r\nsave\r\n$0\r\n\r\n+OK\r\n";
    assert!(read.ends_with(rest), "{read}");
    let mut client = RedisClient::to(&house).await;
    client
        .send("HELLO 4\r\nHELLO 3\r\nHELLO 3 AUTH default x\r\nPING\r\nQUIT\r\n")
        .await;
    let read = client.rest().await;
    assert!(
        read.starts_with("-NOPROTO unsupported protocol version\r\n-NOAUTH HELLO"),
        "{read}"
    );
    assert!(
        read.ends_with(&format!("{WRONG}{NO_AUTH}+OK\r\n")),
        "{read}"
    );
}

/// The fields have the order of Redis, because in version 2 a client may know them by it.
#[tokio::test]
async fn hello_answers_with_the_fields_of_redis_in_their_order() {
    let house = house(|_| ()).await;
    let mut client = RedisClient::to(&house).await;
    client.send("CLIENT ID\r\nECHO end\r\n").await;
    let mut read = Vec::new();
    while !read.ends_with(b"end\r\n") {
        read.extend(client.read(1).await);
    }
    let text = String::from_utf8(read).unwrap();
    let id = text.split("\r\n").next().unwrap();
    // Libraries conclude from it which commands there are, whether they read it here or in `INFO`.
    let version = format!("${}\r\n{REDIS_VERSION}", REDIS_VERSION.len());
    for (line, header, protocol) in [
        ("HELLO", "*14", 2),
        ("HELLO 2", "*14", 2),
        ("HELLO 3", "%7", 3),
        ("HELLO", "%7", 3),
    ] {
        let reply = format!(
            "{header}\r\n$6\r\nserver\r\n$8\r\ntollgate\r\n$7\r\nversion\r\n{version}\r\n\
             $5\r\nproto\r\n:{protocol}\r\n$2\r\nid\r\n{id}\r\n\
             $4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
             $7\r\nmodules\r\n*0\r\n"
        );
        client.expect(line, &reply).await;
    }
    client.send("INFO server\r\nQUIT\r\n").await;
    let rest = client.rest().await;
    let stated = format!("redis_version:{REDIS_VERSION}\r\n");
    assert!(rest.contains(&stated), "{rest}");
}

/// The Redis that other tests compare with is too old for `SETINFO` and `NO-TOUCH`.
#[tokio::test]
async fn what_clients_say_about_themselves_is_checked_as_redis_does() {
    let house = house(|_| ()).await;
    let mut client = RedisClient::to(&house).await;
    for (line, reply) in [
        ("CLIENT SETINFO LIB-NAME redis-py(a_b)", "+OK"),
        ("CLIENT SETINFO lib-ver 8.1.0", "+OK"),
        ("CLIENT SETINFO lib-ver ''", "+OK"),
        ("CLIENT SETINFO lib a", "-ERR Unrecognized option 'lib'"),
        (
            "CLIENT SETINFO Lib-Name 'a b'",
            "-ERR Lib-Name cannot contain spaces, newlines or special characters.",
        ),
        ("CLIENT NO-TOUCH on", "+OK"),
        ("CLIENT NO-TOUCH OFF", "+OK"),
        ("CLIENT NO-TOUCH a", "-ERR syntax error"),
        ("CLIENT NO-EVICT onn", "-ERR syntax error"),
    ] {
        client.expect(line, &format!("{reply}\r\n")).await;
    }
}

/// The entries have the ten fields of Redis 7, whose version `INFO` states.
#[tokio::test]
async fn command_describes_commands_as_redis_does() {
    let house = house(|_| ()).await;
    let mut client = RedisClient::to(&house).await;
    let line = "COMMAND INFO cl.throttle ping nosuch";
    // Arrays, maps and nothing; in version 3, sets as well.
    let reply = |set: &str, map: &dyn Fn(usize) -> String, null: &str| {
        let (three, two, one) = (map(3), map(2), map(1));
        format!(
            "*3\r\n*10\r\n$11\r\ncl.throttle\r\n:-5\r\n{set}1\r\n+fast\r\n:1\r\n:1\r\n:1\r\n\
             {set}1\r\n+@fast\r\n{set}0\r\n{set}1\r\n{three}\r\n\
             $5\r\nflags\r\n{set}3\r\n+RW\r\n+access\r\n+update\r\n\
             $12\r\nbegin_search\r\n{two}\r\n$4\r\ntype\r\n$5\r\nindex\r\n\
             $4\r\nspec\r\n{one}\r\n$5\r\nindex\r\n:1\r\n\
             $9\r\nfind_keys\r\n{two}\r\n$4\r\ntype\r\n$5\r\nrange\r\n\
             $4\r\nspec\r\n{three}\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n\
             $5\r\nlimit\r\n:0\r\n{set}0\r\n\
             *10\r\n$4\r\nping\r\n:-1\r\n{set}1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n\
             {set}1\r\n+@fast\r\n{set}0\r\n{set}0\r\n{set}0\r\n{null}\r\n"
        )
    };
    let two = reply("*", &|pairs| format!("*{}", pairs * 2), "$-1");
    client.expect(line, &two).await;
    client.send("HELLO 3\r\n").await;
    let three = reply("~", &|pairs| format!("%{pairs}"), "_");
    client.send(format!("{line}\r\nQUIT\r\n")).await;
    let rest = client.rest().await;
    assert!(rest.ends_with(&format!("{three}+OK\r\n")), "{rest}");
    let mut client = RedisClient::to(&house).await;
    let many = format!("COMMAND INFO{}", " ping".repeat(251));
    let expected = "-ERR COMMAND INFO takes at most 250 names here\r\n";
    client.expect(&many, expected).await;
    let counted = errors(&house, "bad_request").await;
    assert_eq!(counted.as_deref(), Some("1"));
}

/// The protocol has no word that announces it.
#[tokio::test]
async fn a_connection_that_is_too_old_ends_once_it_is_quiet() {
    let house = house(|config| {
        config.limits.connection_age = Duration::ZERO;
        config.limits.write_timeout = Duration::from_millis(20);
    })
    .await;
    let mut client = RedisClient::to(&house).await;
    client.expect("PING", "+PONG\r\n").await;
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn config_commands_are_answered_as_redis_does() {
    let house = house(|_| ()).await;
    let mut client = RedisClient::to(&house).await;
    let wrong = |name: &str| format!("-ERR wrong number of arguments for '{name}' command\r\n");
    client.expect("CONFIG", &wrong("config")).await;
    client.expect("config get", &wrong("config|get")).await;
    for (line, name) in [
        ("CONFIG SET save 1", "SET"),
        ("CONFIG SET", "SET"),
        ("CONFIG resetstat", "resetstat"),
    ] {
        let unknown = format!("-ERR unknown subcommand '{name}'. CONFIG knows GET\r\n");
        client.expect(line, &unknown).await;
    }
}

#[tokio::test]
async fn guesses_end_the_connection() {
    let house = locked_house().await;
    let mut client = RedisClient::to(&house).await;
    client.send("AUTH guess\r\n".repeat(20)).await;
    assert_eq!(client.rest().await, WRONG.repeat(8));
}

#[tokio::test]
async fn malformed_input_is_answered_as_redis_does_and_ends_the_connection() {
    let house = house(|_| ()).await;
    let long = format!("*1\r\n${}\r\n", 64 * 1024 + 1);
    let endless = "x".repeat(17 * 1024);
    let cases = [
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        (&long, "invalid bulk length"),
        ("*2147483647\r\n", "invalid multibulk length"),
        ("*1\r\n*1\r\n*1\r\n*1\r\n", "expected '$', got '*'"),
        ("ECHO \"a\r\n", "unbalanced quotes in request"),
        (&endless, "too big inline request"),
    ];
    for (input, reason) in cases {
        let mut client = RedisClient::to(&house).await;
        client
            .send(format!("CL.THROTTLE k 0 1 1 0\r\n{input}"))
            .await;
        let read = client.rest().await;
        let expected = format!(
            "{}-ERR Protocol error: {reason}\r\n",
            integers(&[0, 1, 1, -1, 0])
        );
        assert_eq!(read, expected);
    }
    assert_eq!(errors(&house, "protocol").await.as_deref(), Some("7"));
}

#[tokio::test]
async fn http_is_not_answered() {
    let house = house(|_| ()).await;
    let body = "CL.THROTTLE k 0 1 1\r\n";
    let cases = [
        (format!("POST / HTTP/1.1\r\nhost: h\r\n\r\n{body}"), ""),
        (format!("host: h\r\n\r\n{body}"), ""),
        (
            format!("GET / HTTP/1.1\r\nHost: h\r\n\r\n{body}"),
            "-ERR unknown command 'GET', with args beginning with: '/' 'HTTP/1.1' \r\n",
        ),
    ];
    for (request, reply) in cases {
        let mut client = RedisClient::to(&house).await;
        client.send(request).await;
        assert_eq!(client.rest().await, reply);
    }
    assert_eq!(errors(&house, "cross_protocol").await.as_deref(), Some("3"));
}

#[tokio::test]
async fn half_a_command_waits_for_the_rest_but_not_for_ever() {
    let house = house(|config| config.limits.header_timeout = Duration::from_millis(200)).await;
    let mut client = RedisClient::to(&house).await;
    for piece in "*2\r\n$4\r\nECHO\r\n$3\r\na\0b\r\n".split_inclusive('\n') {
        client.send(piece).await;
    }
    assert_eq!(client.read(9).await, b"$3\r\na\0b\r\n");
    // Longer than that without a command is allowed: the connection is idle.
    let idle = timeout(Duration::from_millis(400), client.rest()).await;
    assert!(idle.is_err());
    client.send("PING\r\nPIN").await;
    assert_eq!(client.rest().await, "+PONG\r\n");
    assert_eq!(errors(&house, "timeout").await.as_deref(), Some("1"));
}

/// Some clients fill the buffer of all connections. The first that finds no room learns why.
#[tokio::test]
async fn a_command_without_room_gets_an_error() {
    let house = house(|config| config.limits.buffer = 256 * 1024).await;
    let begun = format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{}", "x".repeat(59_999));
    let mut ended = JoinSet::new();
    for _connection in 0..16 {
        let mut client = RedisClient::to(&house).await;
        client.send(&begun).await;
        ended.spawn(async move { client.rest().await });
    }
    let reply = ended.join_next().await.unwrap().unwrap();
    let begin = "-ERR no room for this command: ";
    assert!(reply.starts_with(begin), "{reply}");
    assert!(errors(&house, "no_room").await.is_some());
}

/// Without a password nobody takes the room of others.
#[tokio::test]
async fn a_client_that_is_unknown_may_send_little() {
    let house = locked_house().await;
    let mut client = RedisClient::to(&house).await;
    client
        .send(format!("ECHO {}\r\n", "x".repeat(10_000)))
        .await;
    assert_eq!(client.read(NO_AUTH.len()).await, NO_AUTH.as_bytes());
    let long = format!("*2\r\n$4\r\nECHO\r\n$20000\r\n{}", "x".repeat(20_000));
    client.send(&long).await;
    let rejected = "-ERR Protocol error: unauthenticated bulk length\r\n";
    assert_eq!(client.rest().await, rejected);
    let mut client = RedisClient::to(&house).await;
    client.send(format!("AUTH '{PASSWORD}'\r\n")).await;
    assert_eq!(client.read(5).await, b"+OK\r\n");
    client.send(format!("{long}\r\nQUIT\r\n")).await;
    assert!(client.rest().await.ends_with("x\r\n+OK\r\n"));
}

/// Libraries make a name of the program's, its version and the host's.
#[tokio::test]
async fn names_of_clients_may_be_long() {
    let house = house(|_| ()).await;
    let mut client = RedisClient::to(&house).await;
    let name = "n".repeat(512);
    let setting = format!("CLIENT SETNAME {name}");
    client.expect(&setting, "+OK\r\n").await;
    let kept = format!("$512\r\n{name}\r\n");
    client.expect("CLIENT GETNAME", &kept).await;
    let longer = format!("{setting}n");
    let error = "-ERR Client names have at most 512 bytes\r\n";
    client.expect(&longer, error).await;
}

/// The service stops reading while replies wait, so what a client can make it keep is bounded; and
/// not one reply is lost.
#[tokio::test]
async fn a_client_that_does_not_read_is_not_read() {
    let house = house(|_| ()).await;
    let mut client = RedisClient::to(&house).await;
    let word = "x".repeat(8000);
    let command = format!("*2\r\n$4\r\nECHO\r\n$8000\r\n{word}\r\n");
    let reply = format!("$8000\r\n{word}\r\n");
    let (mut sent, mut stalled) = (0, false);
    while !stalled {
        assert!(sent < 200 << 20, "the service keeps everything");
        let rest = &command.as_bytes()[sent % command.len()..];
        stalled = match timeout(Duration::from_secs(2), client.0.writable()).await {
            Err(_) => true,
            Ok(ready) => match ready.and_then(|()| client.0.try_write(rest)) {
                Ok(written) => {
                    sent += written;
                    false
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    false
                }
            },
        };
    }
    for _ in 0..sent / command.len() {
        assert_eq!(client.read(reply.len()).await, reply.as_bytes());
    }
}

#[tokio::test]
async fn a_client_that_never_reads_is_closed() {
    let house = house(|config| config.limits.write_timeout = Duration::from_millis(100)).await;
    let mut client = RedisClient::to(&house).await;
    let command = format!("*2\r\n$4\r\nECHO\r\n$8000\r\n{}\r\n", "x".repeat(8000));
    // The service resets the connection, at the latest when its buffers are full.
    let closed = async {
        use tokio::io::AsyncWriteExt;
        while client.0.write_all(command.as_bytes()).await.is_ok() {}
    };
    timeout(Duration::from_secs(20), closed).await.unwrap();
    let text = Client::to(house.admin()).await.get("/metrics").await.body;
    let closed = "tollgate_connections_closed_total{listener=\"redis\",reason=\"slow_reader\"} 1";
    assert!(text.contains(closed), "{text}");
}

#[tokio::test]
async fn a_pipeline_in_flight_is_answered_before_the_service_stops() {
    const COMMANDS: usize = 10_000;
    let house = house(|_| ()).await;
    let mut client = RedisClient::to(&house).await;
    let mut idle = RedisClient::to(&house).await;
    idle.expect("PING", "+PONG\r\n").await;
    client
        .send("CL.THROTTLE k 9999 1 60\r\n".repeat(COMMANDS))
        .await;
    let stopping = tokio::spawn(house.running.stop());
    let read = client.rest().await;
    assert_eq!(read.matches("*5\r\n:0\r\n").count(), COMMANDS);
    assert_eq!(idle.rest().await, "");
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_full_listener_says_so_and_answers_health_checks() {
    let house = house(|config| config.limits.connections_per_address = 1).await;
    let mut first = RedisClient::to(&house).await;
    first.expect("PING", "+PONG\r\n").await;
    // As long as the first one is not idle, there is no place for others.
    let mut others = Vec::new();
    for (line, reply) in [
        ("PING\r\n", "+PONG\r\n"),
        (
            "CL.THROTTLE k 1 1 1\r\n",
            "-ERR max number of clients reached\r\n",
        ),
    ] {
        first.expect("PING", "+PONG\r\n").await;
        let mut other = RedisClient::to(&house).await;
        other.send(line).await;
        assert_eq!(other.rest().await, reply);
        others.push(other);
    }
}
