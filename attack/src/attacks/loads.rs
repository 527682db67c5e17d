//! As many requests as one processor sends, to each listener.

use std::io::{Error, Result};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Duration, Instant, sleep};

use super::load::{Answered, Loading, load};
use crate::exchange::{QUESTION, ask_grpc, ask_http};
use crate::frames::WINDOW;
use crate::peer::{connect, connect_h2, read_response, request, source, within};
use crate::stream::Stream;
use crate::target::Target;

/// Connections of each load.
const CONNECTIONS: u32 = 64;
/// Calls on one connection: their responses fit into its window.
const CALLS: u32 = 500;
/// Commands of one write.
const COMMANDS: usize = 16;
/// Connections that are opened and closed at the same time.
const VISITORS: u32 = 16;
/// How long a gateway may answer nothing but errors of its upstream.
const AWAY_MAX: Duration = Duration::from_secs(10);
/// The pause after such an error.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// `/v1/check`, one request after the other on each connection.
pub(super) fn http(target: Target, answered: Answered) -> Loading {
    over_http(
        target.http,
        request("POST", "/v1/check", QUESTION),
        answered,
    )
}

/// gRPC calls, and a new connection when the window of the last one is used up.
pub(super) fn grpc(target: Target, answered: Answered) -> Loading {
    load(CONNECTIONS, move |number| {
        let answered = answered.clone();
        async move {
            loop {
                let mut stream = connect_h2(source(number), target.grpc, WINDOW).await?;
                for call in 0..CALLS {
                    within(ask_grpc(&mut stream, 2 * call + 1)).await?;
                    answered.add(1);
                }
            }
        }
    })
}

/// Pipelines of `CL.THROTTLE` and `TG.CHECK` in turn.
pub(super) fn redis(target: Target, answered: Answered) -> Loading {
    load(CONNECTIONS, move |number| {
        let answered = answered.clone();
        async move {
            let mut stream = connect(source(number), target.redis).await?;
            loop {
                within(pipeline(&mut stream)).await?;
                answered.add(u64::try_from(COMMANDS).unwrap_or_default());
            }
        }
    })
}

/// Sends a pipeline, and reads its replies; all of them must be arrays that begin with a zero, for
/// allowed, and have no error.
async fn pipeline(stream: &mut Stream) -> Result<()> {
    const PAIR: &str = "CL.THROTTLE load 1000000 1000000 1\r\nTG.CHECK d 1 k load\r\n";
    const PAIRS: usize = COMMANDS / 2;
    // Six lines of the one reply and nine of the other.
    const LINES: usize = 15 * PAIRS;
    stream.write_all(PAIR.repeat(PAIRS).as_bytes()).await?;
    let mut replies = Vec::new();
    let mut lines = 0;
    while lines < LINES {
        let before = replies.len();
        if stream.read_buf(&mut replies).await? == 0 {
            return Err(Error::other("closed"));
        }
        let ends = |byte: &&u8| **byte == b'\n';
        lines += replies[before..].iter().filter(ends).count();
    }
    let text = String::from_utf8_lossy(&replies);
    let allowed = text.matches("*5\r\n:0\r\n").count() + text.matches("*7\r\n:0\r\n").count();
    match allowed == COMMANDS && lines == LINES {
        true => Ok(()),
        false => Err(Error::other(text.into_owned())),
    }
}

/// Small responses of the upstream, one request after the other on each connection.
pub(super) fn gateway(target: Target, answered: Answered) -> Loading {
    over_http(target.gateway, request("GET", "/", ""), answered)
}

fn over_http(to: SocketAddr, question: Vec<u8>, answered: Answered) -> Loading {
    load(CONNECTIONS, move |number| {
        let (question, answered) = (question.clone(), answered.clone());
        async move {
            let mut stream = connect(source(number), to).await?;
            loop {
                within(ask_http(&mut stream, &question)).await?;
                answered.add(1);
            }
        }
    })
}

/// The same of an upstream that restarts again and again: while it is away, the gateway says so.
pub(super) fn gateway_restarts(target: Target, answered: Answered) -> Loading {
    load(CONNECTIONS, move |number| {
        let answered = answered.clone();
        async move {
            let mut stream = connect(source(number), target.gateway).await?;
            let (mut answered_at, mut was_away) = (Instant::now(), false);
            loop {
                stream.write_all(&request("GET", "/restarting", "")).await?;
                match within(read_response(&mut stream)).await? {
                    200 => {
                        answered.add(1);
                        if std::mem::take(&mut was_away) {
                            answered.add_recovered();
                        }
                        answered_at = Instant::now();
                    }
                    502..=504 if answered_at.elapsed() < AWAY_MAX => {
                        was_away = true;
                        sleep(AGAIN_AFTER).await;
                    }
                    status => return Err(Error::other(format!("status {status}"))),
                }
            }
        }
    })
}

/// Connections with one request each, to the listeners in turn.
pub(super) fn visits(target: Target, answered: Answered) -> Loading {
    let question = request("POST", "/v1/check", QUESTION);
    load(VISITORS, move |number| {
        let (question, answered) = (question.clone(), answered.clone());
        async move {
            for visit in 0.. {
                // Each from another address than the last, so that no port is used twice soon.
                let from = source(number + VISITORS * (visit % 64));
                match visit % 3 {
                    0 => {
                        let mut stream = connect(from, target.http).await?;
                        within(ask_http(&mut stream, &question)).await?;
                    }
                    1 => {
                        let mut stream = connect_h2(from, target.grpc, WINDOW).await?;
                        within(ask_grpc(&mut stream, 1)).await?;
                    }
                    _ => {
                        let mut stream = connect(from, target.redis).await?;
                        within(pipeline(&mut stream)).await?;
                    }
                }
                answered.add(1);
            }
            Ok(())
        }
    })
}
