//! One simulated Redis server: its clock, its scripts, and how it answers a command.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use crate::keyspace::Keyspace;
use crate::locality::Locality;
use crate::resp::Reply;
use crate::script::{self, Context, Failed};

/// One server process.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) keyspace: Keyspace,
    /// By name.
    scripts: BTreeMap<String, Arc<str>>,
    /// Whether it lost them while it was running.
    pub(crate) has_lost_scripts: bool,
    pub(crate) clock: ServerClock,
    pub(crate) is_up: bool,
    /// Until when it is stopped, as by SIGSTOP: it neither reads nor answers.
    pub(crate) stopped_until: Option<Instant>,
    pub(crate) loading_until: Option<Instant>,
    /// Whether it is at `maxmemory`, with `noeviction`.
    pub(crate) is_full: bool,
    /// Errors of the scripts themselves; correct scripts have none.
    pub(crate) script_errors: Vec<String>,
}

/// A server's clock, in microseconds since 1970.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerClock {
    /// How far it is ahead of the simulated time.
    offset: i64,
    /// The last time that it returned since it was set.
    last: u64,
    /// The time at which it is stopped, if it is.
    fixed: Option<u64>,
}

// === impl Server ===

impl Server {
    pub(crate) fn new() -> Server {
        Server {
            is_up: true,
            ..Server::default()
        }
    }

    /// Restarts as a new process with these keys, without scripts.
    pub(crate) fn restart(&mut self, keyspace: Keyspace) {
        self.keyspace = keyspace;
        self.scripts.clear();
        self.has_lost_scripts = false;
        self.is_up = true;
        self.stopped_until = None;
    }

    pub(crate) fn forget_scripts(&mut self) {
        self.has_lost_scripts |= !self.scripts.is_empty();
        self.scripts.clear();
    }

    /// `SCRIPT`.
    pub(crate) fn script(&mut self, words: &[Vec<u8>]) -> Reply {
        match words {
            [load, text] if load.eq_ignore_ascii_case(b"LOAD") => {
                let name = script::name_of(text);
                let text = String::from_utf8_lossy(text).into();
                self.scripts.insert(name.clone(), text);
                Reply::bulk(name)
            }
            [flush] if flush.eq_ignore_ascii_case(b"FLUSH") => {
                self.scripts.clear();
                Reply::ok()
            }
            _ => Reply::error("ERR unknown subcommand of SCRIPT"),
        }
    }

    /// The text and the name of the script of `EVAL` or `EVALSHA`.
    fn find_script(&self, command: &str, word: &[u8]) -> Option<(Arc<str>, String)> {
        if command == "EVAL" {
            let text = String::from_utf8_lossy(word).into();
            return Some((text, script::name_of(word)));
        }
        let name = String::from_utf8_lossy(word).to_ascii_lowercase();
        let text = self.scripts.get(&name)?.clone();
        Some((text, name))
    }

    /// `EVAL` and `EVALSHA`, on this server's keys.
    pub(crate) fn eval(
        &mut self,
        command: &str,
        words: &[Vec<u8>],
        (micros, is_read_only, locality): (u64, bool, Option<Locality>),
    ) -> Reply {
        let Some((text, name)) = self.find_script(command, &words[0]) else {
            return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        };
        let (keys, args) = words[2..].split_at(key_count(words));
        let context = Context {
            is_full: self.is_full,
            is_read_only,
            locality,
            ..Context::new(std::mem::take(&mut self.keyspace), micros)
        };
        let (result, context) = script::run(&text, &name, keys, args, context);
        self.keyspace = context.keyspace;
        match result {
            Ok(reply) => reply,
            Err(Failed::Command(text)) => {
                Reply::error(format!("{text} script: {name}, on @user_script:1."))
            }
            Err(Failed::Script(text)) => {
                let line = text.replace(['\r', '\n'], " ");
                self.script_errors.push(text);
                Reply::error(format!("ERR {line} script: {name}, on @user_script:1."))
            }
        }
    }
}

/// The number of keys of a script call.
pub(crate) fn key_count(words: &[Vec<u8>]) -> usize {
    let text = std::str::from_utf8(&words[1]).expect("a count is text");
    text.parse().expect("a count is a number")
}

// === impl ServerClock ===

impl ServerClock {
    /// Its time at `micros` of the simulated time; it never goes back.
    pub(crate) fn tell(&mut self, micros: u64) -> u64 {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        self.last = self.last.max(micros.saturating_add_signed(self.offset));
        self.last
    }

    /// How many nanoseconds it is ahead of the simulated time.
    pub(crate) const fn ahead(&self) -> i64 {
        self.offset * 1_000
    }

    /// Whether it was set.
    pub(crate) const fn is_set(&self) -> bool {
        self.offset != 0
    }

    /// Sets the clock forward or back.
    pub(crate) fn jump(&mut self, micros: i64) {
        self.offset += micros;
        self.last = 0;
    }

    /// Stops the clock at this moment.
    pub(crate) const fn stop_at(&mut self, micros: u64) {
        self.fixed = Some(micros);
    }
}
