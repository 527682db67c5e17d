//! How idle a connection is, and the listeners that can close one of theirs.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// A connection that has sent a request within this time is not idle.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// A new connection that has not sent a request within this time is idle: enough for a round trip
/// to another continent, and so short that all permits can be replaced several times a second.
/// Otherwise an attacker would keep them all with connections that it opens again and again.
const FIRST_REQUEST_WITHIN: Duration = Duration::from_millis(250);

/// How little an idle connection loses if it is closed: the greatest loses least. Those that have
/// not sent a request yet lose less than all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Idleness {
    is_without_request: bool,
    time: Duration,
}

/// What closes idle connections of one listener.
pub(crate) trait CloseIdle: Debug + Send + Sync {
    /// The idleness of the connection that would be closed.
    fn greatest_idleness(&self, now: Instant) -> Option<Idleness>;

    /// Closes that connection, so that its file is free soon; whether there was one.
    fn close_idlest(&self, now: Instant) -> bool;
}

// === impl Idleness ===

impl Idleness {
    /// Of a connection on which no request has arrived for `time`; `None` if it is not idle.
    pub(crate) fn new(has_requested: bool, time: Duration) -> Option<Idleness> {
        let idle_after = match has_requested {
            true => IDLE_AFTER,
            false => FIRST_REQUEST_WITHIN,
        };
        (time >= idle_after).then_some(Idleness {
            is_without_request: !has_requested,
            time,
        })
    }
}
