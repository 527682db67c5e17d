//! The replies to `AUTH` and `HELLO`: whether we may connect, and the server's role.
//!
//! The role is read with `HELLO`, which every user may call. `ROLE` and `INFO` need permissions: a
//! user with `-@admin` has no `ROLE`.

use bytes::BytesMut;

use crate::failure::error_code;
use crate::resp::{self, Reply};

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
    if text.contains("without any password configured") {
        return format!(
            "{command} was rejected: the default user has no password; remove the password here, \
             or give the user one"
        );
    }
    match error_code(&text) {
        "WRONGPASS" => format!("{command} was rejected (WRONGPASS): wrong user or password"),
        "NOAUTH" => "a password is needed (NOAUTH)".to_owned(),
        "LOADING" => "the server is loading its data (LOADING)".to_owned(),
        code => format!(
            "{command} was rejected ({code}); the server's words are not shown, because they may \
             repeat the password"
        ),
    }
}

// === impl Hello ===

impl Hello {
    /// Parses the reply.
    ///
    /// # Errors
    ///
    /// A password is required, or the server is still loading its data.
    pub(crate) fn read(reply: &Reply) -> Result<Hello, String> {
        if let Reply::Error(text) = reply {
            let text = String::from_utf8_lossy(text);
            return match error_code(&text) {
                code @ ("NOAUTH" | "LOADING") => Err(explain_rejection("HELLO", code.as_bytes())),
                _ => Ok(Hello::default()),
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
        let wanted = Hello::read(&error("NOAUTH HELLO must be called with hunter2"));
        assert_eq!(wanted, Err("a password is needed (NOAUTH)".to_owned()));
    }
}
