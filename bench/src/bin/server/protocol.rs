//! The protocols, from a client's side: just enough to send requests and to read their replies.

pub(crate) mod grpc;

pub(crate) mod http;

pub(crate) mod resp;

use std::io;
use std::net::TcpStream;

use crate::question::{Outcomes, Question};
use crate::template::Template;
use grpc::GrpcSession;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp,
    Http,
    Grpc,
}

/// A reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Which request of the connection it belongs to, counted from 0.
    pub(crate) request: u64,
    pub(crate) outcomes: Outcomes,
    /// The first integer, if the protocol has integers.
    pub(crate) number: i64,
}

/// What a connection has sent and received so far.
#[derive(Debug)]
pub(crate) struct Session {
    question: Question,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Replies come in the order of the requests; so many have come.
    InOrder(u64),
    Grpc(GrpcSession),
}

// === impl Session ===

impl Session {
    /// Opens a session over a connection that still blocks.
    ///
    /// # Errors
    ///
    /// If the peer does not speak the protocol.
    pub(crate) fn open(question: Question, stream: &mut TcpStream) -> io::Result<Session> {
        let state = match question.protocol() {
            Protocol::Resp | Protocol::Http => State::InOrder(0),
            Protocol::Grpc => State::Grpc(GrpcSession::open(question, stream)?),
        };
        Ok(Session { question, state })
    }

    /// Appends a request.
    ///
    /// # Errors
    ///
    /// If the peer does not take more.
    pub(crate) fn write(
        &mut self,
        template: &Template,
        next_key: &mut dyn FnMut() -> u32,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match &mut self.state {
            State::InOrder(_) => template.write(next_key, out),
            State::Grpc(session) => session.write(template, next_key, out)?,
        }
        Ok(())
    }

    /// Reads all complete replies, and returns the number of their bytes. What must be answered is
    /// appended to `out`.
    ///
    /// # Errors
    ///
    /// What is wrong with a reply.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        replies: &mut Vec<Reply>,
        out: &mut Vec<u8>,
    ) -> Result<usize, String> {
        let question = self.question;
        match &mut self.state {
            State::Grpc(session) => session.read(question, input, replies, out),
            State::InOrder(received) => {
                let read = match question.protocol() {
                    Protocol::Http => http::read,
                    _ => resp::read,
                };
                let mut consumed = 0;
                while let Some((bytes, outcomes, number)) = read(question, &input[consumed..])? {
                    consumed += bytes;
                    replies.push(Reply {
                        request: *received,
                        outcomes,
                        number,
                    });
                    *received += 1;
                }
                Ok(consumed)
            }
        }
    }
}
