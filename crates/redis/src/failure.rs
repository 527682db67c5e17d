//! Why a question has no answer, and whether it was charged.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Span, StoreError};

use crate::resp::Malformed;

/// Why a question has no answer. Only [`Failure::Lost`] may have been charged.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It was not sent, or the server says that it did nothing.
    Unreachable(Arc<str>),
    /// It was sent, and no answer came in time, or the connection broke.
    Lost,
    /// Another node serves the slot.
    Moved { slot: u16, address: String },
    /// Another node serves the key already, while the slot moves.
    Ask { address: String },
    /// Some of the keys have moved already: not now.
    TryAgain,
    /// The limit of a bucket has changed: the general script is needed.
    Changed,
    /// The answer makes no sense.
    Malformed(Malformed),
}

/// What a server's error reply says about a script call that did nothing.
pub(crate) enum Refusal {
    /// The script is not there.
    NoScript,
    /// The server is no master any more, or not yet: connect again.
    NotMaster(Arc<str>),
    /// It concerns the questions, not the connection.
    Questions(Failure),
}

/// Words of a reply, as the source of an error.
#[derive(Debug)]
struct Said(Arc<str>);

// === impl Refusal ===

impl Refusal {
    /// Reads an error reply to a script call.
    pub(crate) fn read(text: &[u8]) -> Refusal {
        let text = String::from_utf8_lossy(text);
        let mut words = text.split(' ');
        let (code, slot, address) = (words.next(), words.next(), words.next());
        let said: Arc<str> = Arc::from(&*text);
        match (code.unwrap_or(""), slot, address) {
            ("NOSCRIPT", ..) => Refusal::NoScript,
            ("READONLY" | "LOADING" | "MASTERDOWN" | "NOAUTH", ..) => Refusal::NotMaster(said),
            ("MOVED", Some(slot), Some(address)) => Refusal::Questions(match slot.parse() {
                Ok(slot) => Failure::Moved {
                    slot,
                    address: address.to_owned(),
                },
                Err(_) => Failure::Malformed(Malformed("a redirection from no slot")),
            }),
            ("ASK", Some(_), Some(address)) => Refusal::Questions(Failure::Ask {
                address: address.to_owned(),
            }),
            ("TRYAGAIN" | "CLUSTERDOWN", ..) => Refusal::Questions(Failure::TryAgain),
            _ => Refusal::Questions(Failure::Unreachable(said)),
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(crate) fn unreachable(why: impl fmt::Display) -> Failure {
        Failure::Unreachable(Arc::from(why.to_string()))
    }

    /// The same as an error of the store at `address` that gives up after `timeout`.
    pub(crate) fn into_error(self, address: &str, timeout: Span) -> StoreError {
        let said = |text: Arc<str>| Box::new(Said(text));
        match self {
            Failure::Lost => StoreError::TimedOut { after: timeout },
            Failure::Malformed(malformed) => StoreError::BadReply {
                source: Box::new(malformed),
            },
            Failure::Unreachable(why) => StoreError::Unreachable {
                address: address.into(),
                source: said(why),
            },
            Failure::Moved { .. } | Failure::Ask { .. } | Failure::TryAgain | Failure::Changed => {
                StoreError::Unreachable {
                    address: address.into(),
                    source: said(Arc::from("the slot moves, and did not settle in time")),
                }
            }
        }
    }
}

// === impl Said ===

impl std::error::Error for Said {}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
