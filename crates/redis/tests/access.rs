//! Connecting to a server: a Unix socket, a client certificate, sentinels with a password.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::{Charge, Cost, KeyHasher, Limit, Span};
use tollgate_redis::{Config, Identity, Redis, Secret, Servers, Tls, UNIX};
use tollgate_testbed as testbed;

/// Longer than any reply takes in these tests.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// Decides until it succeeds; the reason if it does not.
async fn decides(config: &Config) -> Result<(), String> {
    let store = Redis::connect(config).unwrap();
    let limit = Limit::token_bucket(1_000, Span::HOUR).unwrap();
    let charge = Charge::new(store.key([&b"a"[..]].into_iter()), &limit, Cost::ONE);
    let latest = Instant::now() + REPLY_TIMEOUT;
    while store.decide(&[charge]).await.is_err() {
        if let Some(why) = store.trouble() {
            return Err(why);
        }
        assert!(Instant::now() < latest, "neither an answer nor a reason");
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_socket_of_this_machine() {
    let folder = testbed::Folder::new();
    let path = folder.file("redis.sock");
    let _redis = testbed::Redis::start_with(&testbed::Setup::with(&["--unixsocket", &path]));
    let config = Config::single(format!("{UNIX}{path}"));
    assert_eq!(decides(&config).await, Ok(()));
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate() {
    let certificates = testbed::Certificates::new();
    let redis = certificates.start_asking("tg:");
    let tls = Tls {
        authorities: Some(certificates.authority().into()),
        ..Tls::default()
    };
    let config = |tls: &Tls| Config {
        tls: Some(tls.clone()),
        username: Some(testbed::USER.to_owned()),
        password: Some(Secret::new(testbed::PASSWORD)),
        ..Config::single(redis.address())
    };
    let without = decides(&config(&tls)).await;
    assert!(without.is_err(), "nobody asked for a certificate");
    let (certificate, key) = certificates.identity();
    let with = Tls {
        identity: Some(Identity {
            certificate: certificate.into(),
            key: key.into(),
        }),
        ..tls
    };
    assert_eq!(decides(&config(&with)).await, Ok(()));
}

#[tokio::test]
async fn sentinels_with_a_password_of_their_own() {
    let sentinels = testbed::Sentinels::start();
    for address in sentinels.addresses() {
        let (_, port) = address.rsplit_once(':').unwrap();
        let set = [
            "-p",
            port,
            "ACL",
            "SETUSER",
            "default",
            "resetpass",
            ">theirs",
        ];
        assert!(
            Command::new("redis-cli")
                .args(set)
                .status()
                .unwrap()
                .success()
        );
    }
    let servers = Servers::Sentinel {
        addresses: sentinels.addresses(),
        master: testbed::Sentinels::MASTER.to_owned(),
    };
    let config = |sentinel_password| Config {
        sentinel_password,
        ..Config::new(servers.clone())
    };
    let why = decides(&config(None)).await.unwrap_err();
    assert!(why.contains("a password is needed (NOAUTH)"), "{why}");
    let why = decides(&config(Some(Secret::new("hunter2"))))
        .await
        .unwrap_err();
    assert!(
        why.contains("WRONGPASS") && !why.contains("hunter2"),
        "{why}"
    );
    let right = config(Some(Secret::new("theirs")));
    assert_eq!(decides(&right).await, Ok(()));
}
