//! What a client has said about itself, and its commands that wait for a decision.

use std::time::Instant;

use tollgate_core::{Request, StoreError};
use tollgate_engine::Decided;
use tollgate_listen::{Connection, PeerAddress};
use tollgate_resp::{Command, ProtocolError, Replies, Version};

use super::ask::{self, Ask, AskKind};
use super::command_table::{CommandKind, Known, find};
use super::passwords::User;
use super::service::{NAME, Service};
use super::throttles::Throttles;
use super::transaction::{NO_ROOM, Transaction};
use super::word::{quote_words, shown};
use super::{description, greeting};
use crate::trace::{describe_batch, describe_throttles};

/// The most requests of one connection that the rules decide at once.
const ASKS_MAX: usize = 64;
/// The command whose limits clients bring along, in traces.
const THROTTLE: &str = "CL.THROTTLE";

/// A client, and its commands in flight. Either throttles or asks wait, never both: replies have
/// the order of their commands.
pub(super) struct Session<'s> {
    pub(super) service: &'s Service,
    connection: &'s Connection,
    pub(super) version: Version,
    pub(super) user: Option<User>,
    /// Passwords that were wrong.
    pub(super) failures: u32,
    /// What `CLIENT SETNAME` says.
    pub(super) name: Vec<u8>,
    pub(super) id: u64,
    throttles: Throttles,
    asks: Vec<Ask>,
    /// The commands since `MULTI`.
    transaction: Option<Transaction<'s>>,
    /// Commands that `EXEC` lets run, and that have not run yet.
    pub(super) committed: Option<Transaction<'s>>,
    ends: bool,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is answered, or waits for its decision.
    Taken,
    /// It comes after commands that have to be decided first.
    DecideFirst,
}

// === impl Session ===

