//! The Redis protocol over sockets.

use tollgate_core::Span;
use tollgate_server::{Outcome, Place};
use tollgate_testbed::Redis;

use crate::house::House;
use crate::http_client::Client;
use crate::over_redis::at;
use crate::redis_client::{RedisClient, integers, with_redis};

const RULES: &str = "domain: shop\ndescriptors:\n- {key: user, rate_limit: {unit: minute, \
    requests_per_unit: 3, algorithm: token_bucket}}\n- {key: free, rate_limit: {unlimited: true}}\n\
    - {key: queue, rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, \
    queue: 3}}\n";

async fn house() -> House {
    House::with(RULES, with_redis).await
}

/// The line of a metric.
async fn metric(house: &House, name: &str) -> Option<String> {
    let text = Client::to(house.admin()).await.get("/metrics").await.body;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map(|value| value.trim().to_owned())
}

#[tokio::test]
async fn throttle_answers_as_redis_cell_does() {
    let house = house().await;
    let mut client = RedisClient::to(&house).await;
    // Milliseconds since the last one, the quantity, and the reply: limited, limit, remaining,
    // retry after, reset after.
    let cases = [
        (0, 6, [1, 5, 5, -1, 0]),
        (0, 1, [0, 5, 4, -1, 1]),
        (0, 1, [0, 5, 3, -1, 2]),
        (0, 3, [0, 5, 0, -1, 5]),
        (0, 1, [1, 5, 0, 1, 5]),
        (0, 0, [0, 5, 0, -1, 5]),
        (3000, 1, [0, 5, 2, -1, 3]),
        (100, 1, [0, 5, 1, -1, 4]),
        (900, 1, [0, 5, 1, -1, 4]),
        (4000, 1, [0, 5, 4, -1, 1]),
        (1500, 1, [0, 5, 4, -1, 1]),
        (0, 0, [0, 5, 4, -1, 1]),
        (0, 2, [0, 5, 2, -1, 3]),
        (0, 5, [1, 5, 2, 3, 3]),
        (0, -1, [0, 5, 3, -1, 2]),
        (0, -9, [0, 5, 5, -1, 0]),
    ];
    for (millis, quantity, reply) in cases {
        house.clock.advance(Span::from_millis(millis));
        let line = format!("CL.THROTTLE foo 4 1 1 {quantity}");
        client.expect(&line, &integers(&reply)).await;
    }
    // A denial never says zero, however short the wait is.
    let (taken, denied) = ("cl.throttle fast 0 1000 1", [1, 1, 0, 1, 1]);
    client.expect(taken, &integers(&[0, 1, 0, -1, 1])).await;
    client.expect(taken, &integers(&denied)).await;
    // After that wait it is allowed.
    house.clock.advance(Span::SECOND);
    client.expect(taken, &integers(&[0, 1, 0, -1, 1])).await;
}

#[tokio::test]
async fn a_key_keeps_what_it_used_when_its_limit_changes() {
    let house = house().await;
    let mut client = RedisClient::to(&house).await;
    let (large, small) = ("CL.THROTTLE k 9 10 100 10", "CL.THROTTLE k 0 1 10");
    client.expect(large, &integers(&[0, 10, 0, -1, 100])).await;
    // A hundred seconds of debt, of which the small limit allows ten.
    client.expect(small, &integers(&[1, 1, 0, 100, 100])).await;
    client
        .expect("CL.THROTTLE k 0 1 10 0", &integers(&[1, 1, 0, 90, 100]))
        .await;
    // The small limit erased nothing.
    client
        .expect("CL.THROTTLE k 9 10 100", &integers(&[1, 10, 0, 10, 100]))
        .await;
}

