//! The replies to `AUTH` and `HELLO`: whether we may connect, and the server's role.
//!
//! The role is read with `HELLO`, which every user may call. `ROLE` and `INFO` need permissions: a
//! user with `-@admin` has no `ROLE`.

use bytes::BytesMut;

use crate::failure::error_code;
use crate::resp::{self, Reply, printable};

/// Whether a server accepts writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    Replica,
}

/// The mode in which a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Standalone,
    ClusterNode,
    Sentinel,
}

/// A server's role and mode; empty if it does not know `HELLO` (before Redis 6, and some
/// proxies).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) role: Option<Role>,
    pub(crate) kind: Option<Kind>,
}

/// Writes the command.
pub(crate) fn write(out: &mut BytesMut) {
    resp::command(out, 2);
    resp::word(out, b"HELLO");
    resp::word(out, b"2");
}

/// Checks the reply to `AUTH`. The error does not quote the server: one that does not know the
/// command repeats its arguments, and one of them is the password.
pub(crate) fn check_auth(reply: &Reply) -> Result<(), String> {
    match reply {
        Reply::Simple(_) => Ok(()),
        Reply::Error(text) => Err(explain_rejection("AUTH", text)),
        _ => Err("AUTH was answered with no status; is this Redis?".to_owned()),
    }
}

fn explain_rejection(command: &str, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    known_reason(command, &text).unwrap_or_else(|| {
        let code = error_code(&text);
        format!(
            "{command} was rejected ({code}); the server's words are not shown, because they may \
             repeat the password"
        )
    })
}

/// Why the server rejects the connection, in words of our own, if its error is well known.
fn known_reason(command: &str, text: &str) -> Option<String> {
    if text.contains("without any password configured") {
        return Some(format!(
            "{command} was rejected: the default user has no password; remove the password here, \
             or give the user one"
        ));
    }
    let reason = match error_code(text) {
        "WRONGPASS" => {
            return Some(format!(
                "{command} was rejected (WRONGPASS): wrong user or password"
            ));
        }
        "NOAUTH" => "a password is needed (NOAUTH)",
        "LOADING" => "the server is loading its data (LOADING)",
        _ if text.contains("max number of clients") => {
            "the server accepts no more connections (max number of clients reached: `maxclients`)"
        }
        _ if text.starts_with("DENIED") => {
            "the server accepts no connections from other hosts (DENIED): it is in protected mode, \
             and its default user has no password"
        }
        _ => return None,
    };
    Some(reason.to_owned())
}

/// Whether an error means no more than that the server or this user has no such command.
fn has_no_command(text: &str) -> bool {
    let is_unknown = ["unknown command", "unsupported command"]
        .iter()
        .any(|words| text.contains(words));
    is_unknown || text.starts_with("NOPROTO") || error_code(text) == "NOPERM"
}

// === impl Hello ===

impl Hello {
    /// Parses the reply.
    ///
    /// # Errors
    ///
    /// Why the server rejects the connection: a password is required, it is still loading its data,
    /// it has too many clients, ...
    pub(crate) fn read(reply: &Reply) -> Result<Hello, String> {
        if let Reply::Error(text) = reply {
            let shown = String::from_utf8_lossy(text);
            return match has_no_command(&shown) {
                true => Ok(Hello::default()),
                false => Err(known_reason("HELLO", &shown).unwrap_or_else(|| printable(text))),
            };
        }
        let mut hello = Hello::default();
        for pair in reply.elements().chunks_exact(2) {
            match (pair[0].text(), pair[1].text()) {
                (Some("role"), Some("master")) => hello.role = Some(Role::Primary),
                (Some("role"), Some("replica" | "slave")) => hello.role = Some(Role::Replica),
                (Some("mode"), Some("standalone")) => hello.kind = Some(Kind::Standalone),
                (Some("mode"), Some("cluster")) => hello.kind = Some(Kind::ClusterNode),
                (Some("mode"), Some("sentinel")) => hello.kind = Some(Kind::Sentinel),
                _ => {}
            }
        }
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;

    use super::*;

    fn error(text: &'static str) -> Reply {
        Reply::Error(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn no_error_of_auth_repeats_what_the_server_says() {
        let echoes = [
            "ERR unknown command `AUTH`, with args beginning with: `hunter2`",
            "hunter2",
            "WRONGPASS hunter2 is wrong",
            "ERR AUTH hunter2 called without any password configured for the default user",
            "NOPERM hunter2",
        ];
        for echo in echoes {
            let reply = check_auth(&error(echo)).unwrap_err();
            assert!(!reply.contains("hunter2"), "{reply}");
        }
        assert!(check_auth(&Reply::Simple(Bytes::from_static(b"OK"))).is_ok());
        assert!(check_auth(&Reply::Bulk(Bytes::from_static(b"hunter2"))).is_err());
    }

    #[test]
    fn a_server_without_hello_is_unknown_and_one_that_wants_a_password_says_so() {
        let unknown = error("ERR unknown command `HELLO`, with args beginning with: `2`");
        assert_eq!(Hello::read(&unknown), Ok(Hello::default()));
        let without = [
            "NOPERM this user has no permissions to run the 'hello' command",
            "NOPROTO unsupported protocol version",
        ];
        for text in without {
            assert_eq!(Hello::read(&error(text)), Ok(Hello::default()), "{text}");
        }
        let wanted = Hello::read(&error("NOAUTH HELLO must be called with hunter2"));
        assert_eq!(wanted, Err("a password is needed (NOAUTH)".to_owned()));
        let rejected = Hello::read(&error("ERR upstream failure"));
        assert_eq!(rejected, Err("ERR upstream failure".to_owned()));
    }
}
