//! Programs and libraries that know nothing of us.

use std::process::{Command, Output};

use redis::{Client as RedisRs, ConnectionLike, ErrorKind, ServerErrorKind, Value};
use tollgate_listen::TlsFiles;
use tollgate_testbed::Certificates;

use crate::house::House;
use crate::redis_client::{redis_of, with_redis};

const RULES: &str = "domain: shop\ndescriptors: [{key: user, rate_limit: 3/day}]\n";

async fn house() -> House {
    House::with(RULES, with_redis).await
}

/// Whether a program succeeds that is given the port, and what it prints.
async fn try_run(house: &House, program: &'static str, arguments: &[&str]) -> (bool, String) {
    let port = redis_of(house).port().to_string();
    let mut command = Command::new(program);
    command.args(["-p", &port]).args(arguments);
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let Output {
        status,
        stdout,
        stderr,
    } = ran.unwrap().unwrap();
    let text = match status.success() {
        true => stdout,
        false => [stdout, stderr].concat(),
    };
    (
        status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// What a program prints.
async fn run(house: &House, program: &'static str, arguments: &[&str]) -> String {
    let (succeeded, shown) = try_run(house, program, arguments).await;
    assert!(succeeded, "{program}: {shown}");
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_cli_asks() {
    let house = house().await;
    let asked = run(
        &house,
        "redis-cli",
        &["CL.THROTTLE", "user123", "15", "30", "60"],
    )
    .await;
    assert_eq!(asked, "0\n16\n15\n-1\n2\n");
    let three = ["-3", "TG.CHECK", "shop", "1", "user", "ann"];
    assert_eq!(
        run(&house, "redis-cli", &three).await,
        "0\n3\n2\n-1\n43200\n0\nuser\n"
    );
    assert!(
        run(&house, "redis-cli", &["INFO"])
            .await
            .contains("loading:0")
    );
    assert!(
        run(&house, "redis-cli", &["COMMAND", "LIST"])
            .await
            .contains("cl.throttle")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_cli_asks_over_tls() {
    let issued = Certificates::new();
    let (cert, key) = issued.identity();
    let house = House::with(RULES, |config| {
        with_redis(config);
        config.listen.last_mut().unwrap().tls = Some(TlsFiles {
            cert: cert.clone().into(),
            key: key.clone().into(),
            client_ca: Some(issued.authority().into()),
        });
    })
    .await;
    let authority = issued.authority();
    let trusting = ["--tls", "--cacert", &authority];
    let certified = ["--cert", &cert, "--key", &key];
    let ask = ["TG.CHECK", "shop", "1", "user", "ann"];
    let asked = run(
        &house,
        "redis-cli",
        &[&trusting[..], &certified, &ask].concat(),
    )
    .await;
    assert_eq!(asked, "0\n3\n2\n-1\n43200\n0\nuser\n");
    // Neither without a certificate nor without TLS.
    for arguments in [&[&trusting[..], &ask].concat()[..], &ask] {
        let (asked, _) = try_run(&house, "redis-cli", arguments).await;
        assert!(!asked, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_benchmark_runs() {
    let house = house().await;
    let load = [
        "-q", "--csv", "-n", "2000", "-P", "16", "-c", "4", "-e", "-r", "100",
    ];
    let command = ["CL.THROTTLE", "key:__rand_int__", "15", "30", "60"];
    let printed = run(
        &house,
        "redis-benchmark",
        &[&load[..], &command[..]].concat(),
    )
    .await;
    assert!(printed.contains("CL.THROTTLE"), "{printed}");
    assert!(!printed.to_lowercase().contains("error"), "{printed}");
    let printed = run(
        &house,
        "redis-benchmark",
        &["-q", "--csv", "-n", "1000", "-t", "ping"],
    )
    .await;
    assert!(printed.contains("PING_MBULK"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_rs_asks_in_both_versions() {
    let house = house().await;
    let address = redis_of(&house);
    for protocol in ["", "?protocol=resp3"] {
        let url = format!("redis://{address}/{protocol}");
        let asked = tokio::task::spawn_blocking(move || {
            let mut connection = RedisRs::open(url)?.get_connection()?;
            let mut pipeline = redis::pipe();
            for _ in 0..3 {
                let throttle = pipeline.cmd("CL.THROTTLE").arg(protocol).arg(1);
                throttle.arg(1).arg(3600);
            }
            let throttled: Vec<[i64; 5]> = pipeline.query(&mut connection)?;
            let limited: Vec<i64> = throttled.iter().map(|numbers| numbers[0]).collect();
            assert_eq!(limited, [0, 0, 1]);
            let mut check = redis::cmd("TG.CHECK");
            check
                .arg("shop")
                .arg(1)
                .arg("user")
                .arg(format!("u{protocol}").as_bytes());
            let checked: (i64, i64, i64, i64, i64, i64, String) = check.query(&mut connection)?;
            assert_eq!((checked.0, checked.2, checked.6), (0, 2, "user".to_owned()));
            let error = redis::cmd("GET")
                .arg("k")
                .query::<Value>(&mut connection)
                .unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Server(ServerErrorKind::ResponseError)
            );
            assert!(connection.check_connection());
            Ok::<(), redis::RedisError>(())
        });
        asked.await.unwrap().unwrap();
    }
}