/// Where redis-cell 0.2.2 answers differently, as docs/redis-protocol.md says.
#[tokio::test]
async fn throttle_differs_from_redis_cell_where_the_page_says() {
    let house = house().await;
    let mut client = RedisClient::to(&house).await;
    // Seconds are rounded up, so that a client that waits that long is allowed.
    let (empty, two) = (
        "CL.THROTTLE a 29 100 86400 30",
        "CL.THROTTLE a 29 100 86400 2",
    );
    client
        .expect(empty, &integers(&[0, 30, 0, -1, 25920]))
        .await;
    house.clock.advance(Span::from_nanos(1000));
    client
        .expect(two, &integers(&[1, 30, 0, 1728, 25920]))
        .await;
    // Units come back also while the key owes more than this limit allows.
    let (used, smaller) = (
        "CL.THROTTLE b 14 30 86400 10",
        "CL.THROTTLE b 4 30 86400 -2",
    );
    client.expect(used, &integers(&[0, 15, 5, -1, 28800])).await;
    client
        .expect(smaller, &integers(&[0, 5, 0, -1, 23040]))
        .await;
    let left = "CL.THROTTLE b 14 30 86400 0";
    client.expect(left, &integers(&[0, 15, 7, -1, 23040])).await;
    // A full bucket stays full, without an error.
    let full = "CL.THROTTLE c 14 30 86400 -1";
    client.expect(full, &integers(&[0, 15, 15, -1, 0])).await;
}

#[tokio::test]
async fn terms_out_of_range_are_errors_with_a_reason() {
    let house = house().await;
    let mut client = RedisClient::to(&house).await;
    let cases = [
        ("x 30 60", "max_burst is not an integer or out of range"),
        ("1 30 60 1.5", "quantity is not an integer or out of range"),
        (
            "1 99999999999999999999 60",
            "count is not an integer or out of range",
        ),
        (
            "-1 30 60",
            "max_burst is negative or larger than 4294967294",
        ),
        (
            "9223372036854775807 30 60",
            "max_burst is negative or larger than 4294967294",
        ),
        (
            "1 0 60",
            "Zero rates are not supported; deny without asking",
        ),
        (
            "1 30 0",
            "Zero rates are not supported; deny without asking",
        ),
        ("1 -30 60", "count is negative or larger than 4294967295"),
        ("1 30 -60", "period is negative or larger than 31622400"),
        ("1 1 99999999", "period is negative or larger than 31622400"),
        (
            "1 20000000 1",
            "a bucket refills at most one unit in 100ns: 20000000 per 1s is above its 10000000",
        ),
    ];
    for (terms, reason) in cases {
        let line = format!("CL.THROTTLE k {terms}");
        client.expect(&line, &format!("-ERR {reason}\r\n")).await;
    }
    let few = "-ERR wrong number of arguments for 'cl.throttle' command; write CL.THROTTLE key \
        max_burst count period [quantity]\r\n";
    client.expect("cl.throttle k 1 2", few).await;
    let most = "CL.THROTTLE k 0 1 1 9223372036854775807";
    client.expect(most, &integers(&[1, 1, 1, -1, 0])).await;
    let least = "CL.THROTTLE k 0 1 1 -9223372036854775808";
    client.expect(least, &integers(&[0, 1, 1, -1, 0])).await;
}

#[tokio::test]
async fn rules_decide_what_tg_commands_ask() {
    let house = House::with(RULES, |config| {
        with_redis(config);
        config.allow_refund = true;
    })
    .await;
    let mut client = RedisClient::to(&house).await;
    let reply = |numbers: [i64; 6], rule: Option<&str>| {
        let rule = rule.map_or("$-1\r\n".to_owned(), |rule| {
            format!("${}\r\n{rule}\r\n", rule.len())
        });
        let numbers = numbers.map(|number| format!(":{number}\r\n")).concat();
        format!("*7\r\n{numbers}{rule}")
    };
    let user = Some("user");
    let cases = [
        ("TG.PEEK shop 3 user ann", reply([0, 3, 3, -1, 0, 0], user)),
        (
            "TG.CHECK shop 2 user ann",
            reply([0, 3, 1, -1, 40, 0], user),
        ),
        (
            "TG.CHECK shop 2 user ann",
            reply([1, 3, 1, 20, 40, 0], user),
        ),
        (
            "TG.CHECK shop 9 user ann",
            reply([1, 3, 1, -1, 40, 0], user),
        ),
        (
            "TG.REFUND shop 1 user ann",
            reply([0, 3, 2, -1, 20, 0], user),
        ),
        (
            "tg.check shop 1 user \"\\xff\"",
            reply([0, 3, 2, -1, 20, 0], user),
        ),
        (
            "TG.CHECK shop 1 free x",
            reply([0, -1, -1, -1, 0, 0], Some("free")),
        ),
        (
            "TG.CHECK shop 1 other x",
            reply([0, -1, -1, -1, 0, 0], None),
        ),
        (
            "TG.CHECK nowhere 1 user x",
            reply([0, -1, -1, -1, 0, 0], None),
        ),
        (
            "TG.CHECK shop 1 queue x",
            reply([0, 3, 2, -1, 1, 0], Some("queue")),
        ),
        (
            "TG.CHECK shop 1 queue x",
            reply([0, 3, 1, -1, 1, 500], Some("queue")),
        ),
    ];
    for (line, expected) in &cases {
        client.expect(line, expected).await;
    }
    let decided = "tollgate_decisions_total{domain=\"shop\",rule=\"user\",outcome=\"denied\"}";
    assert_eq!(metric(&house, decided).await.as_deref(), Some("2"));
}

