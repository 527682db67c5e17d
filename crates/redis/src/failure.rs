//! Why a request has no reply, and whether it may have been charged.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Span, StoreError};

use crate::resp::{Malformed, printable};

/// Why a request has no reply. Only after [`Failure::is_unknown`] it may have been charged.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It was not sent.
    Unreachable(Arc<str>),
    /// The server says that it did not execute it.
    Rejected(ErrorReply),
    /// It was sent, and no reply came in time, or the connection broke: the outcome is unknown.
    OutcomeUnknown,
    /// `MOVED`: another node serves the slot.
    Moved { slot: u16, address: String },
    /// `ASK`: the slot is migrating, and another node already has the key.
    Ask { address: String },
    /// `TRYAGAIN`: the slot is migrating, and its keys are on two nodes.
    TryAgain,
    /// `CLUSTERDOWN Hash slot not served`: the node knows none that serves the slot.
    Unserved(ErrorReply),
    /// The limit of a bucket has changed: the general script is needed.
    Changed,
    /// The keys are in several slots, and the node cannot decide on them in one call.
    Apart,
    /// The reply is malformed.
    Malformed(Malformed),
}

/// An error reply to a script call that was not executed.
pub(crate) enum Rejection {
    /// The script is not loaded.
    NoScript,
    /// The server is not a primary, or not yet: find the primary, and reconnect.
    NotMaster(ErrorReply),
    /// Another node, or the same one later, can execute it.
    Elsewhere(Failure),
    /// The server cannot execute it: it is out of memory, lacks permission, has too few replicas,
    /// ...
    Unable(ErrorReply),
}

/// An error reply that is not a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorReply {
    /// One of [`ERROR_CODES`].
    pub(crate) code: &'static str,
    /// The beginning of the error text.
    pub(crate) text: Arc<str>,
}

/// The reason of a request that expired before it was sent.
pub(crate) const NO_ANSWER: &str = "no reply in time, and nothing was charged";

/// Part of the error of a script whose user may not run one of its commands, since Redis 7.0.
const NO_RIGHT_IN_SCRIPT: &str = "user executing the script can't run this command";
/// What to do if a user lacks a right.
const REMEDY_OF_RIGHTS: &str =
    "give the Redis user the rights that docs/redis.md lists under What Redis needs";

/// Codes of error replies in logs and metrics. The last one stands for all others.
pub const ERROR_CODES: [&str; 14] = [
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "NOAUTH",
    "NOPERM",
    "WRONGPASS",
    "OOM",
    "NOREPLICAS",
    "MISCONF",
    "BUSY",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "WRONGTYPE",
    "ERR",
];

/// Which of [`ERROR_CODES`] an error has. Redis 6 wraps the errors of a script's commands, so the
/// code need not come first.
pub(crate) fn error_code(text: &str) -> &'static str {
    let (last, codes) = ERROR_CODES.split_last().expect("there are some");
    let is_border = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let mut words = text.split(is_border);
    let found = words.find_map(|word| codes.iter().find(|code| **code == word));
    found.unwrap_or(last)
}

/// The source of the error of an overloaded store: has no text of its own, so needs no memory.
#[derive(Debug)]
pub(crate) struct Busy;

/// The text of a failure, as the source of an error.
#[derive(Debug)]
struct FailureText(Arc<str>);

// === impl Rejection ===

impl Rejection {
    /// Parses an error reply to a script call.
    pub(crate) fn read(text: &[u8]) -> Rejection {
        let text = String::from_utf8_lossy(text);
        let mut words = text.split(' ');
        let (code, slot, address) = (words.next(), words.next(), words.next());
        match (code.unwrap_or(""), slot, address) {
            ("NOSCRIPT", ..) => return Rejection::NoScript,
            ("MOVED", Some(slot), Some(address)) => {
                return Rejection::Elsewhere(match slot.parse() {
                    Ok(slot) => Failure::Moved {
                        slot,
                        address: address.to_owned(),
                    },
                    Err(_) => Failure::Malformed(Malformed("a redirect without a valid slot")),
                });
            }
            ("ASK", Some(_), Some(address)) => {
                return Rejection::Elsewhere(Failure::Ask {
                    address: address.to_owned(),
                });
            }
            ("TRYAGAIN", ..) => return Rejection::Elsewhere(Failure::TryAgain),
            // Another node may serve the slot by now. The other error (`The cluster is down`) lasts
            // for seconds, and retrying would multiply the load meanwhile.
            ("CLUSTERDOWN", Some("Hash"), _) => {
                return Rejection::Elsewhere(Failure::Unserved(ErrorReply::read(&text)));
            }
            _ => {}
        }
        let reply = ErrorReply::read(&text);
        match reply.code {
            "READONLY" | "LOADING" | "MASTERDOWN" | "NOAUTH" => Rejection::NotMaster(reply),
            _ => Rejection::Unable(reply),
        }
    }
}

// === impl ErrorReply ===

