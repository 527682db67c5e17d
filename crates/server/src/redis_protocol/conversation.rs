//! A connection from its first byte to its last.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout_at};
use tollgate_listen::{Connection, Stream};
use tollgate_resp::{Command, Parser};

use super::input::{Input, Received};
use super::service::Service;
use super::session::{Session, Step};
use super::transaction::Transaction;

/// From so many bytes on, replies leave before further commands are decided.
const REPLY_BYTES: usize = 16 * 1024;
/// What is kept of the buffer of replies between pipelines.
const REPLY_BYTES_KEPT: usize = 4 * 1024;
/// How long a connection without a permit may take to send its health check.
const RESERVED_TIMEOUT: Duration = Duration::from_secs(1);

/// What follows what has arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Receive,
    End,
}

/// Serves a connection until the client ends it or has to go.
pub(super) async fn converse(
    service: &Service,
    stream: &mut impl Stream,
    connection: &Arc<Connection>,
) {
    let mut input = Input::new(connection);
    let mut session = Session::new(service, connection);
    let (mut parser, mut out) = (Parser::default(), Vec::new());
    loop {
        match receive(&mut input, stream, &session, connection).await {
            Ok(Received::Bytes) => {}
            Ok(Received::NoRoom) => {
                session.reject_large(&mut out);
                // The client may be gone, or not read.
                let _ = stream.write_all(&out).await;
                break;
            }
            Ok(Received::End) | Err(_) => break,
        }
        connection.record_request(Instant::now().into_std());
        let served = serve(&mut session, &mut parser, &mut input, &mut out, stream).await;
        if served.map_or(true, |next| next == Next::End) {
            break;
        }
        if out.capacity() > REPLY_BYTES_KEPT {
            out.shrink_to(REPLY_BYTES_KEPT);
        }
    }
    // The client may be gone, or not read.
    let _ = stream.shutdown().await;
}

/// Receives more. Without a command or a large transaction that has begun, there is no hurry:
/// clients keep connections.
async fn receive(
    input: &mut Input<'_>,
    stream: &mut impl Stream,
    session: &Session<'_>,
    connection: &Connection,
) -> io::Result<Received> {
    let service = session.service;
    let deadline = match connection.is_reserved() {
        true => Some(Instant::now() + RESERVED_TIMEOUT),
        false => {
            let command = input.deadline(service.command_timeout);
            command.into_iter().chain(session.deadline()).min()
        }
    };
    let receiving = input.receive(stream, session.user.is_some());
    let Some(deadline) = deadline else {
        return receiving.await;
    };
    match timeout_at(deadline, receiving).await {
        Ok(received) => received,
        Err(_) => {
            service.count_error("timeout");
            Ok(Received::End)
        }
    }
}

/// Answers all commands that have arrived.
async fn serve(
    session: &mut Session<'_>,
    parser: &mut Parser,
    input: &mut Input<'_>,
    out: &mut Vec<u8>,
    stream: &mut (impl AsyncWrite + Unpin),
) -> io::Result<Next> {
    let mut next = Next::Receive;
    while next == Next::Receive {
        let length = match parser.next(input.rest()) {
            Ok(None) => break,
            Ok(Some(command)) => {
                answer(session, &command, out).await;
                command.length()
            }
            Err(error) => {
                session.decide(out).await;
                session.reject_bytes(error, out);
                0
            }
        };
        if session.ends() {
            next = Next::End;
        }
        input.consume(length);
        make_room(session, out, stream).await?;
        if let Some(transaction) = session.committed.take() {
            execute(session, &transaction, out, stream).await?;
        }
    }
    session.decide(out).await;
    stream.write_all(out).await?;
    out.clear();
    // Also what has left before: a stream of TLS may keep it, and the client may wait for it.
    stream.flush().await?;
    Ok(next)
}

/// Answers a command, after those that have to be decided before.
async fn answer(session: &mut Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    if session.answer(command, out) == Step::DecideFirst {
        session.decide(out).await;
        session.answer(command, out);
    }
}

/// Decides what waits, and sends the replies, if there is enough of them.
async fn make_room(
    session: &mut Session<'_>,
    out: &mut Vec<u8>,
    stream: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    if session.is_full() {
        session.decide(out).await;
    }
    if out.len() >= REPLY_BYTES {
        stream.write_all(out).await?;
        out.clear();
    }
    Ok(())
}

/// Answers the commands of a transaction.
async fn execute(
    session: &mut Session<'_>,
    transaction: &Transaction<'_>,
    out: &mut Vec<u8>,
    stream: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let (mut parser, mut rest) = (Parser::default(), transaction.commands());
    while let Ok(Some(command)) = parser.next(rest) {
        answer(session, &command, out).await;
        rest = rest.get(command.length()..).unwrap_or_default();
        make_room(session, out, stream).await?;
        // Many commands may have been queued.
        consume_budget().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