/// The limit that is reported is N; what remains counts the soft and the elastic part.
#[tokio::test]
async fn the_limit_of_a_reply_is_that_of_the_rule() {
    const PARTS: &str = "domain: shop\ndescriptors:\n\
        - {key: soft, rate_limit: {unit: day, requests_per_unit: 10, soft: 20%}}\n\
        - {key: elastic, rate_limit: {unit: day, requests_per_unit: 10, \
            elastic: {share: 50%, while: [reported]}}}\n\
        - {key: bucket, rate_limit: {unit: day, requests_per_unit: 10, algorithm: token_bucket, \
            burst: 5, soft: 20%}}\n";
    let house = House::with(PARTS, with_redis).await;
    let mut client = RedisClient::to(&house).await;
    for (key, limit, left) in [("soft", 10, 12), ("elastic", 10, 10), ("bucket", 5, 6)] {
        client.send(format!("TG.PEEK shop 1 {key} x\r\n")).await;
        let reply = client.lines(9).await;
        let (limit, left) = (format!(":{limit}"), format!(":{left}"));
        assert_eq!(reply[1..4], [":0", &*limit, &*left], "{key}");
    }
}

/// A program writes the keys in the order of its own, and a limit must not depend on it.
#[tokio::test]
async fn rules_match_entries_in_any_order() {
    const NESTED: &str = "domain: shop\ndescriptors:\n- key: ip\n  descriptors:\n  - {key: path, \
        rate_limit: {unit: minute, requests_per_unit: 3, algorithm: token_bucket}}\n";
    let house = House::with(NESTED, |config| {
        with_redis(config);
        config.allow_refund = true;
    })
    .await;
    let mut client = RedisClient::to(&house).await;
    for (line, left, reset) in [
        ("TG.CHECK shop 1 path / ip 1", 2, 20),
        ("TG.CHECK shop 1 ip 1 path /", 1, 40),
        ("TG.PEEK shop 1 path / ip 1", 1, 40),
        ("TG.REFUND shop 1 path / ip 1", 2, 20),
        ("TG.CHECK shop 1 path / ip 2", 2, 20),
    ] {
        let numbers = format!(":0\r\n:3\r\n:{left}\r\n:-1\r\n:{reset}\r\n:0\r\n");
        let expected = format!("*7\r\n{numbers}$7\r\nip.path\r\n");
        client.expect(line, &expected).await;
    }
}

#[tokio::test]
async fn tg_commands_that_cannot_be_decided_say_why() {
    let house = house().await;
    let mut client = RedisClient::to(&house).await;
    let errors = [
        (
            "TG.CHECK shop 1 user",
            "ERR wrong number of arguments for 'tg.check' command; write TG.CHECK domain cost key \
             value [key value ...]",
        ),
        (
            "TG.CHECK shop 1 user a b",
            "ERR a key without a value; write key value [key value ...]",
        ),
        (
            "TG.CHECK shop -1 user a",
            "ERR cost '-1' is not a number of units, from 0 on",
        ),
        (
            "TG.CHECK '' 1 user a",
            "ERR rate limit domain must not be empty",
        ),
        (
            "TG.CHECK shop 1 user a ip b user a",
            "ERR two entries with the key 'user'; write a command for each value",
        ),
        (
            "TG.PEEK shop 1 user a user b",
            "ERR two entries with the key 'user'; write a command for each value",
        ),
        (
            "TG.RESET shop user ann",
            "NOPERM TG.RESET needs the user admin, which `redis_protocol.admin_password_file` in \
             the settings makes",
        ),
        (
            "CLIENT KILL x",
            "ERR unknown subcommand 'KILL'. CLIENT knows GETNAME, ID, INFO, NO-EVICT, NO-TOUCH, \
             SETINFO, SETNAME",
        ),
        (
            "CONFIG SET save x",
            "ERR unknown subcommand 'SET'. CONFIG knows GET",
        ),
    ];
    for (line, error) in errors {
        client.expect(line, &format!("-{error}\r\n")).await;
    }
}

