//! Connections that have had an answer, and are idle from then on.

use std::future::pending;
use std::io::{Error, Result};
use std::net::Ipv4Addr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::load::{Answered, Loading, load};
use crate::exchange::{COMMANDS, QUESTION, ask_command, ask_grpc, ask_http};
use crate::frames::WINDOW;
use crate::peer::{acknowledge, connect, connect_h2, read_frame, request, source, within};
use crate::service::{DELAYED, IDLE_CONNECTIONS};
use crate::target::Target;

/// Tasks that open connections, one after the other, so that the kernel's queue has room for them.
const OPENERS: u32 = 50;

/// Of the `http` listener.
pub(super) fn http(target: Target, answered: Answered) -> Loading {
    let question = request("POST", "/v1/check", QUESTION);
    hold(IDLE_CONNECTIONS / OPENERS, move |from, _| {
        let (question, answered) = (question.clone(), answered.clone());
        async move {
            let mut stream = connect(from, target.http).await?;
            within(ask_http(&mut stream, &question)).await?;
            answered.add(1);
            Ok(stream)
        }
    })
}

/// Of the `redis` listener.
pub(super) fn redis(target: Target, answered: Answered) -> Loading {
    hold(IDLE_CONNECTIONS / OPENERS, move |from, _| {
        let answered = answered.clone();
        async move {
            let mut stream = connect(from, target.redis).await?;
            let (command, lines, begin) = COMMANDS[1];
            within(ask_command(&mut stream, command, lines, begin)).await?;
            answered.add(1);
            Ok(stream)
        }
    })
}

/// Of the `gateway` listener, and [`DELAYED`] requests that it holds.
pub(super) fn gateway(target: Target, answered: Answered) -> Loading {
    let each = IDLE_CONNECTIONS / OPENERS;
    hold(each, move |from, number| {
        let answered = answered.clone();
        async move {
            let mut stream = connect(from, target.gateway).await?;
            // The last ones are those that wait.
            match number < each - DELAYED / OPENERS {
                true => {
                    within(ask_http(&mut stream, &request("GET", "/", ""))).await?;
                    answered.add(1);
                }
                false => stream.write_all(&request("GET", "/delayed", "")).await?,
            }
            Ok(stream)
        }
    })
}

/// Has each task open so many connections, and keeps them. `open` gets the address that a
/// connection comes from, and its number among those of its task.
fn hold<F>(each: u32, open: impl Fn(Ipv4Addr, u32) -> F + Clone + Send + Sync + 'static) -> Loading
where
    F: Future<Output = Result<TcpStream>> + Send + 'static,
{
    load(OPENERS, move |task| {
        let open = open.clone();
        async move {
            let mut held = Vec::new();
            for number in 0..each {
                held.push(open(source(task * each + number), number).await?);
            }
            pending().await
        }
    })
}

/// Of the `grpc` listener; pings are answered.
pub(super) fn grpc(target: Target, answered: Answered) -> Loading {
    let each = IDLE_CONNECTIONS / OPENERS;
    load(OPENERS, move |task| {
        let answered = answered.clone();
        async move {
            let mut held = JoinSet::new();
            for number in 0..each {
                let from = source(task * each + number);
                let mut stream = connect_h2(from, target.grpc, WINDOW).await?;
                within(ask_grpc(&mut stream, 1)).await?;
                answered.add(1);
                held.spawn(answer_pings(stream));
            }
            match held.join_next().await {
                Some(ended) => ended.map_err(Error::other)?,
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
