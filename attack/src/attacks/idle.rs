//! Connections that have had an answer, and are idle from then on.

use std::io::Result;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::load::{Answered, Loading, load};
use crate::exchange::{COMMANDS, QUESTION, ask_command, ask_grpc, ask_http};
use crate::peer::{acknowledge, connect, connect_h2, read_frame, request, source, within};
use crate::service::{DELAYED, idle_connections};
use crate::target::Target;

/// Tasks that open connections, one after the other, so that the kernel's queue has room for them.
const OPENERS: u32 = 50;
/// HTTP/2's initial window of a stream.
const WINDOW: u32 = 65_535;

/// Of the `http` listener.
pub(super) fn http(target: Target, answered: Answered) -> Loading {
    let question = request("POST", "/v1/check", QUESTION);
    let each = idle_connections("http") / OPENERS;
    load(OPENERS, move |number| {
        let (question, answered) = (question.clone(), answered.clone());
        async move {
            let mut held = Vec::new();
            for one in 0..each {
                let mut stream = connect(source(number * each + one), target.http).await?;
                within(ask_http(&mut stream, &question)).await?;
                answered.add(1);
                held.push(stream);
            }
            std::future::pending().await
        }
    })
}

/// Of the `grpc` listener; pings are answered.
pub(super) fn grpc(target: Target, answered: Answered) -> Loading {
    let each = idle_connections("grpc") / OPENERS;
    load(OPENERS, move |number| {
        let answered = answered.clone();
        async move {
            let mut held = tokio::task::JoinSet::new();
            for one in 0..each {
                let from = source(number * each + one);
                let mut stream = connect_h2(from, target.grpc, WINDOW).await?;
                within(ask_grpc(&mut stream, 1)).await?;
                answered.add(1);
                held.spawn(answer_pings(stream));
            }
            match held.join_next().await {
                Some(ended) => ended.map_err(std::io::Error::other)?,
                None => Ok(()),
            }
        }
    })
}

async fn answer_pings(mut stream: TcpStream) -> Result<()> {
    loop {
        let (head, payload) = read_frame(&mut stream).await?;
        acknowledge(&mut stream, head, &payload).await?;
    }
}

/// Of the `redis` listener.
pub(super) fn redis(target: Target, answered: Answered) -> Loading {
    let each = idle_connections("redis") / OPENERS;
    load(OPENERS, move |number| {
        let answered = answered.clone();
        async move {
            let mut held = Vec::new();
            for one in 0..each {
                let mut stream = connect(source(number * each + one), target.redis).await?;
                let (command, lines, begin) = COMMANDS[1];
                within(ask_command(&mut stream, command, lines, begin)).await?;
                answered.add(1);
                held.push(stream);
            }
            std::future::pending().await
        }
    })
}

/// Of the `gateway` listener, and [`DELAYED`] requests that it holds.
pub(super) fn gateway(target: Target, answered: Answered) -> Loading {
    let each = idle_connections("gateway") / OPENERS;
    load(OPENERS, move |number| {
        let answered = answered.clone();
        async move {
            let mut held = Vec::new();
            for one in 0..each {
                let mut stream = connect(source(number * each + one), target.gateway).await?;
                // The last ones are those that wait.
                match one < each - DELAYED / OPENERS {
                    true => {
                        within(ask_http(&mut stream, &request("GET", "/", ""))).await?;
                        answered.add(1);
                    }
                    false => stream.write_all(&request("GET", "/delayed", "")).await?,
                }
                held.push(stream);
            }
            // Long after the attack.
            sleep(Duration::from_hours(1)).await;
            Ok(())
        }
    })
}