#[tokio::test]
async fn replies_have_the_order_of_their_commands() {
    let house = house().await;
    let mut client = RedisClient::to(&house).await;
    for size in [1, 16, 64, 1000] {
        let (mut sent, mut expected) = (String::new(), String::new());
        for number in 0..size {
            let key = format!("{size}/{number}");
            sent += &format!("CL.THROTTLE {key} 7 1 1\r\nTG.PEEK shop 1 user {key}\r\n");
            expected += &integers(&[0, 8, 7, -1, 1]);
            expected += "*7\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n:0\r\n$4\r\nuser\r\n";
            if number % 7 == 0 {
                sent += &format!("PING {number}\r\nCL.THROTTLE {key} x 1 1\r\nNONSENSE\r\n\r\n");
                let text = number.to_string();
                expected += &format!("${}\r\n{text}\r\n", text.len());
                expected += "-ERR max_burst is not an integer or out of range\r\n";
                expected += "-ERR unknown command 'NONSENSE', with args beginning with: \r\n";
            }
        }
        client.send(&sent).await;
        let read = client.read(expected.len()).await;
        assert_eq!(String::from_utf8(read).unwrap(), expected, "{size}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_connections_at_once_get_exactly_the_limit() {
    let house = house().await;
    let (mut one, mut other) = (RedisClient::to(&house).await, RedisClient::to(&house).await);
    let pipeline = "CL.THROTTLE one 999 1 60\r\n".repeat(800);
    tokio::join!(one.send(&pipeline), other.send(&pipeline));
    let mut allowed = 0;
    for client in [&mut one, &mut other] {
        client.send("QUIT\r\n").await;
        allowed += client.rest().await.matches("*5\r\n:0\r\n").count();
    }
    assert_eq!(allowed, 1000);
}

/// An error is found at once, and the decisions before it are not: they come first all the same.
#[tokio::test]
async fn an_error_comes_behind_the_replies_to_the_commands_before_it() {
    let house = house().await;
    let mut client = RedisClient::to(&house).await;
    let lines = "TG.CHECK shop 4 user ann\r\nTG.CHECK shop 1 user\r\nTG.CHECK shop 1 user ann";
    client.send(format!("{lines}\r\nQUIT\r\n")).await;
    let replies = client.rest().await;
    let error = replies.find("-ERR wrong number of arguments").unwrap();
    let decisions: Vec<usize> = replies
        .match_indices("*7\r\n")
        .map(|found| found.0)
        .collect();
    assert_eq!(decisions.len(), 2, "{replies}");
    assert!(decisions[0] < error && error < decisions[1], "{replies}");
}

/// Ten units a day of which two are kept, in a domain with another name for the priority, and a
/// domain whose rules ask for none.
const WITH_PRIORITY: &str = "
domain: api
priority_key: rank
descriptors:
  - key: user
    rate_limit:
      requests_per_unit: 10
      window: 1d
      algorithm: fixed_window
      anchor: first_request
      reserved: {share: 20%, for: [critical]}
";
const WITHOUT_PRIORITY: &str = "
domain: api
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 10, window: 1d, algorithm: fixed_window, anchor: first_request}
    descriptors: [{key: rank, rate_limit: {requests_per_unit: 4, unit: day}}]
";

/// How many of twelve commands are allowed.
async fn spend(client: &mut RedisClient, entries: &str) -> usize {
    let line = format!("TG.CHECK api 1 {entries}\r\n");
    client.send(line.repeat(12) + "ECHO end\r\n").await;
    let mut read = Vec::new();
    while !read.ends_with(b"$3\r\nend\r\n") {
        read.extend(client.read(1).await);
    }
    let text = String::from_utf8(read).unwrap();
    assert_eq!(text.matches("*7\r\n").count(), 12, "{text}");
    text.matches("*7\r\n:0\r\n:10\r\n").count()
}

async fn keeps_the_share(store: Option<Place>) {
    let house = House::with(WITH_PRIORITY, |config| {
        with_redis(config);
        config.allow_refund = true;
        config.store = store.unwrap_or(Place::Memory);
    })
    .await;
    let mut client = RedisClient::to(&house).await;
    assert_eq!(spend(&mut client, "user ann").await, 8);
    assert_eq!(spend(&mut client, "rank low user ann").await, 0);
    // Only the key of the domain states a priority: other words are entries like all others, and
    // no rule is for them.
    let no_rule = "*7\r\n:0\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n:0\r\n$-1\r\n";
    for line in [
        "TG.CHECK api 1 user ann priority critical",
        "TG.CHECK api 1 rank critical",
        "TG.CHECK elsewhere 1 user ann rank critical",
    ] {
        client.expect(line, no_rule).await;
    }
    assert_eq!(spend(&mut client, "user ann rank critical").await, 2);
    assert_eq!(spend(&mut client, "rank critical user ann").await, 0);
    // All the other commands know it as well.
    let reply = |numbers: &str| format!("*7\r\n{numbers}:86400\r\n:0\r\n$4\r\nuser\r\n");
    for (line, numbers) in [
        (
            "TG.PEEK api 1 user ann rank critical",
            ":1\r\n:10\r\n:0\r\n:86400\r\n",
        ),
        (
            "TG.REFUND api 1 rank critical user ann",
            ":0\r\n:10\r\n:1\r\n:-1\r\n",
        ),
        (
            "TG.PEEK api 1 user ann rank critical",
            ":0\r\n:10\r\n:1\r\n:-1\r\n",
        ),
        ("TG.PEEK api 1 user ann", ":1\r\n:10\r\n:0\r\n:86400\r\n"),
    ] {
        client.expect(line, &reply(numbers)).await;
    }
    // In a transaction as well.
    client
        .send("MULTI\r\nTG.CHECK api 1 user ann rank critical\r\nEXEC\r\nQUIT\r\n")
        .await;
    let rest = client.rest().await;
    assert!(rest.contains("*1\r\n*7\r\n:0\r\n:10\r\n:0\r\n"), "{rest}");
}

#[tokio::test]
async fn a_command_states_its_priority_in_memory() {
    keeps_the_share(None).await;
}

#[tokio::test]
async fn a_command_states_its_priority_over_redis() {
    let redis = Redis::start();
    keeps_the_share(Some(at(&redis))).await;
}

/// The words mean what the rules in effect say.
#[tokio::test]
async fn a_reload_changes_which_key_states_the_priority() {
    let house = House::with(WITHOUT_PRIORITY, with_redis).await;
    let mut client = RedisClient::to(&house).await;
    let reload = async |rules: &str| {
        std::fs::write(house.path("rules.yaml"), rules).unwrap();
        assert_eq!(house.running.reload().await, Outcome::InEffect);
    };
    let line = "TG.PEEK api 1 user ann rank critical";
    let reply = |limit: u32, reset: u32, rule: &str| {
        let length = rule.len();
        let numbers = format!(":0\r\n:{limit}\r\n:{limit}\r\n:-1\r\n:{reset}\r\n:0\r\n");
        format!("*7\r\n{numbers}${length}\r\n{rule}\r\n")
    };
    client.expect(line, &reply(4, 43_200, "user.rank")).await;
    reload(WITH_PRIORITY).await;
    client.expect(line, &reply(10, 86_400, "user")).await;
    reload(&WITH_PRIORITY.replace("rank", "priority")).await;
    client
        .expect(
            "TG.PEEK api 1 user ann priority critical",
            &reply(10, 86_400, "user"),
        )
        .await;
    reload(WITHOUT_PRIORITY).await;
    client.expect(line, &reply(4, 43_200, "user.rank")).await;
}
