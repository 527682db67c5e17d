//! Clients that send the same request again and again, over one connection.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use tollgate_bench::check_call;

/// Commands of a pipeline.
pub(crate) const PIPELINED: u32 = 16;
/// Lines of a reply to `TG.CHECK`: the array, six integers, and the rule's name behind its length.
const REPLY_LINES: u32 = 9;
/// Longer than any answer takes, under `valgrind` as well.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What is asked, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// `/v1/check`, each after the answer to the one before.
    Http,
    /// `TG.CHECK`, so many in a pipeline.
    Redis,
}

/// A connection to the service.
pub(crate) struct Client {
    load: Load,
    output: TcpStream,
    input: BufReader<TcpStream>,
}

// === impl Load ===

impl Load {
    pub(crate) const ALL: [Load; 2] = [Load::Http, Load::Redis];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Load::Http => "/v1/check, one at a time",
            Load::Redis => "TG.CHECK, pipelines of 16",
        }
    }
}

// === impl Client ===

impl Client {
    pub(crate) fn new(load: Load, output: TcpStream) -> Result<Client, Box<dyn Error>> {
        output.set_nodelay(true)?;
        output.set_read_timeout(Some(TIMEOUT))?;
        let input = BufReader::new(output.try_clone()?);
        Ok(Client {
            load,
            output,
            input,
        })
    }

    /// Has so many requests decided, all of which are allowed.
    pub(crate) fn decide(&mut self, decisions: u32) -> Result<(), Box<dyn Error>> {
        match self.load {
            Load::Http => (0..decisions).try_for_each(|_| self.check()),
            Load::Redis => (0..decisions / PIPELINED).try_for_each(|_| self.pipeline()),
        }
    }

    /// One request of `/v1/check`, and its answer.
    fn check(&mut self) -> Result<(), Box<dyn Error>> {
        const BODY: &str = r#"{"domain":"d","descriptors":[{"user":"alice"}]}"#;
        self.output
            .write_all(check_call::request(BODY).as_bytes())?;
        check_call::read_allowed(&mut self.input)
    }

    fn pipeline(&mut self) -> Result<(), Box<dyn Error>> {
        let commands = "TG.CHECK d 1 user alice\r\n".repeat(usize::try_from(PIPELINED)?);
        self.output.write_all(commands.as_bytes())?;
        let mut line = String::new();
        for number in 0..PIPELINED * REPLY_LINES {
            line.clear();
            self.input.read_line(&mut line)?;
            // The first integer is 0 if the request is allowed.
            if number % REPLY_LINES == 1 && line != ":0\r\n" {
                return Err(format!("TG.CHECK answers {line:?}").into());
            }
        }
        Ok(())
    }
}
