//! Timeouts in virtual time. It stands still once a peer has the connection, and goes on to the
//! next timeout as soon as nothing else can happen.

#![allow(clippy::unwrap_used)]

use std::future::pending;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::{Duration, Instant, pause};

use super::*;
use crate::tls_args::TlsArgs;

/// A target whose peer accepts one connection, reads what comes, and answers nothing.
async fn silent(scheme: &str) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url: ServiceUrl = format!("{scheme}://{address}").parse().unwrap();
    let tls = TlsArgs::default().config(&url).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        pause();
        pending::<()>().await;
    });
    Target::new(url, "/v1/check", None, tls)
}

/// Timers are exact to a millisecond.
fn is_about(took: Duration, expected: Duration) -> bool {
    took >= expected && took < expected + Duration::from_millis(500)
}

#[tokio::test]
async fn a_service_that_does_not_answer_has_ten_seconds() {
    let target = silent("http").await;
    target.connect_first().await.unwrap();
    let start = Instant::now();
    let answer = target.ask(b"{}".to_vec()).await;
    assert_eq!(answer, Err(Unanswered::Timeout));
    let took = start.elapsed();
    assert!(is_about(took, Duration::from_secs(10)), "{took:?}");
    assert_eq!(Unanswered::Timeout.to_string(), "no response within 10 s");
    // Its connection still waits for that answer, so no other request may take it.
    assert!(target.take_idle().is_none());
}

#[tokio::test]
async fn a_handshake_of_tls_has_five_seconds() {
    let target = silent("https").await;
    let start = Instant::now();
    let answer = target.ask(b"{}".to_vec()).await;
    assert_eq!(answer, Err(Unanswered::ConnectTimeout));
    let took = start.elapsed();
    assert!(is_about(took, Duration::from_secs(5)), "{took:?}");
    assert_eq!(
        Unanswered::ConnectTimeout.to_string(),
        "no connection within 5 s"
    );
}
