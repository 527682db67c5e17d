//! `HELLO`, `AUTH`, `SELECT` and `CLIENT`: what clients say about themselves.

use tollgate_resp::{Command, Replies, Version};
use tracing::warn;

use super::description::REDIS_VERSION;
use super::passwords::{ADMIN, DEFAULT, Rejected, User};
use super::session::Session;
use super::word::{integer, shown};

/// The longest name of a client. Some have the name of the program, its version and its host.
const NAME_BYTES_MAX: usize = 512;
/// After so many wrong passwords a connection ends.
const FAILURES_MAX: u32 = 8;

/// `HELLO [version [AUTH user password] [SETNAME name]]`.
pub(super) fn hello(session: &mut Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    let version = match command.word(1) {
        None => session.version,
        Some(b"2") => Version::Two,
        Some(b"3") => Version::Three,
        Some(word) => {
            let text = match integer(word) {
                Some(_) => "NOPROTO unsupported protocol version",
                None => "ERR Protocol version is not an integer or out of range",
            };
            return session.reject("bad_request", text, out);
        }
    };
    let (mut at, mut name) = (2, None);
    let mut user = session.user;
    while let Some(option) = command.word(at) {
        if option.eq_ignore_ascii_case(b"AUTH") && command.len() > at + 2 {
            let word = |index| command.word(index).unwrap_or_default();
            match session
                .service
                .passwords
                .user(Some(word(at + 1)), word(at + 2))
            {
                Ok(found) => user = Some(found),
                Err(rejected) => return reject_user(session, rejected, out),
            }
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && command.len() > at + 1 {
            name = command.word(at + 1);
            at += 2;
        } else {
            let text = format!("ERR Syntax error in HELLO option '{}'", shown(option));
            return session.reject("bad_request", &text, out);
        }
    }
    if user.is_none() {
        let text = "NOAUTH HELLO must be called with the client already authenticated, otherwise \
            the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client \
            and select the RESP protocol version at the same time";
        return session.reject("not_authenticated", text, out);
    }
    if let Some(name) = name
        && let Err(text) = set_name(session, name)
    {
        return session.reject("bad_request", text, out);
    }
    (session.user, session.version) = (user, version);
    greet(session, out);
}

/// The fields of Redis, in its order: in version 2 they are an array, in which some clients know
/// them by their place.
fn greet(session: &Session<'_>, out: &mut Vec<u8>) {
    let mut replies = Replies::new(out, session.version);
    let text = |replies: &mut Replies<'_>, key: &str, value: &str| {
        replies.bulk(key.as_bytes());
        replies.bulk(value.as_bytes());
    };
    replies.map(7);
    text(&mut replies, "server", "tollgate");
    // Clients conclude from it which commands there are.
    text(&mut replies, "version", REDIS_VERSION);
    replies.bulk(b"proto");
    replies.integer(match session.version {
        Version::Two => 2,
        Version::Three => 3,
    });
    replies.bulk(b"id");
    replies.integer(i64::try_from(session.id).unwrap_or(i64::MAX));
    text(&mut replies, "mode", "standalone");
    text(&mut replies, "role", "master");
    replies.bulk(b"modules");
    replies.array(0);
}

/// `AUTH [user] password`.
pub(super) fn auth(session: &mut Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    let word = |index| command.word(index).unwrap_or_default();
    let found = match command.len() {
        2 => session.service.passwords.user(None, word(1)),
        3 => session.service.passwords.user(Some(word(1)), word(2)),
        _ => return session.reject("bad_request", "ERR syntax error", out),
    };
    match found {
        Ok(user) => {
            session.user = Some(user);
            Replies::new(out, session.version).simple("OK");
        }
        Err(rejected) => reject_user(session, rejected, out),
    }
}

