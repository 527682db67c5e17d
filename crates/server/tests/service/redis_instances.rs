//! `TG.*` at two instances that share their counters over a real Redis.

use redis::{Client as RedisRs, Connection};
use tollgate_server::Password;
use tollgate_testbed::Redis;

use crate::house::House;
use crate::over_redis::{at, calls, through_one_connection};
use crate::redis_client::{RedisClient, redis_of, with_redis};

const LIMIT: i64 = 30;
/// A day that begins with the first request, not at midnight.
const RULES: &str = "domain: shop\ndescriptors:\n- key: user\n  rate_limit: {window: 1d, \
    requests_per_unit: 30, algorithm: fixed_window, anchor: first_request}\n";
const ADMIN_PASSWORD: &str = "staple of the admin";

async fn instance(redis: &Redis) -> House {
    House::with(RULES, |config| {
        with_redis(config);
        config.store = at(redis);
        config.redis_protocol.admin_password = Password(Some(ADMIN_PASSWORD.to_owned()));
    })
    .await
}

fn connect(house: &House) -> Connection {
    let password = ADMIN_PASSWORD.replace(' ', "%20");
    let url = format!("redis://admin:{password}@{}", redis_of(house));
    RedisRs::open(url).unwrap().get_connection().unwrap()
}

/// Whether a command was limited, and what remains.
fn ask(connection: &mut Connection, command: &str) -> (bool, i64) {
    let mut words = command.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    let reply: (i64, i64, i64, i64, i64, i64, String) = command.query(connection).unwrap();
    assert_eq!((reply.1, reply.6.as_str()), (LIMIT, "user"));
    (reply.0 == 1, reply.2)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_instance_charges_and_returns_another_one_sees() {
    let redis = Redis::start();
    let (one, other) = (instance(&redis).await, instance(&redis).await);
    let asked = tokio::task::spawn_blocking(move || {
        let (mut first, mut second) = (connect(&one), connect(&other));
        assert_eq!(ask(&mut first, "TG.CHECK shop 10 user ann"), (false, 20));
        assert_eq!(ask(&mut second, "TG.PEEK shop 20 user ann"), (false, 20));
        assert_eq!(ask(&mut second, "TG.CHECK shop 20 user ann"), (false, 0));
        assert_eq!(ask(&mut first, "TG.CHECK shop 1 user ann"), (true, 0));
        assert_eq!(ask(&mut first, "TG.PEEK shop 1 user ann"), (true, 0));
        // An instance that has denied learns a little later what another one returns.
        assert_eq!(ask(&mut first, "TG.REFUND shop 7 user ann"), (false, 7));
        assert_eq!(ask(&mut second, "TG.PEEK shop 7 user ann"), (false, 7));
        assert_eq!(ask(&mut first, "TG.RESET shop user ann"), (false, LIMIT));
        assert_eq!(ask(&mut second, "TG.CHECK shop 30 user ann"), (false, 0));
        (one, other)
    });
    drop(asked.await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelines_at_two_instances_allow_exactly_one_limit() {
    let redis = Redis::start();
    let (one, other) = (instance(&redis).await, instance(&redis).await);
    let pipelines = [&one, &other].map(|house| {
        let mut connection = connect(house);
        tokio::task::spawn_blocking(move || {
            let mut pipeline = redis::pipe();
            for _ in 0..2 * LIMIT {
                let check = pipeline.cmd("TG.CHECK");
                check.arg("shop").arg(1).arg("user").arg("bob");
            }
            let replies: Vec<(i64, i64, i64, i64, i64, i64, String)> =
                pipeline.query(&mut connection).unwrap();
            replies.iter().filter(|reply| reply.0 == 0).count()
        })
    });
    let mut allowed = 0;
    for pipeline in pipelines {
        allowed += pipeline.await.unwrap();
    }
    assert_eq!(i64::try_from(allowed).unwrap(), LIMIT);
}

/// In one thread, the task that sends to Redis runs once all commands are queued. The pipeline is
/// one call for each connection to Redis that its keys are spread over, so here there is one.
#[tokio::test]
async fn a_pipeline_goes_to_the_store_as_one_batch() {
    let redis = Redis::start();
    let house = House::with(RULES, |config| {
        with_redis(config);
        config.store = through_one_connection(&redis);
    })
    .await;
    let mut client = RedisClient::to(&house).await;
    for (size, expected) in [(1, 1), (64, 1), (65, 2), (128, 2), (200, 4)] {
        let before = calls(&house).await;
        let line = |number| format!("TG.CHECK shop 1 user {size}/{number}\r\n");
        let pipeline: String = (0..size).map(line).collect();
        assert!(pipeline.len() < 8 * 1024, "all of it is read at once");
        client.send(pipeline).await;
        let reply = "*7\r\n:0\r\n:30\r\n:29\r\n:-1\r\n:86400\r\n:0\r\n$4\r\nuser\r\n";
        let replies = client.read(size * reply.len()).await;
        assert_eq!(String::from_utf8(replies).unwrap(), reply.repeat(size));
        assert_eq!(calls(&house).await - before, expected, "{size} commands");
    }
}
