//! Connections that have had an answer, and are idle from then on.

use std::future::pending;
use std::io::{Error, ErrorKind, Result};
use std::net::Ipv4Addr;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::load::{Answered, Loading, load};
use crate::exchange::{COMMANDS, QUESTION, ask_command, ask_grpc, ask_http};
use crate::frames::WINDOW;
use crate::peer::{
    acknowledge, connect, connect_h2, read_frame, read_response, request, source, within,
};
use crate::service::{DELAYED, IDLE_CONNECTIONS};
use crate::stream::Stream;
use crate::target::Target;

/// Tasks that open connections, one after the other, so that the kernel's queue has room for them.
const OPENERS: u32 = 50;

/// Of the `http` listener.
pub(super) fn http(target: Target, answered: Answered) -> Loading {
    let question = request("POST", "/v1/check", QUESTION);
    hold(move |from| {
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
    hold(move |from| {
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
    load(OPENERS, move |task| {
        let answered = answered.clone();
        async move {
            let (mut idle, mut delayed) = (Vec::new(), JoinSet::new());
            for number in 0..each {
                let mut stream = connect(source(task * each + number), target.gateway).await?;
                // The last ones are those that wait.
                if number < each - DELAYED / OPENERS {
                    within(ask_http(&mut stream, &request("GET", "/", ""))).await?;
                    answered.add(1);
                    idle.push(stream);
                } else {
                    stream.write_all(&request("GET", "/delayed", "")).await?;
                    delayed.spawn(wait_for_turn(stream, answered.clone()));
                }
            }
            while let Some(ended) = delayed.join_next().await {
                ended.map_err(Error::other)??;
            }
            pending().await
        }
    })
}

/// Reads the response to a request that is delayed, and keeps its connection. A denial or the end
/// of the connection is an error, because the request was not held then.
async fn wait_for_turn(mut stream: Stream, answered: Answered) -> Result<()> {
    match read_response(&mut stream).await? {
        200 => answered.add_delayed(),
        status => {
            let problem = format!("status {status} for a delayed request");
            return Err(Error::new(ErrorKind::InvalidData, problem));
        }
    }
    pending().await
}

/// Has each task open its connections, and keeps them. `open` gets the address that a connection
/// comes from.
fn hold<F>(open: impl Fn(Ipv4Addr) -> F + Clone + Send + Sync + 'static) -> Loading
where
    F: Future<Output = Result<Stream>> + Send + 'static,
{
    let each = IDLE_CONNECTIONS / OPENERS;
    load(OPENERS, move |task| {
        let open = open.clone();
        async move {
            let mut held = Vec::new();
            for number in 0..each {
                held.push(open(source(task * each + number)).await?);
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

async fn answer_pings(mut stream: Stream) -> Result<()> {
    loop {
        let (head, payload) = read_frame(&mut stream).await?;
        acknowledge(&mut stream, head, &payload).await?;
    }
}