impl<'s> Session<'s> {
    pub(super) fn new(service: &'s Service, connection: &'s Connection) -> Session<'s> {
        Session {
            service,
            connection,
            version: Version::default(),
            user: service.passwords.user_without_name(),
            failures: 0,
            name: Vec::new(),
            id: service.new_id(),
            throttles: Throttles::default(),
            asks: Vec::new(),
            transaction: None,
            committed: None,
            ends: connection.is_reserved(),
        }
    }

    /// The client's end of the connection.
    pub(super) fn peer(&self) -> PeerAddress {
        self.connection.peer()
    }

    /// Whether the connection ends after the replies so far.
    pub(super) const fn ends(&self) -> bool {
        self.ends
    }

    /// The connection ends after the replies so far.
    pub(super) const fn end(&mut self) {
        self.ends = true;
    }

    /// Whether the commands that wait have to be decided before another one is taken.
    pub(super) const fn is_full(&self) -> bool {
        self.throttles.is_full() || self.asks.len() >= ASKS_MAX
    }

    /// When the transaction that has begun must have ended, if it has to.
    pub(super) fn deadline(&self) -> Option<tokio::time::Instant> {
        let since = self.transaction.as_ref()?.large_since()?;
        Some(since + self.service.command_timeout)
    }

    /// Takes a command.
    #[inline]
    pub(super) fn answer(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> Step {
        let name = command.name();
        if name.eq_ignore_ascii_case(b"CL.THROTTLE")
            && matches!(command.len(), 5 | 6)
            && self.user.is_some()
            && self.asks.is_empty()
            && self.transaction.is_none()
            && !self.ends
        {
            if let Err(rejection) = self.throttles.add(command, &self.service.throttles) {
                self.reject("bad_request", &rejection, out);
            }
            return Step::Taken;
        }
        self.answer_any(command, out)
    }

    /// Takes any command.
    fn answer_any(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> Step {
        if command.is_empty() {
            return Step::Taken;
        }
        let found = find(command.name());
        // Whatever is answered at once comes after the answers to those before it.
        let is_ask = found.is_some_and(|found| {
            matches!(found.kind, CommandKind::Ask(_)) && found.takes(command.len())
        });
        if !self.asks.is_empty() && !is_ask {
            return Step::DecideFirst;
        }
        let Some(found) = found else {
            self.reject_unknown(command, out);
            return Step::Taken;
        };
        if self.connection.is_reserved() && found.kind != CommandKind::Ping {
            self.reject("overloaded", "ERR max number of clients reached", out);
        } else if let Err((kind, text)) = self.check(found, command) {
            let text = match found.kind {
                CommandKind::Exec => self.abort(&text),
                _ => text,
            };
            self.reject(kind, &text, out);
        } else if self.transaction.is_some() && Transaction::queues(found.kind) {
            self.queue(found.kind, command, out);
        } else if let CommandKind::Ask(kind) = found.kind {
            return self.ask(kind, command, out);
        } else {
            self.decide_throttles(out);
            self.answer_at_once(found.kind, command, out);
        }
        Step::Taken
    }

    /// Checks that the client may send a command, and its number of words.
    fn check(&self, found: &Known, command: &Command<'_>) -> Result<(), (&'static str, String)> {
        if self.user.is_none() && !found.is_for_all() {
            let text = "NOAUTH Authentication required.";
            return Err(("not_authenticated", text.to_owned()));
        }
        let checked = found.check_words(command);
        checked.map_err(|text| ("bad_request", text))
    }

    /// Ends the transaction of an `EXEC` with this error, as Redis does, and returns the error that
    /// says so.
    fn abort(&mut self, text: &str) -> String {
        self.transaction = None;
        let reason = text.strip_prefix("ERR ").unwrap_or(text);
        format!("EXECABORT Transaction discarded because of: {reason}")
    }

    /// Answers a command that nothing has to decide.
    fn answer_at_once(&mut self, kind: CommandKind, command: &Command<'_>, out: &mut Vec<u8>) {
        let mut replies = Replies::new(out, self.version);
        match kind {
            CommandKind::Ping => match (command.word(1), command.word(2)) {
                (None, _) => replies.simple("PONG"),
                (Some(text), None) => replies.bulk(text),
                (_, Some(_)) => {
                    let text = "ERR wrong number of arguments for 'ping' command";
                    self.reject("bad_request", text, out);
                }
            },
            CommandKind::Echo => replies.bulk(command.word(1).unwrap_or_default()),
            CommandKind::Quit => {
                replies.simple("OK");
                self.end();
            }
            CommandKind::Select => greeting::select(self, command, out),
            CommandKind::Hello => greeting::hello(self, command, out),
            CommandKind::Auth => greeting::auth(self, command, out),
            CommandKind::Client => greeting::client(self, command, out),
            CommandKind::Reset => {
                self.version = Version::default();
                self.user = self.service.passwords.user_without_name();
                self.name.clear();
                self.transaction = None;
                Replies::new(out, self.version).simple("RESET");
            }
            CommandKind::Command => description::command(self, command, out),
            CommandKind::Info => description::info(command, &mut replies),
            CommandKind::Config => description::config(self, command, out),
            CommandKind::Multi => self.begin_transaction(out),
            CommandKind::Exec => self.commit(out),
            CommandKind::Discard => match self.transaction.take() {
                Some(_) => replies.simple("OK"),
                None => self.reject("bad_request", "ERR DISCARD without MULTI", out),
            },
            CommandKind::Throttle | CommandKind::Ask(_) => {}
        }
    }

    /// Queues a command of a transaction.
    fn queue(&mut self, kind: CommandKind, command: &Command<'_>, out: &mut Vec<u8>) {
        let checked = match kind {
            CommandKind::Ask(kind) => {
                Ask::check_words(kind, command).map_err(|text| ("bad_request", text))
            }
            _ => Ok(()),
        };
        let queued = self.transaction.as_mut();
        let add = || queued.map_or(Ok(()), |queued| queued.add(kind, command));
        match checked.and_then(|()| add()) {
            Ok(()) => Replies::new(out, self.version).simple("QUEUED"),
            Err((kind, text)) => self.reject(kind, &text, out),
        }
    }

    /// Answers `MULTI`.
    fn begin_transaction(&mut self, out: &mut Vec<u8>) {
        if self.transaction.is_some() {
            return self.reject("bad_request", "ERR MULTI calls can not be nested", out);
        }
        self.transaction = Some(Transaction::new(self.connection));
        Replies::new(out, self.version).simple("OK");
    }

    /// Answers `EXEC`: the replies to the commands follow.
    fn commit(&mut self, out: &mut Vec<u8>) {
        let text = match self.transaction.take() {
            None => "ERR EXEC without MULTI",
            Some(transaction) if transaction.is_rejected() => {
                "EXECABORT Transaction discarded because of previous errors."
            }
            Some(transaction) => {
                Replies::new(out, self.version).array(transaction.count());
                self.committed = Some(transaction);
                return;
            }
        };
        self.reject("bad_request", text, out);
    }

    /// Takes a command that the rules decide.
    fn ask(&mut self, kind: AskKind, command: &Command<'_>, out: &mut Vec<u8>) -> Step {
        self.decide_throttles(out);
        let is_admin = self.user == Some(User::Admin);
        let rejection = match kind {
            AskKind::Reset if !is_admin => Some(match self.service.passwords.has_admin() {
                true => "NOPERM TG.RESET needs the user admin: AUTH admin PASSWORD",
                false => {
                    "NOPERM TG.RESET needs the user admin, which \
                     `redis_protocol.admin_password_file` in the settings makes"
                }
            }),
            AskKind::Refund if !is_admin && !self.service.allow_refund => Some(
                "NOPERM TG.REFUND needs the user admin, or `allow_refund: true` in the settings",
            ),
            _ => None,
        };
        let read = match rejection {
            Some(text) => Err(("not_permitted", text.to_owned())),
            None => Ask::read(kind, command).map_err(|text| ("bad_request", text)),
        };
        match read {
            Ok(ask) => self.asks.push(ask),
            Err(_) if !self.asks.is_empty() => return Step::DecideFirst,
            Err((kind, text)) => self.reject(kind, &text, out),
        }
        Step::Taken
    }

    /// Decides on everything that waits, and writes the replies.
    #[inline]
    pub(super) async fn decide(&mut self, out: &mut Vec<u8>) {
        self.decide_throttles(out);
        if !self.asks.is_empty() {
            self.decide_asks(out).await;
        }
    }

    #[inline]
    fn decide_throttles(&mut self, out: &mut Vec<u8>) {
        if self.throttles.is_empty() {
            return;
        }
        let service = self.service;
        let mut span = service.begin_span(THROTTLE);
        let began = Instant::now();
        let mut replies = Replies::new(out, self.version);
        let counts = self.throttles.decide(&service.throttles, &mut replies);
        for _error in 0..counts.errors {
            service.count_error("store");
        }
        let took = began.elapsed();
        describe_throttles(&mut span, counts, began);
        service.metrics.record_decision(NAME, took, &span);
    }

    /// Decides on all requests at once, in their order.
    async fn decide_asks(&mut self, out: &mut Vec<u8>) {
        self.connection.begin_request();
        let asks = std::mem::take(&mut self.asks);
        let service = self.service;
        let requests: Vec<Request<'_>> = asks.iter().map(Ask::request).collect();
        let mut span = service.begin_span(ask::name(&asks));
        let mut replies = Replies::new(out, self.version);
        let began = Instant::now();
        let (mut answered, mut failed) = (0, 0);
        let mut answer = |decided: &Result<Decided, StoreError>| {
            match decided {
                Ok(_) => answered += 1,
                Err(_) => failed += 1,
            }
            ask::reply(decided, &mut replies);
        };
        // A span describes all requests, with their answers.
        let is_decided = !span.is_sampled()
            && service
                .engine
                .decide_at_once(&requests, |_, decided| answer(&decided));
        let took = if is_decided {
            began.elapsed()
        } else {
            let decided = service.engine.decide_batch(&requests).await;
            let took = began.elapsed();
            describe_batch(&mut span, &requests, &decided, began);
            decided.iter().for_each(answer);
            took
        };
        service.count_decisions((answered, failed), took, &span);
        self.connection.end_request(Instant::now());
    }

    /// Answers a command for which there is no room; the connection ends. Who has not said who they
    /// are get the answer of Redis, which bounds what they may send as well.
    pub(super) fn reject_large(&mut self, out: &mut Vec<u8>) {
        match self.user {
            Some(_) => self.reject("no_room", NO_ROOM, out),
            None => {
                let text = "ERR Protocol error: unauthenticated bulk length";
                self.reject("protocol", text, out);
            }
        }
        self.end();
    }

    /// Answers bytes that are not a command; the connection ends.
    pub(super) fn reject_bytes(&mut self, error: ProtocolError, out: &mut Vec<u8>) {
        self.reject("protocol", &format!("ERR {error}"), out);
        self.end();
    }

    /// Answers a command with an error.
    pub(super) fn reject(&mut self, kind: &'static str, text: &str, out: &mut Vec<u8>) {
        self.decide_throttles(out);
        self.service.count_error(kind);
        if let Some(transaction) = &mut self.transaction {
            transaction.reject();
        }
        Replies::new(out, self.version).error(text);
    }

    /// Answers a command that nobody knows. The words of HTTP end the connection without a reply:
    /// a browser that was made to send them must not reach anything behind them.
    fn reject_unknown(&mut self, command: &Command<'_>, out: &mut Vec<u8>) {
        let name = command.name();
        if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"HOST:") {
            self.decide_throttles(out);
            self.service.count_error("cross_protocol");
            self.end();
            return;
        }
        let (name, words) = (shown(name), quote_words(command.words(1)));
        let text = format!("ERR unknown command '{name}', with args beginning with: {words}");
        self.reject("unknown_command", &text, out);
    }
}
