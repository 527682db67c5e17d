#![allow(clippy::unwrap_used)]

use tokio::net::TcpListener;
use tokio::time::Duration;
use tollgate_testbed as testbed;

use super::*;
use crate::config::Tls;

/// The address of a server that sends the same reply to everything.
async fn says(words: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = [0; 512];
            let _heard = stream.read(&mut heard).await;
            let _said = stream.write_all(words).await;
            let _held = stream.read(&mut heard).await;
        }
    });
    address
}

/// Why no connection was opened.
async fn denied(config: &Config) -> String {
    let opener = Opener::new(config, &Environment::default()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(1);
    let opened = opener
        .open(&config.servers.addresses()[0], None, deadline)
        .await;
    opened.err().map(|error| error.to_string()).unwrap()
}

#[tokio::test]
async fn a_server_that_repeats_the_password_is_not_repeated() {
    let echoes: [&[u8]; 3] = [
        b"-ERR unknown command `AUTH`, with args beginning with: `hunter2`, \r\n",
        b"-hunter2\r\n",
        b"$7\r\nhunter2\r\n",
    ];
    for echo in echoes {
        let config = Config {
            password: Some(Secret::new("hunter2")),
            ..Config::single(says(echo).await)
        };
        let why = denied(&config).await;
        assert!(why.contains("AUTH"), "{why}");
        assert!(!why.contains("hunter2"), "{why}");
    }
}

#[tokio::test]
async fn servers_that_are_not_redis_are_named_as_what_they_are() {
    let http = Config::single(says(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
    let why = denied(&http).await;
    assert_eq!(why, "an HTTP server answers, not Redis");

    let redis = testbed::Redis::start();
    let plain = Config {
        tls: Some(Tls::default()),
        ..Config::single(redis.address())
    };
    let why = denied(&plain).await;
    assert!(why.contains("TLS"), "{why}");

    let certificates = testbed::Certificates::new();
    let encrypted = certificates.start("tg:");
    let why = denied(&Config::single(encrypted.address())).await;
    assert!(why.contains("TLS"), "{why}");
}
