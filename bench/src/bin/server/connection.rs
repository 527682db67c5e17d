//! One connection of the load.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::protocol::{Reply, Session};
use crate::question::Question;
use crate::template::Template;

/// What is read at once.
const INPUT_BYTES: usize = 64 * 1024;
/// The most requests without a reply on one connection.
const BACKLOG_MAX: usize = 4096;
/// How long opening a connection may take.
const OPENS_WITHIN: Duration = Duration::from_secs(20);

/// A socket that does not block, what is on its way, and since when.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    session: Session,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
    /// When each request was due, in nanoseconds, from the oldest without a reply to the newest.
    due: VecDeque<Option<u64>>,
    /// The number of the oldest.
    oldest: u64,
    backlog: usize,
}

// === impl Connection ===

impl Connection {
    pub(crate) fn open(to: SocketAddr, question: Question) -> io::Result<Connection> {
        let mut stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(OPENS_WITHIN))?;
        let session = Session::open(question, &mut stream)?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            session,
            input: vec![0; INPUT_BYTES],
            filled: 0,
            output: Vec::new(),
            written: 0,
            due: VecDeque::new(),
            oldest: 0,
            backlog: 0,
        })
    }

    /// Requests without a reply.
    pub(crate) const fn backlog(&self) -> usize {
        self.backlog
    }

    /// Whether there is something to write that the socket did not take.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.written < self.output.len()
    }

    /// Adds a request that is due at this time, for the next keys.
    ///
    /// # Errors
    ///
    /// If the peer is too far behind.
    pub(crate) fn ask(
        &mut self,
        template: &Template,
        next_key: &mut dyn FnMut() -> u32,
        due: u64,
    ) -> Result<(), String> {
        if self.due.len() >= BACKLOG_MAX {
            let problem = "requests of a connection have no reply: it cannot keep up";
            return Err(format!("{BACKLOG_MAX} {problem}"));
        }
        self.session.write(template, next_key, &mut self.output)?;
        self.due.push_back(Some(due));
        self.backlog += 1;
        Ok(())
    }

    /// Writes what the socket takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.is_stalled() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads replies, and when the request of each was due.
    ///
    /// # Errors
    ///
    /// If the connection ended, or a reply is wrong.
    pub(crate) fn receive(
        &mut self,
        replies: &mut Vec<Reply>,
        mut take: impl FnMut(&Reply, u64),
    ) -> Result<(), String> {
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err("the connection was closed by the peer".to_owned()),
            Ok(bytes) => self.filled += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
        replies.clear();
        let input = &self.input[..self.filled];
        let consumed = self.session.read(input, replies, &mut self.output)?;
        self.input.copy_within(consumed..self.filled, 0);
        self.filled -= consumed;
        for reply in replies.iter() {
            let due = self.settle(reply.request);
            take(reply, due.ok_or("a reply to no request")?);
        }
        Ok(())
    }

    /// When a request was due whose reply has come.
    fn settle(&mut self, request: u64) -> Option<u64> {
        let index = usize::try_from(request.checked_sub(self.oldest)?).ok()?;
        let due = self.due.get_mut(index)?.take()?;
        self.backlog -= 1;
        while let Some(None) = self.due.front() {
            self.due.pop_front();
            self.oldest += 1;
        }
        Some(due)
    }
}
