#![allow(clippy::unwrap_used)]

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::net::TcpListener;
use tokio::time::Duration;
use tollgate_testbed as testbed;

use super::*;
use crate::config::Tls;
use crate::environment::Connecting;

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

/// The address of a server that says this to each client, and closes the connection.
async fn rejects(words: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _said = stream.write_all(words).await;
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
async fn a_server_that_rejects_clients_says_why() {
    let protected = b"-DENIED Redis is running in protected mode because ...\r\n";
    let other = b"-ERR no upstream host\r\n";
    for (words, part) in [(&protected[..], "DENIED"), (other, "no upstream host")] {
        let config = Config::single(rejects(words).await);
        let why = denied(&config).await;
        assert!(why.contains(part), "{why}");
    }
    let config = Config {
        password: Some(Secret::new("hunter2")),
        ..Config::single(rejects(protected).await)
    };
    let why = denied(&config).await;
    assert!(why.contains("DENIED"), "{why}");
}

/// A connection on which nothing can be sent any more, and whose peer has said this.
struct Closing(&'static [u8]);

impl tokio::io::AsyncRead for Closing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        into.put_slice(std::mem::take(&mut self.0));
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncWrite for Closing {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Transport for Closing {
    fn connect(&self, _address: &str) -> Connecting {
        let stream: Box<dyn Stream> = Box::new(Closing(self.0));
        Box::pin(async { Ok(stream) })
    }
}

#[tokio::test]
async fn what_a_server_said_counts_though_nothing_can_be_sent() {
    let reason = |words| async move {
        let environment = Environment {
            transport: Some(Arc::new(Closing(words))),
            ..Environment::default()
        };
        let opener = Opener::new(&Config::single("h:1"), &environment).unwrap();
        let deadline = Instant::now() + Duration::from_secs(9);
        let opened = opener.open("h:1", None, deadline).await;
        opened.err().map(|error| error.to_string()).unwrap()
    };
    let why = reason(b"-ERR max number of clients reached\r\n").await;
    assert!(why.contains("max number of clients"), "{why}");
    let why = reason(b"").await;
    assert!(why.contains("closed the connection"), "{why}");
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
