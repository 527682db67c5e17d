//! `COMMAND`, `INFO` and `CONFIG GET`: what clients ask about the server when they connect.

use std::fmt::Write;

use tollgate_resp::{Command, Replies};

use super::command_table::{COMMANDS, Known, find};
use super::session::Session;

/// The version of Redis whose answers to the commands that there are these are.
const REDIS_VERSION: &str = "7.0.0";
/// The settings that clients ask for. `redis-benchmark` prints the first two.
const SETTINGS: [(&str, &str); 3] = [("save", ""), ("appendonly", "no"), ("databases", "1")];

/// `COMMAND`, and those of its subcommands that clients use. The table of commands has checked the
/// number of words.
pub(super) fn command(session: &Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    let subcommand = command.word(1).unwrap_or_default().to_ascii_uppercase();
    let mut replies = Replies::new(out, session.version);
    match (&*subcommand, command.len()) {
        (b"", 1) | (b"INFO", 2) => {
            replies.array(COMMANDS.len());
            COMMANDS
                .iter()
                .for_each(|known| describe(known, &mut replies));
        }
        (b"INFO", _) => {
            replies.array(command.len() - 2);
            for name in command.words(2) {
                match find(name) {
                    Some(known) => describe(known, &mut replies),
                    None => replies.null(),
                }
            }
        }
        (b"COUNT", _) => replies.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX)),
        (b"LIST", _) => {
            replies.array(COMMANDS.len());
            for known in &COMMANDS {
                replies.bulk(known.name.to_ascii_lowercase().as_bytes());
            }
        }
        // For the hints of redis-cli.
        (b"DOCS", _) => replies.map(0),
        // The table of commands has no other.
        _ => replies.null(),
    }
}

/// The ten fields of Redis 7: libraries read them by their place, and as many as the version that
/// [`info`] states has.
fn describe(known: &Known, replies: &mut Replies<'_>) {
    let key = i64::from(known.has_key);
    replies.array(10);
    replies.bulk(known.name.to_ascii_lowercase().as_bytes());
    replies.integer(known.arity());
    write_set(&["fast"], replies);
    for _of_keys in ["first", "last", "step"] {
        replies.integer(key);
    }
    // The categories of access control lists. Then hints, which there are none of.
    write_set(&["@fast"], replies);
    replies.set(0);
    replies.set(usize::from(known.has_key));
    if known.has_key {
        describe_key(replies);
    }
    // Subcommands.
    replies.set(0);
}

/// Where a command has its only key: in its second word.
fn describe_key(replies: &mut Replies<'_>) {
    replies.map(3);
    replies.bulk(b"flags");
    write_set(&["RW", "access", "update"], replies);
    let mut search = |name: &str, kind: &str, terms: &[(&str, i64)]| {
        replies.bulk(name.as_bytes());
        replies.map(2);
        for text in ["type", kind, "spec"] {
            replies.bulk(text.as_bytes());
        }
        replies.map(terms.len());
        for (name, number) in terms {
            replies.bulk(name.as_bytes());
            replies.integer(*number);
        }
    };
    search("begin_search", "index", &[("index", 1)]);
    let range = [("lastkey", 0), ("keystep", 1), ("limit", 0)];
    search("find_keys", "range", &range);
}

fn write_set(items: &[&str], replies: &mut Replies<'_>) {
    replies.set(items.len());
    items.iter().for_each(|item| replies.simple(item));
}

/// `INFO`, whatever sections are asked for.
pub(super) fn info(replies: &mut Replies<'_>) {
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    let written = write!(
        text,
        "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\
         tollgate_version:{version}\r\n\r\n# Persistence\r\nloading:0\r\n\r\n\
         # Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n\
         # Cluster\r\ncluster_enabled:0\r\n"
    );
    written.expect("a String takes everything");
    replies.bulk(text.as_bytes());
}

/// `CONFIG GET`.
pub(super) fn config(session: &Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    let is_asked = |name: &str| {
        let is_it = |word: &[u8]| word == b"*" || word.eq_ignore_ascii_case(name.as_bytes());
        command.words(2).any(is_it)
    };
    let found = SETTINGS.iter().filter(|(name, _)| is_asked(name));
    let mut replies = Replies::new(out, session.version);
    replies.map(found.clone().count());
    for (name, value) in found {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
}