impl ErrorReply {
    pub(crate) fn read(text: &str) -> ErrorReply {
        ErrorReply {
            code: error_code(text),
            text: Arc::from(printable(text.as_bytes())),
        }
    }

    /// Whether its code is none of the well-known ones.
    pub(crate) fn is_unknown(&self) -> bool {
        self.code == "ERR"
    }

    /// The failure of a request that was not executed: nothing was charged.
    pub(crate) fn failure(&self) -> Failure {
        Failure::Rejected(self.clone())
    }

    /// Whether a script cannot read the value of a key: it has another type, or reading it is an
    /// error in Lua.
    pub(crate) fn is_of_value(&self) -> bool {
        let in_lua = ["attempt to ", "bad argument "];
        let is_in_lua = self.is_unknown() && self.text.contains("user_script");
        self.code == "WRONGTYPE" || is_in_lua && in_lua.iter().any(|text| self.text.contains(text))
    }

    /// The text, and if the user lacks a right, what to do.
    fn text_with_remedy(self) -> Arc<str> {
        match self.code == "NOPERM" || self.text.contains(NO_RIGHT_IN_SCRIPT) {
            true => Arc::from(format!("{}; {REMEDY_OF_RIGHTS}", self.text)),
            false => self.text,
        }
    }
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ErrorReply {}

// === impl Failure ===

impl Failure {
    /// Whether the request may have been executed and charged.
    pub(crate) const fn is_unknown(&self) -> bool {
        matches!(self, Failure::OutcomeUnknown | Failure::Malformed(_))
    }

    pub(crate) fn unreachable(why: impl fmt::Display) -> Failure {
        Failure::Unreachable(Arc::from(why.to_string()))
    }

    /// The error of a store at `address` with this timeout.
    pub(crate) fn into_error(self, address: &str, timeout: Span) -> StoreError {
        let with_text = |text: Arc<str>| Box::new(FailureText(text));
        match self {
            Failure::OutcomeUnknown => StoreError::TimedOut { after: timeout },
            Failure::Malformed(malformed) => StoreError::BadReply {
                source: Box::new(malformed),
            },
            Failure::Unreachable(why) => StoreError::Unreachable {
                address: address.into(),
                source: with_text(why),
            },
            Failure::Rejected(error) | Failure::Unserved(error) => StoreError::Rejected {
                address: address.into(),
                source: with_text(error.text_with_remedy()),
            },
            Failure::TryAgain => StoreError::Contended,
            Failure::Moved { .. } | Failure::Ask { .. } | Failure::Changed | Failure::Apart => {
                StoreError::Unreachable {
                    address: address.into(),
                    source: with_text(Arc::from(
                        "the slot is migrating, and the migration took too long",
                    )),
                }
            }
        }
    }
}

// === impl Said ===

impl std::error::Error for FailureText {}

impl fmt::Display for FailureText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Busy ===

impl std::error::Error for Busy {}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_ANSWER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_an_error_is_found_wherever_it_stands() {
        let cases = [
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                "OOM",
            ),
            (
                "ERR Error running script (call to f_1): @user_script:9: -READONLY You can't write",
                "READONLY",
            ),
            ("NOPERM this user has no permissions", "NOPERM"),
            ("ERR unknown command 'EVALSHA', with args", "ERR"),
            ("-", "ERR"),
        ];
        for (text, code) in cases {
            assert_eq!(error_code(text), code, "{text}");
        }
    }

    #[test]
    fn an_error_says_which_value_or_right_is_the_cause() {
        let cases = [
            ("WRONGTYPE Operation against a key", true, false),
            (
                "ERR user_script:126: attempt to call field '?' (a nil value) script: f_1",
                true,
                false,
            ),
            (
                "ERR Error running script (call to f_1): @user_script:9: user_script:9: bad \
                 argument #2 to 'unpack' (data string too short)",
                true,
                false,
            ),
            ("NOPERM this user has no permissions", false, true),
            (
                "ERR The user executing the script can't run this command or subcommand script: \
                 f_1, on @user_script:1.",
                false,
                true,
            ),
            ("OOM command not allowed", false, false),
        ];
        for (text, is_of_value, is_of_rights) in cases {
            let reply = ErrorReply::read(text);
            assert_eq!(reply.is_of_value(), is_of_value, "{text}");
            let error = reply.failure().into_error("h:1", Span::SECOND);
            assert_eq!(error.to_string(), "h:1 rejects the command");
            let source = std::error::Error::source(&error)
                .expect("the reply")
                .to_string();
            assert_eq!(source.contains("docs/redis.md"), is_of_rights, "{source}");
        }
    }

    #[test]
    fn errors_that_another_server_may_not_have_ask_for_another_server() {
        let is_for_another =
            |text: &str| matches!(Rejection::read(text.as_bytes()), Rejection::NotMaster(_));
        assert!(is_for_another(
            "READONLY You can't write against a read only replica."
        ));
        assert!(is_for_another(
            "ERR Error running script: -READONLY You can't write"
        ));
        assert!(!is_for_another("OOM command not allowed"));
    }
}