/// Answers a client that is not who it says. Several wrong passwords end its connection.
fn reject_user(session: &mut Session<'_>, rejected: Rejected, out: &mut Vec<u8>) {
    if rejected == Rejected::NoPassword {
        let text = "ERR AUTH <password> called without any password configured for the default \
            user. Are you sure your configuration is correct?";
        return session.reject("bad_request", text, out);
    }
    session.failures += 1;
    if session.failures >= FAILURES_MAX {
        session.end();
    }
    let peer = session.peer();
    if let Some(withheld) = session.service.wrong_passwords.allow() {
        warn!(%peer, withheld, "a client of the Redis protocol gave a wrong user or password");
    }
    let text = "WRONGPASS invalid username-password pair or user is disabled.";
    session.reject("wrong_password", text, out);
}

/// `SELECT`: there is one database.
pub(super) fn select(session: &mut Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    let text = match integer(command.word(1).unwrap_or_default()) {
        Some(0) => return Replies::new(out, session.version).simple("OK"),
        Some(index) if i32::try_from(index).is_ok() => "ERR DB index is out of range",
        Some(_) => "ERR value is out of range, value must between -2147483648 and 2147483647",
        None => "ERR value is not an integer or out of range",
    };
    session.reject("bad_request", text, out);
}

/// `CLIENT`, as far as clients use it when they connect. The table of commands has checked the
/// number of words.
pub(super) fn client(session: &mut Session<'_>, command: &Command<'_>, out: &mut Vec<u8>) {
    let subcommand = command.word(1).unwrap_or_default().to_ascii_uppercase();
    let mut replies = Replies::new(out, session.version);
    match &*subcommand {
        b"ID" => replies.integer(i64::try_from(session.id).unwrap_or(i64::MAX)),
        b"GETNAME" if session.name.is_empty() => replies.null(),
        b"GETNAME" => replies.bulk(&session.name),
        b"SETNAME" => match set_name(session, command.word(2).unwrap_or_default()) {
            Ok(()) => replies.simple("OK"),
            Err(text) => session.reject("bad_request", text, out),
        },
        // Redis uses these for statistics and evictions of clients, which there are none of here.
        b"SETINFO" => match check_library(command) {
            Ok(()) => replies.simple("OK"),
            Err(text) => session.reject("bad_request", &text, out),
        },
        b"NO-EVICT" | b"NO-TOUCH" => match command.word(2).unwrap_or_default() {
            word if is_switch(word) => replies.simple("OK"),
            _ => session.reject("bad_request", "ERR syntax error", out),
        },
        b"INFO" => {
            let user = match session.user {
                Some(User::Admin) => ADMIN,
                Some(User::Default) | None => DEFAULT,
            };
            let name = String::from_utf8_lossy(&session.name);
            let resp = if session.version == Version::Three {
                3
            } else {
                2
            };
            let (id, user) = (session.id, String::from_utf8_lossy(user));
            let text = format!("id={id} name={name} db=0 user={user} resp={resp}\n");
            replies.text(&text);
        }
        // The table of commands has no other.
        _ => replies.null(),
    }
}

/// Whether a word switches something on or off.
const fn is_switch(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"ON") || word.eq_ignore_ascii_case(b"OFF")
}

/// Checks what a client says about its library, as Redis 7.2 does.
fn check_library(command: &Command<'_>) -> Result<(), String> {
    let word = |index| command.word(index).unwrap_or_default();
    let mut options = ["lib-name", "lib-ver"].into_iter();
    if !options.any(|option| option.as_bytes().eq_ignore_ascii_case(word(2))) {
        return Err(format!("ERR Unrecognized option '{}'", shown(word(2))));
    }
    match word(3).iter().all(u8::is_ascii_graphic) {
        true => Ok(()),
        false => Err(format!(
            "ERR {} cannot contain spaces, newlines or special characters.",
            shown(word(2))
        )),
    }
}

/// Names are visible characters of ASCII, as in Redis.
fn set_name(session: &mut Session<'_>, name: &[u8]) -> Result<(), &'static str> {
    if name.len() > NAME_BYTES_MAX {
        return Err("ERR Client names have at most 512 bytes");
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    session.name = name.to_vec();
    Ok(())
}
