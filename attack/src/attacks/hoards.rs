//! As many connections as possible.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::crowd::{Attacking, crowd};
use crate::frames::WINDOW;
use crate::peer::{connect, connect_h2, read_response, request, source, within};
use crate::target::Target;

/// More connections than the service accepts, at each of two listeners.
const CONNECTIONS: u32 = 3000;
/// The same at one listener.
const OF_ONE_LISTENER: u32 = 1200;
const QUESTION: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"held"}]}]}"#;
/// How often a connection sends something, to appear active.
const EVERY: Duration = Duration::from_secs(2);

/// All of them from one address.
pub(super) fn from_one_address(target: Target) -> Attacking {
    crowd(CONNECTIONS, move |number| async move {
        hoard(number, source(0), target).await
    })
}

/// Each from an address of its own.
pub(super) fn from_many_addresses(target: Target) -> Attacking {
    crowd(CONNECTIONS, move |number| async move {
        hoard(number, source(number), target).await
    })
}

/// Those of the listener for HTTP alone.
pub(super) fn of_http(target: Target) -> Attacking {
    hoard_http(target.http)
}

/// As many as possible to a listener that speaks HTTP/1.1, each from an address of its own.
pub(super) fn hoard_http(to: SocketAddr) -> Attacking {
    crowd(OF_ONE_LISTENER, move |number| async move {
        wait_for_turn(number).await;
        hold_http(source(number), to).await
    })
}

async fn hoard(number: u32, from: Ipv4Addr, target: Target) -> Result<()> {
    wait_for_turn(number).await;
    match number % 2 {
        0 => hold_http(from, target.http).await,
        _ => hold_grpc(from, target.grpc).await,
    }
}

/// Not all connect at once: that would attack the kernel's queue instead of the service.
async fn wait_for_turn(number: u32) {
    sleep(Duration::from_millis(u64::from(number / 4))).await;
}

async fn hold_http(from: Ipv4Addr, to: SocketAddr) -> Result<()> {
    let mut stream = connect(from, to).await?;
    let question = request("POST", "/v1/check", QUESTION);
    loop {
        stream.write_all(&question).await?;
        within(read_response(&mut stream)).await?;
        sleep(EVERY).await;
    }
}

async fn hold_grpc(from: Ipv4Addr, to: SocketAddr) -> Result<()> {
    let mut stream = connect_h2(from, to, WINDOW).await?;
    super::bodies::hold(&mut stream).await
}
