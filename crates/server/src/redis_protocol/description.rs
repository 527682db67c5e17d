//! `COMMAND`, `INFO` and `CONFIG GET`: what clients ask about the server when they connect.

use tollgate_resp::{Command, Replies};

use super::command_table::{COMMANDS, Known, find};
use super::session::Session;

mod glob;

/// The version of Redis whose answers to the commands that there are these are: what `HELLO` and
/// `INFO` say.
pub(super) const REDIS_VERSION: &str = "7.0.0";
/// The most names after `COMMAND INFO`, more than Redis has commands. Each may make a reply of 300
/// bytes.
const INFO_NAMES_MAX: usize = 250;
/// A section of `INFO`: its name, and the names and values of its fields.
type Section = (&'static str, &'static [(&'static str, &'static str)]);
/// The sections of `INFO`, in the order of Redis.
const SECTIONS: [Section; 4] = [
    (
        "Server",
        &[
            ("redis_version", REDIS_VERSION),
            ("redis_mode", "standalone"),
            ("tollgate_version", env!("CARGO_PKG_VERSION")),
        ],
    ),
    ("Persistence", &[("loading", "0")]),
    (
        "Replication",
        &[("role", "master"), ("connected_slaves", "0")],
    ),
    ("Cluster", &[("cluster_enabled", "0")]),
];
/// The settings that clients ask for. `redis-benchmark` prints the first two.
const SETTINGS: [(&str, &str); 3] = [("save", ""), ("appendonly", "no"), ("databases", "1")];

/// `COMMAND`, and those of its subcommands that clients use. The table of commands has checked the
/// number of words.
pub(super) fn command(session: &mut Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    let subcommand = command.word(1).unwrap_or_default().to_ascii_uppercase();
    let mut replies = Replies::new(out, session.version);
    match (&*subcommand, command.len()) {
        (b"", 1) | (b"INFO", 2) => {
            replies.array(COMMANDS.len());
            COMMANDS
                .iter()
                .for_each(|known| describe(known, &mut replies));
        }
        (b"INFO", words) if words > INFO_NAMES_MAX + 2 => {
            let text = format!("ERR COMMAND INFO takes at most {INFO_NAMES_MAX} names here");
            session.reject("bad_request", &text, out);
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
        (b"LIST", _) => list(session, command, out),
        // For the hints of redis-cli.
        (b"DOCS", _) => replies.map(0),
        // The table of commands has no other.
        _ => replies.null(),
    }
}

/// `COMMAND LIST [FILTERBY MODULE name | FILTERBY ACLCAT category | FILTERBY PATTERN pattern]`.
fn list(session: &mut Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    let word = |index| command.word(index).unwrap_or_default();
    let has_filter = |name: &[u8]| {
        word(2).eq_ignore_ascii_case(b"FILTERBY") && word(3).eq_ignore_ascii_case(name)
    };
    let is_listed: fn(&[u8], &Known) -> bool = match command.len() {
        2 => |_, _| true,
        5 if has_filter(b"PATTERN") => |word, known| glob::matches(word, known.name.as_bytes()),
        // As [`describe`] says of each.
        5 if has_filter(b"ACLCAT") => |word, _| word.eq_ignore_ascii_case(b"fast"),
        5 if has_filter(b"MODULE") => |_, _| false,
        _ => return session.reject("bad_request", "ERR syntax error", out),
    };
    let listed = COMMANDS.iter().filter(|known| is_listed(word(4), known));
    let names: Vec<String> = listed
        .map(|known| known.name.to_ascii_lowercase())
        .collect();
    let mut replies = Replies::new(out, session.version);
    replies.array(names.len());
    for name in names {
        replies.bulk(name.as_bytes());
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

/// `INFO`: the sections with these names; without any, all of them.
pub(super) fn info(command: &Command<'_>, replies: &mut Replies<'_>) {
    let is_asked = |section: &str| {
        let names = || ["all", "default", "everything", section].into_iter();
        let is_it = |word: &[u8]| names().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        command.len() == 1 || command.words(1).any(is_it)
    };
    let sections = SECTIONS.iter();
    let sections = sections.filter(|(name, _)| is_asked(&name.to_ascii_lowercase()));
    let texts = sections.map(|(name, fields)| {
        let fields = fields.iter();
        let fields = fields.map(|(field, value)| format!("{field}:{value}\r\n"));
        format!("# {name}\r\n{}", fields.collect::<String>())
    });
    replies.text(&texts.collect::<Vec<_>>().join("\r\n"));
}

/// `CONFIG GET`: the settings that a word names, or is a pattern of. A name is repeated as the
/// client writes it.
pub(super) fn config(session: &Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    let mut found: Vec<(&[u8], &str)> = Vec::with_capacity(SETTINGS.len());
    for word in command.words(2) {
        let is_pattern = word.iter().any(|byte| b"*?[".contains(byte));
        for (name, value) in SETTINGS {
            let name = name.as_bytes();
            let (is_match, shown) = match is_pattern {
                true => (glob::matches(word, name), name),
                false => (word.eq_ignore_ascii_case(name), word),
            };
            let is_new = || {
                found
                    .iter()
                    .all(|(known, _)| !known.eq_ignore_ascii_case(name))
            };
            if is_match && is_new() {
                found.push((shown, value));
            }
        }
    }
    let mut replies = Replies::new(out, session.version);
    replies.map(found.len());
    for (name, value) in found {
        replies.bulk(name);
        replies.bulk(value.as_bytes());
    }
}
